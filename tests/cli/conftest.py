"""Running commands in this process, with files in a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eventsieve.cli.app import app


class Outcome:
    """What a command wrote, and its exit code."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


Run = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two subscriptions and three events."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "subs.jsonl").write_text(
        '{"id": "alice", "filter": "price BETWEEN 10 AND 20"}\n{"id": 7, "filter": "symbol = \'B\' AND price > 15"}\n'
    )
    (tmp_path / "events.jsonl").write_text(
        '{"price": 12.5, "symbol": "A"}\n{"price": 99, "symbol": "A"}\n{"price": 18, "symbol": "B"}\n'
    )
    (tmp_path / "schema.json").write_text('{"price": "float", "symbol": "text"}')
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Run `eventsieve` with these arguments, and perhaps a standard input."""

    def runs(*arguments: str, stdin: str | None = None) -> Outcome:
        done = CliRunner().invoke(app, list(arguments), input=stdin)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Outcome(done.exit_code, done.stdout, done.stderr)

    return runs
