"""Sieve by masks of events: exact for any number of events, up to the last bit of a value, and in any room."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve.matchers.sieve.events import translated
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, Found, gather
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.matchers.sieve.order import BLOCK
from eventsieve.matchers.sieve.search import match_by_masks
from tests.matchers.dense import Table, event_columns, matched, random_values
from tests.matchers.sieve_tables import WHOLE_DOMAINS, close, close_table, in_blocks, in_chunks, whole_table


def found_by_masks(matcher: Sieve, values: NDArray[np.float64], room: int) -> tuple[int, Found]:
    """Match with all blocks by masks, whatever it costs, in a room for so many matches."""
    index = matcher._index()
    codes = translated(index.table, index.apart, index.attributes, event_columns(values), 0, values.shape[0])
    runs = np.empty(room, np.uint16), np.empty(room, np.int32), np.zeros(1, np.int64)
    found = Found(np.empty(room + BITS_AT_ONCE, np.int32), *runs)
    return match_by_masks(index, codes, index.rows.hull.shape[0], 0, 1, found), found


def by_masks(matcher: Sieve, values: NDArray[np.float64]) -> list[set[int]]:
    """Return what masks find, event by event."""
    n_events = values.shape[0]
    used, found = found_by_masks(matcher, values, n_events * matcher.n_slots)
    count, slots = np.zeros(n_events, np.int64), np.empty(found.slot.size, np.int32)
    gather(found, count, slots)
    assert count.sum() == used
    groups = [slots[first:stop].tolist() for first, stop in pairwise([0, *np.cumsum(count).tolist()])]
    assert all(len(group) == len(set(group)) for group in groups)
    return [set(group) for group in groups]


@pytest.mark.parametrize("n_events", [1, 9, 63, 64, 65, 511, 512, 513, 1100])
def test_any_number_of_events(n_events: int) -> None:
    """Words and lines of events may be full, or one bit short or over; some events lack attributes or have none."""
    table = Table(2 * BLOCK + 90, seed=1, popularity=0.5)
    matcher, values = in_blocks(table), random_values(n_events, seed=n_events)
    expected = table.answer(values)
    assert by_masks(matcher, values) == expected
    assert matched(matcher, values) == expected


@pytest.mark.parametrize("n_slots", [1, 63, 64, 65, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK + 7])
def test_any_number_of_clauses(n_slots: int) -> None:
    """Squares may have a few clauses only, and there may be more of them than are listed at once."""
    table = Table(n_slots, seed=2, popularity=0.7)
    values = random_values(70, seed=2)
    assert by_masks(in_blocks(table), values) == table.answer(values)


@pytest.mark.parametrize("build", [in_blocks, in_chunks])
def test_values_that_share_a_code_with_an_end(build: Callable[[Table], Sieve]) -> None:
    """On either side of a low and of a high end, and on it."""
    table = close_table(2 * BLOCK + 50, seed=3)
    values = close((200, table.low.shape[1]), seed=4)
    matcher, expected = build(table), table.answer(values)
    assert by_masks(matcher, values) == expected
    assert matched(matcher, values) == expected


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_whole_numbers_and_others_against_whole_ends(step: float) -> None:
    """Codes alone decide about whole numbers; one event with another value, and the clause table is asked."""
    table = whole_table(2 * BLOCK, seed=5)
    values = np.random.default_rng(6).choice(np.arange(0, 10 + step, step), (150, table.low.shape[1]))
    matcher, expected = in_blocks(table, WHOLE_DOMAINS), table.answer(values)
    assert by_masks(matcher, values) == expected
    assert matched(matcher, values) == expected


def test_removed_and_empty_clauses_match_nothing() -> None:
    """Neither in a full block nor in the last one; and slots without predicates never have a position."""
    table = Table(2 * BLOCK + 200, seed=7, popularity=0.5)
    table.asked[::5] = False
    matcher, values = in_blocks(table), random_values(80, seed=8)
    gone = np.flatnonzero(table.asked.any(axis=1))[::3].astype(np.int32)
    matcher.delete(gone)
    table.asked[gone] = False
    matcher.rebind(table.clauses())
    assert by_masks(matcher, values) == table.answer(values)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", [in_blocks, in_chunks])
def test_large_collections_in_any_room(build: Callable[[Table], Sieve], threads: int) -> None:
    """Masks are the better way here. With room for one event and some more, the others are matched the next time."""
    table = Table(50 * BLOCK + 30, seed=9, popularity=0.6, open_share=0.4)
    n_events = 150
    matcher, values = build(table), random_values(n_events, seed=10)
    expected = table.answer(values)
    assert matched(matcher, values, threads) == expected
    events = event_columns(values)
    count, room = np.zeros(n_events, np.int64), np.empty(2 * matcher.n_slots, np.int32)
    assert matcher._match_together(threads, events, 0, n_events, count, room) == -1
    done = 0
    while done < n_events:
        reached = matcher._match_all(threads, events, done, count, room)
        assert reached > done
        borders = np.concatenate([[0], np.cumsum(count[done:reached])])
        assert [set(room[first:stop].tolist()) for first, stop in pairwise(borders)] == expected[done:reached]
        done = reached


@pytest.mark.parametrize("missing", [0, 1])
def test_room_is_enough_to_the_last_place(missing: int) -> None:
    """As many places as matches are enough for a batch, and one fewer is too few."""
    table = Table(BLOCK, seed=11, popularity=0.6, open_share=0.9)
    values = random_values(100, seed=12)
    n_matches = sum(map(len, table.answer(values)))
    used, _ = found_by_masks(in_blocks(table), values, n_matches - missing)
    assert used == (-1 if missing else n_matches)
