"""What a Python worker does, without Spark: opening, following a catalog by steps, columns in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eventsieve as es
from eventsieve.spark import worker
from eventsieve.spark.published import Published, Shard, file_checksum, read_manifest, write_manifest
from eventsieve.spark.shards import cut
from eventsieve.spark.worker import Step, Task, match_batches, shard_of
from tests.spark.market import SCHEMA, events, expected, filters, subscriptions


def published(folder: Path, subs: es.Subscriptions, n_shards: int = 1, version: int | None = 0) -> Published:
    """Publish an index without Spark."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, part in enumerate(cut(subs, n_shards)):
        path = folder / f"shard-{number}.index"
        es.build(part, matcher="simple").save(path)
        shards.append(Shard(path.name, path.stat().st_size, file_checksum(path), len(part)))
    text = any(isinstance(id, str) for id in subs.ids.tolist())
    index = Published(str(folder), version, "simple", {}, subs.schema, "string" if text else "long", tuple(shards))
    write_manifest(index)
    return index


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = {name: [row.get(name) for row in rows] for name in ("event_id", *SCHEMA.names)}
    types = [pa.string(), pa.float64(), pa.string(), pa.int64(), pa.bool_()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns.values(), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def pairs(task: Task, rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    found = []
    for out in match_batches(task, iter([batch(rows)])):
        if task.output == "pairs":
            found += list(zip(out.column(0).to_pylist(), out.column(1).to_pylist(), strict=True))
        else:
            found += [
                (event, id)
                for event, ids in zip(out.column(0).to_pylist(), out.column(1).to_pylist(), strict=True)
                for id in ids
            ]
    return found


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("output", ["pairs", "arrays"])
def test_a_worker_finds_what_the_library_finds(tmp_path: Path, n_shards: int, output: Any) -> None:
    subs, rows = subscriptions(), events(200)
    task = Task(published(tmp_path, subs, n_shards), ("event_id",), output, "fail")
    found = pairs(task, rows)
    assert len(found) == len(set(found))
    assert set(found) == expected(subs, rows)


def test_results_are_cut_into_pieces_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_EVENTS_AT_ONCE", 7)
    monkeypatch.setattr(worker, "_PAIRS_AT_ONCE", 5)
    subs, rows = subscriptions(), events(50)
    task = Task(published(tmp_path, subs), ("event_id",), "pairs", "fail")
    assert max(out.num_rows for out in match_batches(task, iter([batch(rows)]))) <= 5
    assert set(pairs(task, rows)) == expected(subs, rows)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_steps_lead_from_version_to_version_and_back(tmp_path: Path, n_shards: int) -> None:
    subs, rows, more = subscriptions(), events(100), filters(40, seed=9)
    index = published(tmp_path, subs, n_shards)
    first = Step(0, 1, (3, 4), ((4, more[0]), (100, more[1]), (101, more[2])))
    second = Step(1, 2, (100,), ((102, more[3]),))
    at_one = subs.fork()
    at_one.remove_many([3, 4])
    for id, text in first.added:
        at_one.add(id, text)
    at_two = at_one.fork()
    at_two.remove(100)
    at_two.add(102, more[3])
    # Forward in single steps, forward at once, and back again: every version is exact.
    for steps, wanted in (
        ((first,), at_one),
        ((first, second), at_two),
        ((), subs),
        ((first, second), at_two),
        ((first,), at_one),
    ):
        task = Task(index, ("event_id",), "pairs", "fail", steps)
        assert set(pairs(task, rows)) == expected(wanted, rows)


def test_an_open_shard_stays_open_and_a_failed_change_leaves_none(tmp_path: Path) -> None:
    index = published(tmp_path, subscriptions())
    shard = worker.opened(index, 0)
    assert worker.opened(index, 0) is shard
    with pytest.raises(es.FilterError):
        worker.opened(index, 0, (Step(0, 1, (1,), ((7000, "no such thing"),)),))
    assert worker.opened(index, 0) is not shard
    assert 1 in worker.opened(index, 0).index.subscriptions


def test_a_damaged_snapshot_is_not_opened(tmp_path: Path) -> None:
    index = published(tmp_path, subscriptions(7))
    path = Path(index.path_of(index.shards[0]))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(es.SnapshotError, match=r"damaged.*build the index again"):
        worker.opened(index, 0)
    path.write_bytes(content[:-1])
    with pytest.raises(es.SnapshotError, match="damaged"):
        read_manifest(tmp_path)


def test_text_ids_in_a_column_of_whole_numbers_say_what_to_do(tmp_path: Path) -> None:
    index = published(tmp_path, subscriptions(8))
    task = Task(index, ("event_id",), "pairs", "fail", (Step(0, 1, (), (("bob", "price >= 0"),)),))
    with pytest.raises(es.DataError, match=r"'bob'.*ids='string'"):
        pairs(task, events(5))


def test_an_event_that_cannot_be_matched_fails_or_is_left_out(tmp_path: Path) -> None:
    subs, rows = subscriptions(9), events(10)
    index = published(tmp_path, subs)
    bad = [{**rows[0], "event_id": "bad", "price": float("nan")}, *rows[1:]]
    with pytest.raises(es.DataError, match="finite"):
        pairs(Task(index, ("event_id",), "pairs", "fail"), bad)
    assert set(pairs(Task(index, ("event_id",), "pairs", "skip"), bad)) == expected(subs, rows[1:])


def test_later_subscriptions_go_to_the_same_shard_everywhere() -> None:
    assert [shard_of(id, 5) for id in (0, 1, "a", "1")] == [shard_of(id, 5) for id in (0, 1, "a", "1")]
    assert set(np.unique([shard_of(id, 3) for id in range(100)])) == {0, 1, 2}


@pytest.mark.parametrize("n_shards", [2, 5])
def test_cut_collections_hold_everything_once(n_shards: int, rng: np.random.Generator) -> None:
    for subs in (subscriptions(), _plain()):
        parts = cut(subs, n_shards)
        assert sorted(id for part in parts for id in part.ids.tolist()) == sorted(subs.ids.tolist())
        for part in parts:
            assert all(part.text(id) == subs.text(id) for id in part.ids.tolist())


def _plain() -> es.Subscriptions:
    subs = es.Subscriptions(SCHEMA)
    for number in range(20):
        subs.add(f"id {number}", f"price < {number} AND symbol = 'S{number % 3}'")
    subs.remove("id 7")
    return subs
