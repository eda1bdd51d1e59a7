"""Many writers at once: nothing is lost, and of two that want the same id exactly one gets it."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eventsieve.catalog.catalog as module
from eventsieve.catalog import Catalog
from eventsieve.errors import CatalogError


@contextmanager
def _nothing(path: Path) -> Iterator[None]:
    yield


def _write(path: Path, name: str, first: int, count: int, locked: bool, start: Any, results: Any) -> None:
    """Add an id that all writers want, then one's own ids one by one; report how the first went."""
    if not locked:
        module.writer_lock = _nothing
    catalog = Catalog.open(path)
    start.wait()
    try:
        catalog.add("wanted", "price < 10", owner=name)
        results.put((name, "added"))
    except CatalogError as error:
        results.put((name, str(error)))
    for number in range(first, first + count):
        catalog.add(number, f"price < {number % 900 + 1}")


def _two_writers(catalog: Catalog, count: int, locked: bool) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    writers = [
        context.Process(target=_write, args=(catalog.path, name, first, count, locked, start, results))
        for name, first in (("ann", 0), ("bob", count))
    ]
    for writer in writers:
        writer.start()
    outcomes = dict(results.get(timeout=120) for _ in writers)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    winner, loser = sorted(outcomes, key=lambda name: outcomes[name] != "added")
    assert outcomes[winner] == "added"
    assert "cannot add 'wanted': it is active" in outcomes[loser]
    again = Catalog.open(catalog.path)
    assert set(again.subscriptions().ids.tolist()) == {"wanted", *range(2 * count)}
    assert again.rows(owner=winner).column("id_text").to_pylist() == ["wanted"]
    assert sum(entry.operations.get("add", 0) for entry in again.history()) == 2 * count + 1


def test_of_two_processes_none_loses_an_update_and_one_gets_the_id_both_want(catalog):
    """Without the lock, as on two machines: only the table's commit is between the writers."""
    _two_writers(catalog, 40, locked=False)


@pytest.mark.deep
@pytest.mark.parametrize("locked", [True, False])
def test_two_processes_that_add_hundreds_each_lose_nothing(catalog, locked):
    _two_writers(catalog, 250, locked)


@pytest.fixture
def no_lock(monkeypatch):
    """Writers on different machines do not see each other's lock."""
    monkeypatch.setattr(module, "writer_lock", _nothing)


def _overtake(monkeypatch, catalog: Catalog, overtaking: list[Any]) -> None:
    """Let another writer commit between this one's decision and its commit, once per action in the list."""
    plain = catalog._log.append

    def append(rows: pa.Table, positions: Any = None) -> int:
        if overtaking:
            overtaking.pop(0)()
        return plain(rows, positions)

    monkeypatch.setattr(catalog._log, "append", append)


def test_an_overtaken_writer_decides_again_and_loses_nothing(catalog, monkeypatch, no_lock):
    other = Catalog.open(catalog.path)
    _overtake(monkeypatch, catalog, [lambda: other.add("b", "price < 2"), lambda: other.add("c", "price < 3")])
    assert catalog.add("a", "price < 1") == 3
    assert set(catalog.subscriptions().ids.tolist()) == {"a", "b", "c"}


def test_an_overtaken_writer_of_the_same_id_is_told(catalog, monkeypatch, no_lock):
    other = Catalog.open(catalog.path)
    _overtake(monkeypatch, catalog, [lambda: other.add("a", "price < 2")])
    with pytest.raises(CatalogError, match="cannot add 'a': it is active"):
        catalog.add("a", "price < 1")
    assert Catalog.open(catalog.path).subscriptions().text("a") == "price < 2"


def test_an_overtaken_import_reports_the_id_that_was_taken_meanwhile(catalog, monkeypatch, no_lock):
    other = Catalog.open(catalog.path)
    _overtake(monkeypatch, catalog, [lambda: other.add("a", "price < 2")])
    rows = ['{"id": "a", "filter": "price < 1"}', '{"id": "b", "filter": "price < 1"}']
    with pytest.warns(match="1 of 2 rows were left out"):
        report = catalog.import_jsonl(rows)
    assert [problem.id for problem in report.problems] == ["a"]
    assert Catalog.open(catalog.path).subscriptions().text("a") == "price < 2"


def test_a_writer_that_is_always_overtaken_gives_up_with_a_reason(catalog, monkeypatch, no_lock):
    other = Catalog.open(catalog.path)
    monkeypatch.setattr("eventsieve.catalog.catalog._ATTEMPTS", 3)
    numbers = iter(range(100))
    _overtake(monkeypatch, catalog, [lambda: other.add(next(numbers), "price < 2")] * 3)
    with pytest.raises(CatalogError, match="quicker 3 times in a row"):
        catalog.add("a", "price < 1")


def test_threads_may_share_one_catalog(catalog):
    threads = [threading.Thread(target=catalog.add, args=(number, "price < 1")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(catalog.subscriptions()) == 8


def test_a_reader_sees_what_others_commit(catalog):
    reader = Catalog.open(catalog.path)
    assert len(reader.subscriptions()) == 0
    catalog.add("a", "price < 1")
    assert reader.version == 1
    assert reader.changes(0).column("change").to_pylist() == ["added"]
