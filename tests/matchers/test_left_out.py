"""Checks by codes give the answers of exact bounds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.matchers.left_out import ROOM_TO_CHECK, check_block, code_event, forget_slots, left_out_of
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.model.transform import transform_table


def clauses_of(predicates: list[list[tuple[int, float, float]]]) -> ClauseTable:
    sizes = np.array([len(each) for each in predicates], np.int64)
    rows = np.array([one for each in predicates for one in each]).reshape(-1, 3)
    stop = np.cumsum(sizes)
    low, high = (np.ascontiguousarray(rows[:, column]) for column in (1, 2))
    return ClauseTable(stop - sizes, stop, rows[:, 0].astype(np.int32), low, high)


def kept(clauses: ClauseTable, values: NDArray[np.float64]) -> list[set[int]]:
    """Return the clauses that hold for each row of values, where NaN is an absent one, by what was left out alone."""
    n_events, n_attributes = values.shape
    there = ~np.isnan(values)
    event_start = np.zeros(n_events + 1, np.int64)
    np.cumsum(there.sum(axis=1), out=event_start[1:])
    events = EventColumns(event_start, np.nonzero(there)[1].astype(np.int32), values[there])
    domains = Domains(np.zeros(n_attributes), np.ones(n_attributes))
    table = transform_table(domains, {})
    left_out = left_out_of(table, clauses, n_attributes)
    code, value, place = np.empty(n_attributes + 1, np.int32), np.empty(n_attributes), np.empty(ROOM_TO_CHECK, np.int32)
    found = []
    for e in range(n_events):
        candidates = np.packbits(np.arange(BLOCK_SLOTS) < clauses.start.size, bitorder="little").view(np.uint64)
        code_event(left_out, events, e, code, value)
        check_block(left_out, clauses, 0, code, value, place, candidates)
        found.append(set(np.flatnonzero(np.unpackbits(candidates.view(np.uint8), bitorder="little")).tolist()))
    return found


def truth(clauses: ClauseTable, row: NDArray[np.float64]) -> set[int]:
    found = set()
    for s in range(clauses.start.size):
        mine = slice(clauses.start[s], clauses.stop[s])
        value = row[clauses.attribute[mine]]
        if ((clauses.low[mine] <= value) & (value <= clauses.high[mine])).all():
            found.add(s)
    return found


@pytest.mark.parametrize("most", [1, 4, 12], ids=["one each", "few each", "more than have codes"])
def test_codes_decide_as_bounds_do(rng: np.random.Generator, most: int) -> None:
    """Bounds and values are few, so that they often meet; some lie outside of the domain, some ends are open."""
    ends = np.array([-np.inf, -1.0, 0.0, 0.3, np.nextafter(0.3, 1), 0.30001, 0.7, 1.0, 1.5, np.inf])
    clauses = []
    for _ in range(200):
        attributes = rng.choice(14, rng.integers(0, most + 1), replace=False)
        pairs = np.sort(rng.choice(ends, (attributes.size, 2)), axis=1)
        clauses.append([(int(a), low, high) for a, (low, high) in zip(attributes, pairs.tolist(), strict=True)])
    table = clauses_of(clauses)
    values = rng.choice(np.append(ends[1:-1], np.nan), (40, 14))
    assert kept(table, values) == [truth(table, row) for row in values]


def test_what_has_no_code_is_looked_up() -> None:
    """A row names an attribute by 16 bits."""
    last = 70_000
    table = clauses_of([[(last, 0.2, 0.4)], [(last, 0.2, 0.4), (0, 0.5, 0.6)], [(0, 0.5, 0.6)], []])
    values = np.full((3, last + 1), np.nan)
    values[:, 0], values[:, last] = [0.55, 0.55, 0.1], [0.3, 0.9, 0.3]
    assert kept(table, values) == [{0, 1, 2, 3}, {2, 3}, {0, 3}]


def test_many_bounds_have_codes_by_position_and_few_by_rank(rng: np.random.Generator) -> None:
    """Close values decide the same way, and where codes by position do not tell them apart the table does."""
    many = np.sort(rng.random((20_000, 2)), axis=1)
    clauses = [[(0, low, high), (1, 0.25, 0.5)] for low, high in many.tolist()]
    table = clauses_of(clauses)
    values = np.array([[value, 0.25] for value in many[:5].ravel()] + [[0.5, np.nextafter(0.25, 0)], [0.5, 0.5]])
    assert kept(table, values) == [truth(table, row) for row in values]
    ranks = left_out_of(transform_table(Domains(np.zeros(2), np.ones(2)), {}), table, 2).rank_start
    assert ranks.tolist() == [0, 0, 2]


def test_forgotten_clauses_are_not_asked(rng: np.random.Generator) -> None:
    transform = transform_table(Domains(np.zeros(2), np.ones(2)), {})
    left_out = left_out_of(transform, clauses_of([[(0, 0.2, 0.4)], [(1, 0.1, 0.2)], []]), 2)
    assert left_out.asks[0, 0] == 0b011
    forget_slots(np.array([1], np.int32), left_out)
    assert left_out.asks[0, 0] == 0b001
    assert not left_out.rows[1].any()


def test_nothing_left_out_is_nothing_to_check() -> None:
    transform = transform_table(Domains(np.zeros(2), np.ones(2)), {})
    assert left_out_of(transform, clauses_of([[], []]), 2).rows.size == 0
