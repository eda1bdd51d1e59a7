"""`eventsieve sub`: a catalog from the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def shop(run: Run) -> Run:
    assert run("sub", "create", "shop", "--schema", "schema.json").code == 0
    return run


def test_add_list_pause_resume_and_remove(shop: Run) -> None:
    assert shop("sub", "add", "shop", "alice", "price < 10", "--owner", "al", "--label", "team=risk").records == [
        {"version": 1}
    ]
    assert shop("sub", "add", "shop", "7", "price > 90").code == 0
    assert shop("sub", "pause", "shop", "7").records == [{"version": 3}]
    alice = {"id": "alice", "filter": "price < 10", "owner": "al", "labels": {"team": "risk"}}
    assert shop("sub", "list", "shop").records == [alice, {"id": 7, "filter": "price > 90", "paused": True}]
    assert shop("sub", "list", "shop", "--label", "team=risk").records == [alice]
    assert shop("sub", "list", "shop", "--owner", "al", "--version", "1").records == [alice]
    assert shop("sub", "resume", "shop", "7").code == 0
    assert shop("sub", "rm", "shop", "alice", "7").records == [{"version": 5}]
    assert shop("sub", "list", "shop").records == []


def test_numbers_are_integers_unless_they_are_said_to_be_texts(shop: Run) -> None:
    shop("sub", "add", "shop", "7", "price > 90")
    shop("sub", "add", "shop", "7", "price > 91", "--text")
    assert [record["id"] for record in shop("sub", "list", "shop").records] == [7, "7"]
    assert shop("sub", "rm", "shop", "7", "--text").code == 0
    assert [record["id"] for record in shop("sub", "list", "shop").records] == [7]


def test_a_change_that_does_not_fit_ends_with_two_and_a_reason(shop: Run) -> None:
    shop("sub", "add", "shop", "7", "price > 90")
    again = shop("sub", "add", "shop", "7", "price > 91")
    assert (again.code, again.stdout) == (2, "")
    assert "cannot add 7: it is active" in again.stderr
    assert shop("sub", "add", "shop", "7", "price > 91", "--replace").code == 0
    removed = shop("sub", "rm", "shop", "7", "nobody")
    assert removed.code == 2
    assert len(shop("sub", "list", "shop").records) == 1
    assert shop("sub", "list", "nowhere").code == 2
    assert "not a label" in shop("sub", "list", "shop", "--label", "risk").stderr


def test_bad_rows_of_an_import_are_said_by_line(shop: Run) -> None:
    lines = '{"id": 1, "filter": "price < 1"}\n{"id": 2, "filter": "prise < 1"}\n'
    done = shop("sub", "import", "shop", "-", stdin=lines)
    assert (done.code, done.records) == (1, [{"version": 1, "imported": 1, "left_out": 1}])
    assert "line 2 (2): no attribute is named 'prise'" in done.stderr
    strict = shop("sub", "import", "shop", "-", "--strict", "--replace", stdin=lines)
    assert (strict.code, strict.stdout) == (1, "")
    assert "nothing was loaded" in strict.stderr


@pytest.mark.parametrize("file", ["backup.jsonl", "backup.parquet"])
def test_an_export_can_be_imported(shop: Run, file: str) -> None:
    assert shop("sub", "import", "shop", "subs.jsonl").records == [{"version": 1, "imported": 2, "left_out": 0}]
    assert shop("sub", "export", "shop", file).code == 0
    shop("sub", "create", "copy", "--schema", "schema.json")
    assert shop("sub", "import", "copy", file, "--strict").code == 0
    assert shop("sub", "export", "copy").records == shop("sub", "list", "shop").records


def test_history_names_time_author_and_changes(shop: Run) -> None:
    shop("sub", "add", "shop", "7", "price > 90", "--author", "ann")
    newest, first = shop("sub", "history", "shop").records
    assert (newest["version"], newest["author"], newest["add"]) == (1, "ann", 1)
    assert first["schema"] == 1
    assert json.dumps(newest["time"]).endswith('+00:00"')
    assert len(shop("sub", "history", "shop", "--limit", "1").records) == 1
