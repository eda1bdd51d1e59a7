"""Check the matches again that may be false (`verify=True`): all predicates of their clauses."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import kernel
from eventsieve.model.columns import ClauseTable, EventColumns

_AHEAD: Final = 64
"""Clauses whose rows are asked for before the first of them is looked at: they lie scattered over the whole table."""


@kernel
def verify_matches(
    clauses: ClauseTable,
    events: EventColumns,
    n_attributes: int,
    event_start: NDArray[np.int64],
    slots: NDArray[np.int32],
    approximate: NDArray[np.bool_],
    out_keep: NDArray[np.bool_],
    out_count: NDArray[np.int64],
) -> None:
    """Check every predicate of the approximate matches; say which matches are true, and how many each event has."""
    row = np.full(n_attributes, np.nan)
    waiting = np.empty(_AHEAD, np.int64)
    for e in range(event_start.shape[0] - 1):
        for i in range(events.start[e], events.start[e + 1]):
            row[events.attribute[i]] = events.value[i]
        n_waiting, n_false = 0, 0
        for j in range(event_start[e], event_start[e + 1]):
            out_keep[j] = True
            if approximate[j]:
                prefetch(clauses.start, slots[j])
                prefetch(clauses.stop, slots[j])
                waiting[n_waiting] = j
                n_waiting += 1
                if n_waiting == _AHEAD:
                    n_false += _check(clauses, row, slots, waiting, n_waiting, out_keep)
                    n_waiting = 0
        n_false += _check(clauses, row, slots, waiting, n_waiting, out_keep)
        out_count[e] = event_start[e + 1] - event_start[e] - n_false
        for i in range(events.start[e], events.start[e + 1]):
            row[events.attribute[i]] = np.nan


@kernel
def _check(
    clauses: ClauseTable,
    row: NDArray[np.float64],
    slots: NDArray[np.int32],
    waiting: NDArray[np.int64],
    n_waiting: int,
    out_keep: NDArray[np.bool_],
) -> int:
    """Check the waiting matches against an event's row of values; return how many are false."""
    for i in range(n_waiting):
        first = clauses.start[slots[waiting[i]]]
        prefetch(clauses.attribute, first)
        prefetch(clauses.low, first)
        prefetch(clauses.high, first)
    n_false = 0
    for i in range(n_waiting):
        s = slots[waiting[i]]
        for p in range(clauses.start[s], clauses.stop[s]):
            value = row[clauses.attribute[p]]
            # An absent attribute is not a number, which lies in no interval.
            if not (clauses.low[p] <= value <= clauses.high[p]):
                out_keep[waiting[i]] = False
                n_false += 1
                break
    return n_false
