"""A catalog that mirrors a source elsewhere: what it says last holds, and how far it was read is part of the commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventsieve as es
from eventsieve.catalog import Catalog
from eventsieve.catalog.mirror import Moved
from eventsieve.errors import CatalogError

SCHEMA = es.Schema({"price": es.Float()})


def lines(*rows: dict[str, Any]) -> list[str]:
    return [json.dumps(row) for row in rows]


def state(catalog: Catalog) -> dict[Any, tuple[Any, ...]]:
    rows = catalog.rows().to_pylist()
    return {
        row["id_text"] or row["id_number"]: (row["filter"], row["owner"], dict(row["labels"] or []), row["paused"])
        for row in rows
    }


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.create(tmp_path / "catalog", SCHEMA)


def test_ids_become_what_the_source_says_whatever_they_were(catalog: Catalog) -> None:
    catalog.add("old", "price < 1", owner="ann", labels={"team": "risk"})
    catalog.add("paused", "price < 2")
    catalog.pause("paused")
    catalog.add("gone", "price < 3")
    found = catalog.mirror(
        lines(
            {"id": "old", "filter": "price < 10"},
            {"id": "paused", "filter": "price < 20", "owner": "bob"},
            {"id": 7, "filter": "price < 30", "labels": {"a": "b"}, "paused": True},
        ),
        ["gone", "never there"],
        {"topic/0": Moved(None, 5)},
    )
    assert (found.written, found.removed, found.committed) == (3, 1, True)
    assert state(catalog) == {
        "old": ("price < 10", None, {}, False),
        "paused": ("price < 20", "bob", {}, False),
        7: ("price < 30", None, {"a": "b"}, True),
    }
    assert catalog.position("topic/0") == 5
    assert catalog.position("topic/1") is None


def test_a_bad_line_leaves_what_it_was_to_replace_and_is_reported(catalog: Catalog) -> None:
    catalog.add("a", "price < 1")
    rows = lines({"id": "a", "filter": "prise < 10"}, {"id": "b", "filter": "price < 2"}, {"id": "c"})
    found = catalog.mirror(rows, [], {})
    assert [problem.line for problem in found.report.problems] == [1, 3]
    assert {id: filter for id, (filter, *_) in state(catalog).items()} == {"a": "price < 1", "b": "price < 2"}


def test_nothing_to_do_is_no_version(catalog: Catalog) -> None:
    found = catalog.mirror([], ["never there"], {"topic/0": Moved(None, 9)})
    assert (found.version, found.committed) == (0, False)
    assert catalog.position("topic/0") is None


def test_positions_outlive_compaction_and_another_opening(catalog: Catalog) -> None:
    for at in range(70):
        rows = lines({"id": at, "filter": "price < 1"})
        catalog.mirror(rows, [], {"topic/0": Moved(at or None, at + 1)})
    catalog.compact()
    assert Catalog.open(catalog.path).position("topic/0") == 70


def test_two_followers_of_one_source_are_noticed(catalog: Catalog) -> None:
    other = Catalog.open(catalog.path)
    catalog.mirror(lines({"id": 1, "filter": "price < 1"}), [], {"topic/0": Moved(None, 1)})
    with pytest.raises(CatalogError, match="another process follows the same source"):
        other.mirror(lines({"id": 1, "filter": "price < 2"}), [], {"topic/0": Moved(None, 1)})
    assert state(catalog)[1][0] == "price < 1"
