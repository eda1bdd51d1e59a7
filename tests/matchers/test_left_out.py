"""Checks by codes give the answers of exact bounds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve.matchers.left_out import check_left_out, coded_rows
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
    n_clauses = clauses.start.size
    candidates = np.tile(np.arange(n_clauses, dtype=np.int32), n_events)
    starts, counts = np.arange(n_events + 1) * n_clauses, np.empty(n_events, np.int64)
    rows = coded_rows(table, clauses)
    n_kept = check_left_out(table, rows, clauses, events, n_attributes, starts, candidates, counts)
    cuts = np.cumsum(counts)
    assert cuts[-1] == n_kept
    return [set(part.tolist()) for part in np.split(candidates[:n_kept], cuts[:-1])]


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


def test_nothing_left_out_is_nothing_to_check() -> None:
    assert coded_rows(transform_table(Domains(np.zeros(2), np.ones(2)), {}), clauses_of([[], []])).size == 0
