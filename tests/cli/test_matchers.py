"""`eventsieve matchers`: the registry as a table."""

from __future__ import annotations

import json

import pytest

from eventsieve.matchers.registry import default_params, matchers
from tests.cli.conftest import Run


def test_one_line_per_matcher_with_its_parameters(run: Run) -> None:
    records = run("matchers").records
    assert [record["name"] for record in records] == list(matchers())
    for record in records:
        assert record["params"] == json.loads(json.dumps(default_params(record["name"])))
        assert record["summary"]
        assert record["paper"]


def test_for_people_it_is_a_table_on_standard_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventsieve.cli.matchers.for_people", lambda json_asked: True)
    done = run("matchers")
    assert done.stdout == ""
    assert all(name in done.stderr for name in matchers())
