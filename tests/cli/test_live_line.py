"""The line that says how a long run is doing."""

from __future__ import annotations

import sys

import pytest

from eventsieve.cli._live_line import LiveLine


def test_elsewhere_than_on_a_terminal_every_line_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveLine() as line:
        assert not line.rewritten
        line.write("one batch")
        line.write("two batches")
    assert capsys.readouterr().err.splitlines() == ["one batch", "two batches"]


def test_on_a_terminal_the_line_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with LiveLine() as line:
        assert line.rewritten
        line.write("one batch")
        line.write("two batches")
    assert "two batches" in capsys.readouterr().err
