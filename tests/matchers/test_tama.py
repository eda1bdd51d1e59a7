"""TAMA and TAMA-O below the index: cells, edges, blocks, counters, changes in place, the approximate mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve._kernels.halving import Filing, lists_of_predicate, name_room
from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Matcher
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.model.transform import transform_table

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("tama", {}),
    ("tama", {"levels": 1}),
    ("tama", {"levels": 8}),
    ("tama", {"transform": "quantiles"}),
    ("tama-o", {}),
    ("tama-o", {"levels": 1}),
    ("tama-o", {"levels": 3, "ready_level": 2}),
    ("tama-o", {"ready_level": 0}),
    ("tama-o", {"transform": "quantiles"}),
]
BOTH = ["tama", "tama-o"]


class Clauses:
    """A clause table that grows, frees and reuses slots as the index does, and answers by brute force."""

    def __init__(self, n_attributes: int, rng: np.random.Generator) -> None:
        self.n_attributes = n_attributes
        self.rng = rng
        self.of_slot: list[list[tuple[int, float, float]]] = []

    @property
    def domains(self) -> Domains:
        return Domains(np.zeros(self.n_attributes), np.ones(self.n_attributes))

    @property
    def live(self) -> NDArray[np.int32]:
        return np.array([s for s, predicates in enumerate(self.of_slot) if predicates], np.int32)

    def draw(self) -> list[tuple[int, float, float]]:
        """Return a clause with closed, open, single-value and out-of-domain intervals, often with equal bounds."""
        rng = self.rng
        asked = np.sort(rng.choice(self.n_attributes, rng.integers(1, min(5, self.n_attributes) + 1), replace=False))
        clause = []
        for a in asked:
            low, high = np.sort(rng.choice(np.linspace(-0.25, 1.25, 25), 2) + rng.choice([0.0, 0.003], 2))
            kind = rng.integers(0, 6)
            low = -np.inf if kind in (0, 2) else low
            high = np.inf if kind in (1, 2) else (low if kind == 3 else high)
            clause.append((int(a), float(low), float(high)))
        return clause

    def put(self, slot: int, clause: list[tuple[int, float, float]]) -> None:
        while slot >= len(self.of_slot):
            self.of_slot.append([])
        self.of_slot[slot] = clause

    def table(self) -> ClauseTable:
        sizes = np.array([len(predicates) for predicates in self.of_slot], np.int64)
        stop = np.cumsum(sizes, dtype=np.int64)
        flat = [predicate for predicates in self.of_slot for predicate in predicates]
        attribute, low, high = zip(*flat, strict=True) if flat else ((), (), ())
        return ClauseTable(
            stop - sizes, stop, np.array(attribute, np.int32), np.array(low, np.float64), np.array(high, np.float64)
        )

    def events(self, n_events: int) -> tuple[NDArray[np.float64], EventColumns]:
        """Return events as rows with NaN for absent values, and as columns; some are empty."""
        dense = self.rng.choice(np.linspace(-0.25, 1.25, 25), (n_events, self.n_attributes))
        dense += self.rng.choice([0.0, 0.003, 1e-4], dense.shape)
        dense[self.rng.random(dense.shape) < self.rng.choice([0.0, 0.3, 1.0], (n_events, 1))] = np.nan
        return dense, columns(dense)

    def truth(self, row: NDArray[np.float64]) -> list[int]:
        return [s for s in self.live.tolist() if all(low <= row[a] <= high for a, low, high in self.of_slot[s])]


def columns(dense: NDArray[np.float64]) -> EventColumns:
    present = ~np.isnan(dense)
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return EventColumns(start, np.nonzero(present)[1].astype(np.int32), dense[present])


def found(matcher: Matcher, events: EventColumns) -> list[list[int]]:
    start, slots = matcher.match_batch(events)
    return [sorted(slots[start[e] : start[e + 1]].tolist()) for e in range(start.size - 1)]


def assert_exact(matcher: Matcher, clauses: Clauses, n_events: int = 25) -> None:
    dense, events = clauses.events(n_events)
    assert found(matcher, events) == [clauses.truth(row) for row in dense]


def built(name: str, clauses: Clauses, **params: Any) -> Matcher:
    matcher = make_matcher(name, **params)
    matcher.build(clauses.table(), clauses.domains)
    return matcher


# -- cells ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 3, 6])
def test_a_predicate_stands_in_disjoint_cells_two_per_level_at_most(levels: int) -> None:
    """For all pairs of bounds: the cells strictly between the edge cells are covered once, by maximal cells."""
    n_cells = 1 << levels
    table = transform_table(Domains(np.zeros(1), np.ones(1)), {})
    filing = Filing(table, levels, 0, 0, levels, 16, 127)
    names = name_room(filing)
    for first in range(n_cells):
        for last in range(first, n_cells):
            n_lists = lists_of_predicate(filing, 0, 0, first / n_cells, last / n_cells, names)
            numbers = names.number[:n_lists].tolist()
            edges = sorted(number - (2 * n_cells - 1) for number in numbers if number >= 2 * n_cells - 1)
            assert edges == sorted({first, last})
            covered: list[int] = []
            per_level = [0] * (levels + 1)
            for number in numbers:
                level = (number + 1).bit_length() - 1
                if level <= levels:
                    size = n_cells >> level
                    per_level[level] += 1
                    covered += range((number + 1 - (1 << level)) * size, (number + 2 - (1 << level)) * size)
            assert sorted(covered) == list(range(first + 1, last))
            assert max(per_level) <= 2


# -- exactness -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_equals_brute_force(name: str, params: dict[str, Any], rng: np.random.Generator) -> None:
    """Open, single-value and out-of-domain intervals; sparse, empty and out-of-domain events."""
    clauses = Clauses(7, rng)
    for slot in range(400):
        clauses.put(slot, clauses.draw() if slot % 9 else [])
    assert_exact(built(name, clauses, **params), clauses, 60)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("n_slots", [1, 7, 8, 9, 63, 64, 65])
def test_word_edges(name: str, n_slots: int, rng: np.random.Generator) -> None:
    """Counters are tested eight at a time and bits 64 at a time; nothing past the last slot is ever reported."""
    clauses = Clauses(3, rng)
    for slot in range(n_slots):
        clauses.put(slot, [(0, -np.inf, np.inf)])
    matcher = built(name, clauses)
    assert found(matcher, columns(np.array([[0.5, np.nan, np.nan], [np.nan, 0.5, 0.5]]))) == [list(range(n_slots)), []]


@pytest.mark.parametrize("name", BOTH)
def test_neighbouring_floats_are_told_apart(name: str, rng: np.random.Generator) -> None:
    """A bound decides exactly, although all these values share one finest cell."""
    clauses = Clauses(1, rng)
    at = 0.3
    clauses.put(0, [(0, at, 1.0)])
    clauses.put(1, [(0, 0.0, at)])
    clauses.put(2, [(0, at, at)])
    matcher = built(name, clauses)
    values = np.array([[np.nextafter(at, 0)], [at], [np.nextafter(at, 1)]])
    assert found(matcher, columns(values)) == [[1], [0, 1, 2], [0]]


@pytest.mark.parametrize("name", BOTH)
def test_more_predicates_than_a_counter_counts(name: str, rng: np.random.Generator) -> None:
    """A clause of 300 predicates matches when all hold, and fails by its first or its last one."""
    clauses = Clauses(300, rng)
    clauses.put(0, [(a, 0.25, 0.75) for a in range(300)])
    clauses.put(1, [(a, 0.25, 0.75) for a in range(127)])
    clauses.put(2, [(a, 0.25, 0.75) for a in range(128)])
    matcher = built(name, clauses)
    rows = np.full((4, 300), 0.5)
    rows[1, 299] = 0.9
    rows[2, 127] = np.nan
    rows[3, 0] = 0.1
    assert found(matcher, columns(rows)) == [[0, 1, 2], [1, 2], [1], []]


@pytest.mark.parametrize("name", BOTH)
def test_blocks_of_slots(name: str, rng: np.random.Generator) -> None:
    """Clauses on both sides of every border between blocks, in a table whose other slots are free."""
    n_slots = (1 << 20) + (1 << 16) + 5
    borders = [0, 1 << 15, 1 << 16, (1 << 16) * 3, 1 << 20, (1 << 20) + (1 << 16)]
    slots = sorted({s for border in borders for s in (border - 1, border, border + 1) if 0 <= s < n_slots})
    start = np.zeros(n_slots, np.int64)
    stop = np.zeros(n_slots, np.int64)
    start[slots] = np.arange(len(slots))
    stop[slots] = start[slots] + 1
    low = np.linspace(0.0, 0.5, len(slots))
    table = ClauseTable(start, stop, np.zeros(len(slots), np.int32), low, low + 0.25)
    matcher = make_matcher(name)
    matcher.build(table, Domains(np.zeros(2), np.ones(2)))
    values = np.array([0.0, 0.25, 0.3, 0.6, 0.75, 0.8])
    truth = [np.array(slots)[(low <= value) & (value <= low + 0.25)].tolist() for value in values]
    events = columns(np.stack([values, np.full(6, np.nan)], axis=1))
    assert found(matcher, events) == truth
    matcher.delete(np.array(slots[::2], np.int32))
    assert found(matcher, events) == [[s for s in row if s not in slots[::2]] for row in truth]


# -- changes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_any_order_of_changes(name: str, params: dict[str, Any], rng: np.random.Generator) -> None:
    """Insert, delete, reuse slots, store and take up again: always what brute force says."""
    clauses = Clauses(5, rng)
    matcher = built(name, clauses, **params)
    for step in range(40):
        if rng.random() < 0.6 or clauses.live.size < 10:
            free = [s for s, predicates in enumerate(clauses.of_slot) if not predicates][:5]
            slots = free + list(range(len(clauses.of_slot), len(clauses.of_slot) + int(rng.integers(1, 30))))
            for slot in slots:
                clauses.put(slot, clauses.draw())
            matcher.insert(np.array(slots, np.int32), clauses.table())
        else:
            gone = rng.choice(clauses.live, clauses.live.size // 3, replace=False)
            matcher.delete(gone)
            for slot in gone.tolist():
                clauses.put(slot, [])
            matcher.rebind(clauses.table())
        if step % 8 == 7:
            stored = {key: array.copy() for key, array in matcher.arrays().items()}
            matcher = make_matcher(name, **params)
            matcher.restore(stored, clauses.table(), clauses.domains)
        assert_exact(matcher, clauses, 6)


@pytest.mark.parametrize("name", BOTH)
def test_one_list_can_outgrow_the_pool(name: str, rng: np.random.Generator) -> None:
    """All clauses alike, inserted in rising steps, far beyond the first block of bits."""
    clauses = Clauses(1, rng)
    matcher = built(name, clauses)
    for size in (1, 10, 100, 3000, 6000):
        slots = np.arange(len(clauses.of_slot), len(clauses.of_slot) + size, dtype=np.int32)
        for slot in slots.tolist():
            clauses.put(slot, [(0, 0.2, 0.7)])
        matcher.insert(slots, clauses.table())
    inside, outside = found(matcher, columns(np.array([[0.5], [0.71]])))
    assert len(inside) == len(clauses.of_slot)
    assert outside == []


@pytest.mark.parametrize("name", BOTH)
def test_deleting_everything_leaves_empty_lists(name: str, rng: np.random.Generator) -> None:
    """No entry stays behind that a later clause in the same slot could inherit."""
    clauses = Clauses(4, rng)
    for slot in range(200):
        clauses.put(slot, clauses.draw())
    matcher = built(name, clauses)
    assert matcher.describe()["entries"] > 0
    matcher.delete(clauses.live)
    assert matcher.describe()["entries"] == 0
    assert found(matcher, clauses.events(20)[1]) == [[]] * 20


# -- the approximate mode ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("levels", [2, 5, 12])
def test_approximate_never_loses_and_misses_by_less_than_a_cell(
    name: str, levels: int, rng: np.random.Generator
) -> None:
    """Every match is reported, and every false one would be true with its bounds moved by one finest cell.

    A bound outside the domain counts as the domain's end; a value outside it is never taken falsely.
    """
    clauses = Clauses(4, rng)
    for slot in range(500):
        clauses.put(slot, clauses.draw())
    matcher = built(name, clauses, levels=levels, exact=False)
    dense, events = clauses.events(80)
    false_positives = 0
    for row, slots in zip(dense, found(matcher, events), strict=True):
        assert set(clauses.truth(row)) <= set(slots)
        for s in set(slots) - set(clauses.truth(row)):
            false_positives += 1
            for a, low, high in clauses.of_slot[s]:
                near = min(low, 1.0) - 2.0**-levels <= row[a] <= max(high, 0.0) + 2.0**-levels
                assert low <= row[a] <= high or (0 <= row[a] <= 1 and near)
    if levels == 2:
        assert false_positives > 0, "cells this wide must show false positives, or the mode is not tested"


@pytest.mark.parametrize("name", BOTH)
def test_false_positives_halve_with_each_level(name: str, rng: np.random.Generator) -> None:
    """With uniform bounds and values, the share of falsely satisfied predicates is at most that of the edge cells."""
    low = rng.random(4000) * 0.6
    start = np.arange(4000, dtype=np.int64)
    table = ClauseTable(start, start + 1, np.zeros(4000, np.int32), low, low + 0.4)
    values = rng.random(200)
    truth = int(((low <= values[:, None]) & (values[:, None] <= low + 0.4)).sum())
    for levels in (3, 5, 7):
        matcher = make_matcher(name, levels=levels, exact=False)
        matcher.build(table, Domains(np.zeros(1), np.ones(1)))
        _, slots = matcher.match_batch(columns(values[:, None]))
        # Two edge cells per predicate, each false on half of its width.
        assert 0 < slots.size - truth < 1.2 * 2.0**-levels * low.size * values.size


# -- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("levels", [0, 21])
def test_levels_out_of_range_are_refused(name: str, levels: int) -> None:
    with pytest.raises(MatcherError, match="levels must be from 1 to 20"):
        make_matcher(name, levels=levels)


def test_a_ready_level_must_leave_a_level_below() -> None:
    with pytest.raises(MatcherError, match="ready_level must be from 0 to levels - 1 = 3, not 4"):
        make_matcher("tama-o", levels=4, ready_level=4)


def test_ready_bitsets_replace_the_lists_of_coarse_levels(rng: np.random.Generator) -> None:
    """A finer ready level gives fewer entries; the level chosen unasked spends no more than its bound."""
    clauses = Clauses(4, rng)
    for slot in range(500):
        clauses.put(slot, clauses.draw())
    entries = [built("tama-o", clauses, ready_level=level).describe()["entries"] for level in (0, 3, 6)]
    assert entries[0] > entries[1] > entries[2]
    chosen = built("tama-o", clauses).describe()
    n_predicates = sum(map(len, clauses.of_slot))
    assert (4 << chosen["ready_level"]) * 500 / 8 <= 32 * n_predicates
