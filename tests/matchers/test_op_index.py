"""OP-Index against brute force at the level of the matcher: pivots, lists, counting, changing in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eventsieve.errors import MatcherError
from eventsieve.matchers.op_index import OpIndex
from eventsieve.matchers.op_index.layout import BLOCK_CLAUSES, MOST_COUNTED, SIGNATURE
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from tests.matchers.slots import DOMAINS, Slots, assert_exact, draw_events

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one segment": {"signature_bits": 1},
    "few segments": {"signature_bits": 3, "count": "satisfied"},
    "most segments": {"signature_bits": 62},
    "the paper's counting": {"count": "satisfied"},
}


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_exact_on_equal_ends_open_sides_and_sparse_events(params: dict[str, Any], rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() if s % 9 else [] for s in range(400)]
    matcher = make_matcher("op-index", **params)
    matcher.build(slots.table(), DOMAINS)
    assert assert_exact(matcher, slots, draw_events(rng, 60)) > 100


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_stays_exact_while_clauses_come_and_go(params: dict[str, Any], rng: np.random.Generator) -> None:
    slots = Slots(rng)
    matcher = make_matcher("op-index", **params)
    matcher.build(slots.table(), DOMAINS)
    events = draw_events(rng, 12)
    for _ in range(25):
        slots.change(matcher, n_gone=20, n_new=30)
        assert_exact(matcher, slots, events)


def test_infinite_values_and_the_largest_floats() -> None:
    ends = [-np.inf, -np.finfo(np.float64).max, -5e-324, -0.0, 0.0, 5e-324, np.finfo(np.float64).max, np.inf]
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, low, high)] for low in ends for high in ends if low <= high]
    for count in ("fewer", "satisfied"):
        matcher = OpIndex(count=count)
        matcher.build(slots.table(), DOMAINS)
        assert_exact(matcher, slots, [{0: value} for value in ends])


def test_a_clause_belongs_to_its_rarest_attribute_and_is_met_only_by_events_that_have_it() -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.0, 1.0), (2, 0.0, 1.0)]] * 30 + [[(0, 0.0, 1.0), (1, 0.0, 1.0)]] * 5
    matcher = OpIndex()
    matcher.build(slots.table(), DOMAINS)
    assert [matcher._index.block[b, 0] for b in (0, 1)] == [1, 2]
    assert matcher._index.frequency[:3].tolist() == [35, 5, 30]
    assert_exact(matcher, slots, [{0: 0.5}, {0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}])


def test_frequencies_follow_changes_and_new_clauses_take_the_rarest_attribute_of_the_day() -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.0, 1.0), (1, 0.0, 1.0)], [(0, 0.0, 1.0)], [(1, 0.5, 1.0)], [(1, 0.5, 1.0)]]
    matcher = OpIndex()
    matcher.build(slots.table(), DOMAINS)
    assert matcher._index.block[matcher._index.block_of_slot[0], 0] == 0
    matcher.delete(np.array([2, 3], np.int32))
    slots.clauses[2:] = [[(0, 0.0, 1.0), (1, 0.0, 1.0)], []]
    matcher.insert(np.array([2], np.int32), slots.table())
    assert matcher._index.frequency[:2].tolist() == [3, 2]
    assert matcher._index.block[matcher._index.block_of_slot[2], 0] == 1
    assert matcher._index.block[matcher._index.block_of_slot[0], 0] == 0
    assert_exact(matcher, slots, [{0: 0.5, 1: 0.5}, {0: 0.5}, {1: 0.5}])


def test_a_pivot_with_too_many_clauses_has_several_blocks() -> None:
    """One giant pivot, built and then inserted into; more clauses than brute force in Python would like."""
    n = BLOCK_CLAUSES + 1000
    low = np.arange(2 * n) / (2 * n)
    table = ClauseTable(
        np.arange(n, dtype=np.int64),
        np.arange(1, n + 1, dtype=np.int64),
        np.zeros(n, np.int32),
        low[:n],
        low[:n] + 0.25,
    )
    matcher = OpIndex()
    matcher.build(table, DOMAINS)
    assert (matcher.describe()["blocks"], matcher.describe()["pivots"]) == (2, 1)
    grown = ClauseTable(
        np.arange(2 * n, dtype=np.int64), np.arange(1, 2 * n + 1), np.zeros(2 * n, np.int32), low, low + 0.25
    )
    matcher.insert(np.arange(n, 2 * n, dtype=np.int32), grown)
    assert matcher.describe()["blocks"] == 3
    matcher.delete(np.arange(0, 2 * n, 3, dtype=np.int32))
    for value in (0.0, 0.3, 0.9):
        event = EventColumns(np.array([0, 1]), np.zeros(1, np.int32), np.array([value]))
        expected = np.flatnonzero((low <= value) & (value <= low + 0.25) & (np.arange(2 * n) % 3 > 0))
        assert np.array_equal(np.sort(matcher.match_batch(event)[1]), expected)


def test_signatures_name_exactly_the_segments_that_have_lists(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(60)]
    matcher = OpIndex(signature_bits=3)
    matcher.build(slots.table(), DOMAINS)
    for _ in range(8):
        slots.change(matcher, n_gone=40, n_new=20)
        index = matcher._index
        for b in range(matcher.describe()["blocks"]):
            for operator in range(3):
                has_list = [
                    a for a, first in enumerate(index.first_list[b]) if first >= 0 and index.lists[first + operator, 1]
                ]
                assert index.block[b, SIGNATURE + operator] == sum({1 << a % 3 for a in has_list})


def test_clauses_with_more_predicates_than_are_counted() -> None:
    n_attributes = MOST_COUNTED + 20
    domains = Domains(np.zeros(n_attributes), np.ones(n_attributes))
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(a, 0.0, 0.5) for a in range(n_attributes - s)] for s in range(40)]
    matcher = OpIndex()
    matcher.build(slots.table(), domains)
    holes = [-1, 0, MOST_COUNTED - 1, MOST_COUNTED, n_attributes - 15, n_attributes - 1]
    events = [{a: 0.75 if a == hole else 0.25 for a in range(n_attributes)} for hole in holes]
    assert assert_exact(matcher, slots, events) > 40
    matcher.delete(np.arange(0, 40, 2, dtype=np.int32))
    slots.clauses[::2] = [[] for _ in range(20)]
    assert_exact(matcher, slots, events)


def test_failures_are_counted_only_where_they_are_fewer() -> None:
    """Wide predicates on present attributes, and on absent ones: both ways of counting answer alike."""
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(a, 0.1, 0.9) for a in range(s % 7 + 1)] for s in range(70)]
    slots.clauses += [[(0, 0.5, 0.5), (1, 0.1, 0.9), (2, 0.3, np.inf)] for _ in range(20)]
    for count in ("fewer", "satisfied"):
        matcher = OpIndex(count=count)
        matcher.build(slots.table(), DOMAINS)
        events = [dict.fromkeys(range(m), value) for m in range(1, 8) for value in (0.05, 0.5, 0.95)]
        assert assert_exact(matcher, slots, events) > 100


def test_delete_everything_and_reinsert_in_sorted_order(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(500)]
    matcher = OpIndex()
    matcher.build(slots.table(), DOMAINS)
    first = matcher.describe()
    everything = np.arange(500, dtype=np.int32)
    for _ in range(6):
        matcher.delete(rng.permutation(everything))
        facts = matcher.describe()
        assert (facts["clauses"], facts["pivots"], facts["entries"]) == (0, 0, 0)
        assert matcher.match_batch(slots.columns([{0: 0.5, 1: 0.5}]))[1].size == 0
        for order in (everything, everything[::-1].copy()):
            matcher.insert(order, slots.table())
            assert_exact(matcher, slots, draw_events(rng, 3))
            matcher.delete(order)
        matcher.insert(everything, slots.table())
    assert matcher.describe()["entries"] == first["entries"]
    assert matcher._index.used[3] < 8 * first["entries"]


def test_saved_arrays_restore_the_same_matcher_that_can_go_on_changing(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(300)]
    matcher = OpIndex(signature_bits=5)
    matcher.build(slots.table(), DOMAINS)
    slots.change(matcher, n_gone=60, n_new=10)
    restored = OpIndex(signature_bits=5)
    restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, slots.table(), DOMAINS)
    assert restored.describe() == matcher.describe()
    assert_exact(restored, slots, draw_events(rng, 20))
    for _ in range(5):
        slots.change(restored, n_gone=40, n_new=60)
        assert_exact(restored, slots, draw_events(rng, 5))


@pytest.mark.parametrize("params", [{"signature_bits": 0}, {"signature_bits": 63}, {"count": "all"}], ids=str)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MatcherError, match="op-index"):
        make_matcher("op-index", **params)
