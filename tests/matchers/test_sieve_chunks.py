"""Sieve by chunks: exact for single events and batches, through changes, snapshots, ties and skew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.matchers.sieve import matcher as sieve_matcher
from eventsieve.matchers.sieve.chunks import CHUNK, SCATTERED
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.matchers.sieve.order import BLOCK
from tests.matchers.dense import N_ATTRIBUTES, Table, matched, random_values
from tests.matchers.sieve_tables import (
    WHOLE_DOMAINS,
    assert_exact,
    close,
    close_table,
    in_blocks,
    in_chunks,
    whole_table,
)
from tests.matchers.small_workloads import pairs, small, truth


@pytest.mark.parametrize("cells", [None, 1, 7])
@pytest.mark.parametrize("n_slots", [2 * BLOCK, 3 * BLOCK + 77])
def test_single_events_and_batches(n_slots: int, cells: int | None) -> None:
    """With a tail and without; few events go by masks if cells leave much open."""
    table = Table(n_slots, seed=1, popularity=0.6, open_share=0.4)
    assert_exact(in_chunks(table, cells=cells), table, random_values(40, seed=2))


def test_no_match_is_lost_between_the_ways_to_match() -> None:
    """Where attributes have one cell each, masks are the better way for a few events already."""
    table = Table(150 * BLOCK, seed=17, popularity=1.0, open_share=0.5)
    matcher, values = in_chunks(table, cells=1), random_values(9, seed=18)
    expected = table.answer(values)
    for n_events in (1, 7, 8, 9):
        assert matched(matcher, values[:n_events]) == expected[:n_events]


def test_more_than_one_chunk() -> None:
    """The places of a chunk are numbered from 0 again."""
    table = Table(CHUNK + 3 * BLOCK + 5, seed=3, popularity=0.7)
    matcher, values = in_chunks(table), random_values(12, seed=4)
    assert matcher.describe()["chunks"] == 2
    assert matched(matcher, values) == table.answer(values)
    assert matched(matcher, values[1:2]) == table.answer(values[1:2])


def test_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses come into the tail, leave it and chunks, and come back; the tail becomes a chunk; all is built anew."""
    monkeypatch.setattr(sieve_matcher, "_LONGEST_TAIL", BLOCK)
    table = Table(6 * BLOCK, seed=5, popularity=0.6, open_share=0.4)
    everything, values = table.asked.copy(), random_values(30, seed=6)
    n = 2 * BLOCK + 200
    table.asked[n:] = False
    matcher = in_chunks(table)

    def insert(slots: np.ndarray) -> None:
        table.asked[slots] = everything[slots]
        slots = slots[everything[slots].any(axis=1)].astype(np.int32)
        matcher.insert(slots, table.clauses())
        assert_exact(matcher, table, values)

    def delete(slots: np.ndarray) -> None:
        slots = slots[table.asked[slots].any(axis=1)].astype(np.int32)
        matcher.delete(slots)
        table.asked[slots] = False
        matcher.rebind(table.clauses())
        assert_exact(matcher, table, values)

    delete(np.arange(0, n, 3))
    insert(np.arange(n, n + 100))
    delete(np.arange(n, n + 100, 2))
    # Slots of the first chunk come back at other positions, first in the tail, then in a second chunk.
    insert(np.arange(0, 600, 3))
    insert(np.arange(600, n, 3))
    assert matcher.describe()["chunks"] == 2
    assert SCATTERED in matcher.arrays()["chunk_shift"]
    delete(np.arange(0, n, 6))
    insert(np.arange(0, n, 6))
    insert(np.arange(n + 100, 6 * BLOCK))
    assert matcher.describe()["chunks"] == 1, "built anew"
    delete(np.flatnonzero(table.asked.any(axis=1)))
    assert matched(matcher, values) == [set()] * 30


def test_snapshot(tmp_path: Path) -> None:
    """Chunks and a tail are there again, match as before, and can be changed."""
    workload = small("full", 2400)
    start, attribute, low, high = workload.subscription_arrays(seed=1)

    def some(first: int, stop: int) -> es.Subscriptions:
        begin, end = start[first], start[stop]
        part = (start[first : stop + 1] - begin, attribute[begin:end], low[begin:end], high[begin:end])
        return es.Subscriptions.from_arrays(workload.schema(), *part, ids=np.arange(first, stop))

    index = es.build(some(0, 1800), matcher="sieve")
    index.extend(some(1800, 2000))
    index.remove_many(range(100, 300))
    index.save(tmp_path / "snapshot")
    loaded = es.load(tmp_path / "snapshot")
    assert loaded.describe() == index.describe()
    assert loaded.describe()["chunks"] == 1
    assert pairs(loaded, workload, 12) == pairs(index, workload, 12)
    loaded.extend(some(100, 300))
    loaded.extend(some(2000, 2400))
    loaded.remove_many(range(1000, 1100))
    loaded.extend(some(1000, 1100))
    assert pairs(loaded, workload, 12) == truth(workload, 12)


def test_rare_attributes() -> None:
    """An attribute that few clauses ask for has no rows, and its ends tell all: whether events have it or not."""
    table = Table(3 * BLOCK, seed=7, popularity=[0.9, 0.9, 0.9, 0.005, 0.002], open_share=0.3)
    table.asked[5, 3:] = True
    values = random_values(60, seed=8)
    matcher = in_chunks(table)
    assert matcher.describe()["attributes_with_rows"] == 3
    assert_exact(matcher, table, values)
    values[:, 3:] = np.nan
    assert_exact(matcher, table, values)


@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-3], ids=["all equal", "one code", "one cell"])
def test_all_ends_in_one_cell(width: float) -> None:
    """Where a run should begin is guessed wrong then, and found all the same."""
    table = Table(2 * BLOCK, seed=9, popularity=0.6, open_share=0.4)
    offsets = np.sort(np.random.default_rng(10).random((*table.low.shape, 2)) * width, axis=2)
    table.low = np.where(np.isinf(table.low), table.low, 0.5 + offsets[..., 0])
    table.high = np.where(np.isinf(table.high), table.high, 0.5 + offsets[..., 1])
    values = 0.5 + np.random.default_rng(11).uniform(-0.2, 1.2, (60, N_ATTRIBUTES)) * max(width, 1e-12)
    values[::3] = 0.5
    values[1::3, ::2] = np.nan
    assert_exact(in_chunks(table), table, values)


def test_values_that_share_a_code_with_an_end() -> None:
    """On either side of a low and of a high end, and on it: with rows, and with an attribute that has none."""
    table = close_table(2 * BLOCK + 100, seed=12)
    table.asked[:, 4] = False
    table.asked[3:9, 4] = True
    assert_exact(in_chunks(table), table, close((60, N_ATTRIBUTES), seed=13))


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_whole_ends(step: float) -> None:
    """Few cells leave it to codes to decide about whole numbers, and to the clause table about others."""
    table = whole_table(2 * BLOCK, seed=14)
    values = np.random.default_rng(15).choice(np.arange(0, 10 + step, step), (60, N_ATTRIBUTES))
    assert_exact(in_chunks(table, WHOLE_DOMAINS, cells=4), table, values)


@pytest.mark.parametrize("n_slots", [2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK - 1])
def test_an_event_that_matches_everything(n_slots: int) -> None:
    """There is room for every clause and no more."""
    table = Table(n_slots, seed=16, popularity=1.0)
    table.low[:], table.high[:] = 0.25, 0.75
    values = np.full((10, N_ATTRIBUTES), 0.5)
    values[3], values[4] = 0.25, 0.75
    assert_exact(in_chunks(table), table, values)
    assert len(table.answer(values)[0]) == n_slots


_ENDS = [-np.inf, -0.5, 0.0, 0.25, 0.5 - 2.0**-20, 0.5, 0.5 + 2.0**-20, 0.75, 1.0, 1.5, np.inf]
_intervals = st.tuples(st.sampled_from(_ENDS[:-1]), st.sampled_from(_ENDS[1:])).map(lambda ends: tuple(sorted(ends)))
_clauses = st.lists(st.none() | _intervals, min_size=N_ATTRIBUTES, max_size=N_ATTRIBUTES)
_events = st.lists(st.none() | st.sampled_from(_ENDS[1:-1]), min_size=N_ATTRIBUTES, max_size=N_ATTRIBUTES)


@pytest.mark.parametrize("build", [in_blocks, in_chunks])
@given(
    clauses=st.lists(_clauses, min_size=1, max_size=9),
    events=st.lists(_events, min_size=1, max_size=10),
    n_slots=st.sampled_from([9, BLOCK, 2 * BLOCK + 30]),
    cells=st.sampled_from([None, 1, 3]),
)
def test_any_collection_in_either_layout(
    build: Callable[..., Sieve],
    clauses: list[list[tuple[float, float] | None]],
    events: list[list[float | None]],
    n_slots: int,
    cells: int | None,
) -> None:
    """A few clauses many times over, with one event, some events and some hundreds."""
    table = Table(n_slots, seed=0, popularity=0)
    for s, clause in enumerate(clauses):
        for a, interval in enumerate(clause):
            if interval is not None:
                table.asked[s :: len(clauses), a] = True
                table.low[s :: len(clauses), a], table.high[s :: len(clauses), a] = interval
    values = np.array(events, np.float64)
    matcher, expected = build(table, cells=cells), table.answer(values)
    assert matched(matcher, values) == expected
    assert matched(matcher, values[:1]) == expected[:1]
    assert matched(matcher, np.repeat(values, 60, axis=0)) == [found for found in expected for _ in range(60)]
