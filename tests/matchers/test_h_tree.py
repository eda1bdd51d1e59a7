"""H-Tree against brute force at the level of the matcher: borders, wide predicates, growth, change, choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.h_tree import HTree
from eventsieve.matchers.h_tree.choice import best_cells, share_ruled_out
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.model.statistics import statistics_of

N_ATTRIBUTES = 7
DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))
BORDERS = np.arange(-2, 19) / 16
"""Every border of 8 or 4 segments, their middles, and values outside the domain."""

SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "full depth": {"bucket": 0},
    "many small buckets": {"bucket": 2, "cells": 5, "attributes": N_ATTRIBUTES, "copies": 64},
    "fewest cells": {"cells": 3, "bucket": 1},
    "most cells": {"cells": 255, "bucket": 1, "copies": 1000, "attributes": 2},
    "one copy": {"copies": 1, "bucket": 0},
    "formula": {"cells": "auto", "bucket": 3},
    "given attributes": {"attributes": [5, 0, 2], "bucket": 0},
    "quantiles": {"transform": "quantiles", "bucket": 2},
    "normal": {"transform": "normal 0.5 0.15", "bucket": 2},
    "pareto": {"transform": "pareto 0.1 2", "bucket": 2},
    "mixed transforms": {"transform": {0: "quantiles", 3: "normal 0.2 0.1"}, "bucket": 2},
}


class Slots:
    """Clauses by slot with reuse of free slots, as the collection above a matcher keeps them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.clauses: list[list[tuple[int, float, float]]] = []

    def draw(self, values: NDArray[np.float64] = BORDERS) -> list[tuple[int, float, float]]:
        size = int(self.rng.integers(1, N_ATTRIBUTES + 1))
        clause = []
        for a in np.sort(self.rng.permutation(N_ATTRIBUTES)[:size]):
            low, high = np.sort(self.rng.choice(values, 2))
            kind = self.rng.integers(0, 10)
            if kind == 0:
                low = -np.inf
            if kind == 1:
                high = np.inf
            if kind == 2:
                high = low
            if kind > 5:
                high = min(high, low + 0.125)
            clause.append((int(a), float(low), float(high)))
        return clause

    def table(self) -> ClauseTable:
        sizes = np.array([len(clause) for clause in self.clauses], np.int64)
        stop = np.cumsum(sizes)
        bounds = [bound for clause in self.clauses for bound in clause]
        attribute, low, high = zip(*bounds, strict=True) if bounds else ((), (), ())
        return ClauseTable(
            stop - sizes, stop, np.array(attribute, np.int32), np.array(low, np.float64), np.array(high, np.float64)
        )

    def matching(self, event: dict[int, float]) -> list[int]:
        return [
            s
            for s, clause in enumerate(self.clauses)
            if clause and all(a in event and low <= event[a] <= high for a, low, high in clause)
        ]


def _events(rng: np.random.Generator, n: int, values: NDArray[np.float64] = BORDERS) -> list[dict[int, float]]:
    events: list[dict[int, float]] = [{}]
    for e in range(n):
        present = rng.permutation(N_ATTRIBUTES)[: N_ATTRIBUTES if e % 2 else rng.integers(1, N_ATTRIBUTES)]
        events.append({int(a): float(rng.choice(values)) for a in np.sort(present)})
    return events


def _columns(events: list[dict[int, float]]) -> EventColumns:
    start = np.concatenate([[0], np.cumsum([len(event) for event in events])]).astype(np.int64)
    attribute = np.array([a for event in events for a in event], np.int32)
    return EventColumns(start, attribute, np.array([v for event in events for v in event.values()], np.float64))


def _assert_exact(matcher: Any, slots: Slots, events: list[dict[int, float]]) -> int:
    start, found = matcher.match_batch(_columns(events))
    for e, event in enumerate(events):
        assert sorted(found[start[e] : start[e + 1]].tolist()) == slots.matching(event), event
    return int(start[-1])


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_exact_on_borders_open_sides_and_sparse_events(params: dict[str, Any], rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() if s % 9 else [] for s in range(400)]
    matcher = make_matcher("h-tree", **params)
    matcher.build(slots.table(), DOMAINS)
    assert _assert_exact(matcher, slots, _events(rng, 60)) > 100


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_exact_through_inserts_and_deletes_with_reuse_of_slots(
    params: dict[str, Any], rng: np.random.Generator
) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(30)]
    matcher = make_matcher("h-tree", **params)
    matcher.build(slots.table(), DOMAINS)
    events = _events(rng, 15)
    for step in range(25):
        taken = np.flatnonzero([bool(clause) for clause in slots.clauses]).astype(np.int32)
        gone = rng.permutation(taken)[: rng.integers(0, max(1, taken.size // (1 if step == 12 else 3)) + 1)]
        matcher.delete(gone)
        for s in gone:
            slots.clauses[s] = []
        free = [s for s, clause in enumerate(slots.clauses) if not clause]
        new = [*free[: rng.integers(0, 20)], *range(len(slots.clauses), len(slots.clauses) + rng.integers(0, 25))]
        slots.clauses += [[] for _ in range(max([*new, -1]) + 1 - len(slots.clauses))]
        for s in new:
            slots.clauses[s] = slots.draw()
        matcher.insert(np.array(new, np.int32), slots.table())
        _assert_exact(matcher, slots, events)


def test_grows_from_nothing_one_clause_at_a_time_and_chooses_attributes_on_the_way(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    matcher = HTree(bucket=4)
    matcher.build(slots.table(), DOMAINS)
    assert _assert_exact(matcher, slots, _events(rng, 3)) == 0
    assert matcher.describe()["indexed_attributes"] == []
    for s in range(40):
        slots.clauses.append(slots.draw())
        matcher.insert(np.array([s], np.int32), slots.table())
    slots.clauses += [slots.draw() for _ in range(5000)]
    matcher.insert(np.arange(40, 5040, dtype=np.int32), slots.table())
    assert len(matcher.describe()["indexed_attributes"]) == N_ATTRIBUTES
    _assert_exact(matcher, slots, _events(rng, 5))


def test_places_of_deleted_and_moved_entries_are_used_again(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(600)]
    matcher = HTree(bucket=8, copies=8)
    matcher.build(slots.table(), DOMAINS)
    for _ in range(30):
        some = np.sort(rng.permutation(600)[:200]).astype(np.int32)
        matcher.delete(some)
        for s in some:
            slots.clauses[s] = slots.draw()
        matcher.insert(some, slots.table())
    facts = matcher.describe()
    assert facts["clauses"] == 600
    assert facts["places"] < 4 * facts["entries"]
    _assert_exact(matcher, slots, _events(rng, 20))


def test_saved_arrays_restore_the_same_matcher_that_can_go_on_changing(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(300)]
    matcher = HTree(bucket=3, transform="quantiles")
    matcher.build(slots.table(), DOMAINS)
    matcher.delete(np.arange(0, 50, dtype=np.int32))
    slots.clauses[:50] = [[] for _ in range(50)]
    restored = HTree(bucket=3, transform="quantiles")
    restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, slots.table(), DOMAINS)
    assert restored.describe() == matcher.describe()
    _assert_exact(restored, slots, _events(rng, 20))
    slots.clauses[:50] = [slots.draw() for _ in range(50)]
    slots.clauses += [slots.draw() for _ in range(100)]
    new = np.concatenate([np.arange(50), np.arange(300, 400)]).astype(np.int32)
    restored.insert(new, slots.table())
    restored.delete(np.array([7], np.int32))
    slots.clauses[7] = []
    _assert_exact(restored, slots, _events(rng, 20))


def test_a_border_value_finds_the_predicate_that_ends_on_it() -> None:
    """The paper's nearest centre files [0.125, 0.25] of 8 cells where the value 0.25 does not look."""
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.125, 0.25)], [(0, 0.25, 0.375)], [(0, 0.25, 0.25)]]
    matcher = HTree(bucket=0)
    matcher.build(slots.table(), DOMAINS)
    _assert_exact(matcher, slots, [{0: v} for v in (0.125, 0.25, np.nextafter(0.25, 1), np.nextafter(0.25, 0), 0.375)])


@pytest.mark.parametrize("cells", [3, 4, 7, 8, 13])
def test_a_wide_predicate_has_one_entry_per_value_wherever_it_begins_and_ends(cells: int) -> None:
    ends = [(low / 26, high / 26) for low in range(27) for high in range(low, 27)]
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, low, high)] for low, high in ends]
    matcher = HTree(bucket=0, cells=cells, copies=cells)
    matcher.build(slots.table(), DOMAINS)
    # Sorted slots equal to the truth: a clause met twice would be reported twice.
    assert _assert_exact(matcher, slots, [{0: value / 52} for value in range(-2, 55)]) > len(ends)
    assert matcher.describe()["entries"] <= len(ends) * (cells + 1) // 2


def test_copies_stay_within_the_cap_and_past_it_attributes_go_to_the_no_predicate_cell() -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(a, 0.3, 0.9) for a in range(4)] for _ in range(20)]
    entries = {}
    for copies in (1, 2, 3, 9, 100):
        matcher = HTree(bucket=0, copies=copies)
        matcher.build(slots.table(), DOMAINS)
        entries[copies] = matcher.describe()["entries"] // 20
        _assert_exact(matcher, slots, [dict.fromkeys(range(4), value) for value in (0.2, 0.3, 0.6, 0.9, 0.95)])
    # [0.3, 0.9] touches segments 2 to 7 of 8, which three cells cover.
    assert entries == {1: 1, 2: 1, 3: 3, 9: 9, 100: 81}


def test_popular_and_narrow_attributes_are_indexed_first() -> None:
    clauses = [[(0, 0.0, 0.9), (1, 0.4, 0.5), (2, 0.4, 0.5)]] * 4 + [[(0, 0.1, 0.95), (2, 0.2, 0.3), (3, 0.1, 0.1)]] * 2
    slots = Slots(np.random.default_rng(0))
    slots.clauses = clauses
    matcher = HTree(attributes=3)
    matcher.build(slots.table(), DOMAINS)
    # Attribute 0 is in every clause and too wide to rule out many; 2 is in all and narrow, 1 in 4 of 6, 3 in 2.
    assert matcher.describe()["indexed_attributes"] == [2, 1, 3]
    shares = share_ruled_out(statistics_of(slots.table(), DOMAINS), 8)
    assert shares[2] == pytest.approx(0.75)
    assert shares[4] == 0


def test_adjust_rebuilds_only_when_the_choice_has_changed(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [[(0, 0.5, 0.6), (1, 0.1, 0.2)] for _ in range(50)]
    matcher = HTree(attributes=2, bucket=0)
    matcher.build(slots.table(), DOMAINS)
    assert not matcher.adjust()
    slots.clauses += [[(4, 0.5, 0.6), (5, 0.3, 0.4)] for _ in range(200)]
    matcher.insert(np.arange(50, 250, dtype=np.int32), slots.table())
    assert matcher.describe()["indexed_attributes"] == [0, 1]
    assert matcher.adjust()
    assert matcher.describe()["indexed_attributes"] == [4, 5]
    assert not matcher.adjust()
    _assert_exact(matcher, slots, [{0: 0.55, 1: 0.15, 4: 0.55}, {4: 0.5, 5: 0.35}])


def test_adjust_takes_statistics_from_elsewhere() -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.5, 0.6), (1, 0.1, 0.2)]]
    matcher = HTree(attributes=1)
    matcher.build(slots.table(), DOMAINS)
    other = Slots(np.random.default_rng(0))
    other.clauses = [[(1, 0.5, 0.6)]]
    assert matcher.adjust(statistics_of(other.table(), DOMAINS))
    assert matcher.describe()["indexed_attributes"] == [1]
    _assert_exact(matcher, slots, [{0: 0.5, 1: 0.2}, {0: 0.5, 1: 0.3}])


def test_the_number_of_cells_follows_formula_8_as_printed() -> None:
    for fewest, most, n_attributes, weight in [(4, 10, 8, 0.5), (4, 20, 2, 0.3), (4, 32, 6, 0.8)]:
        bracket = (most**n_attributes - fewest**n_attributes) / (
            (3 / fewest) ** n_attributes - (3 / most) ** n_attributes
        )
        printed = (3**n_attributes * weight / (1 - weight) * bracket) ** (1 / (2 * n_attributes))
        assert best_cells(fewest, most, n_attributes, weight) == round(printed)


@pytest.mark.parametrize(
    "params",
    [
        {"cells": 2},
        {"cells": "many"},
        {"attributes": 0},
        {"copies": 0},
        {"bucket": -1},
        {"weight": 1.0},
        {"transform": "gauss"},
        {"transform": {99: "linear"}},
        {"attributes": [99]},
        {"attributes": [1, 1]},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.5, 0.6)]]
    with pytest.raises(MatcherError, match="h-tree"):
        make_matcher("h-tree", **params).build(slots.table(), DOMAINS)
