"""Predicates that a plan has left out of its lists, asked about in the end, of the few clauses that are left.

A clause has six bytes for each such predicate: its attribute, and its bounds as codes (`positions.code_of`). Codes keep
order, so a predicate whose code excludes the value's fails, and one that holds with a code to spare on both
sides holds. Where a value comes within 1/32768 of a bound the clause table tells, so the answer is exact. All rows of a
plan are equally long: a clause is found without a look-up, and comparing it is a loop without surprises. With a
million subscriptions that took 17 ns a clause, where rows of three floats, as many as the clause needs, took 31.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import code_of

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable, EventColumns
    from eventsieve.model.transform import TransformTable

_MOST_COLUMNS: Final = 8
"""Predicates of a clause that have codes. Where more are left out, the clause table is asked."""
_FIELDS: Final = 3
"""Attribute + 1, code of the low end, last code - code of the high end. So zeros ask for nothing, of attribute 0."""
_LAST: Final = (1 << 16) - 1
_NO_ATTRIBUTE: Final = 1
"""The code of every event's attribute 0: inside of what zeros ask for, and on the border of what asks the table."""
_ABSENT: Final = -1
_AHEAD: Final = 24
"""Clauses whose rows are asked for before they are looked at: they lie scattered over all of them."""


def coded_rows(table: TransformTable, left_out: ClauseTable) -> NDArray[np.uint16]:
    """Return a row of codes for each clause of a table that holds the left-out predicates alone."""
    most = int((left_out.stop - left_out.start).max(initial=0))
    rows = np.zeros((left_out.start.size, _FIELDS * min(most, _MOST_COLUMNS)), np.uint16)
    if most:
        _fill(table, left_out, rows)
    return rows


@inlined
def _inner_code(table: TransformTable, a: int, value: float) -> int:
    """Return a code from 1 to 32,768, so that there is one beyond it on either side, for ends that are open."""
    return 1 + (code_of(table, a, value) >> 1)


@kernel
def _fill(table: TransformTable, left_out: ClauseTable, out_rows: NDArray[np.uint16]) -> None:
    for s in range(out_rows.shape[0]):
        column = 0
        for p in range(left_out.start[s], left_out.stop[s]):
            a = left_out.attribute[p]
            if column == out_rows.shape[1] or a >= _LAST:
                # No room, or no code: ask for attribute 0 so that every event is on the border.
                out_rows[s, :_FIELDS] = 0, _NO_ATTRIBUTE, 0
                break
            out_rows[s, column] = a + 1
            if left_out.low[p] > -np.inf:
                out_rows[s, column + 1] = _inner_code(table, a, left_out.low[p])
            if left_out.high[p] < np.inf:
                out_rows[s, column + 2] = _LAST - _inner_code(table, a, left_out.high[p])
            column += _FIELDS


@kernel
def check_left_out(
    table: TransformTable,
    rows: NDArray[np.uint16],
    clauses: ClauseTable,
    events: EventColumns,
    n_attributes: int,
    event_start: NDArray[np.int64],
    inout_slots: NDArray[np.int32],
    out_count: NDArray[np.int64],
) -> int:
    """Keep the matches whose left-out predicates hold as well, moved to the front; return how many there are."""
    code = np.full(n_attributes + 1, _ABSENT, np.int32)
    code[0] = _NO_ATTRIBUTE
    value = np.full(n_attributes, np.nan)
    flat_rows, n_columns, last = rows.reshape(rows.size), rows.shape[1] // _FIELDS, np.int32(_LAST)
    # Unsigned, since a signed place could be counted from the end, and that is asked at every step.
    width, fields, one, two = np.uint64(rows.shape[1]), np.uint64(_FIELDS), np.uint64(1), np.uint64(2)
    kept = 0
    for e in range(event_start.shape[0] - 1):
        for i in range(events.start[e], events.start[e + 1]):
            a = events.attribute[i]
            code[a + 1], value[a] = _inner_code(table, a, events.value[i]), events.value[i]
        begin, stop = kept, event_start[e + 1]
        for j in range(event_start[e], stop):
            if j + _AHEAD < stop:
                prefetch(flat_rows, rows.shape[1] * inout_slots[j + _AHEAD])
            s = inout_slots[j]
            # Together they are negative if one is. The second ones are so on a border too.
            outside = inside = np.int32(0)
            place = np.uint64(s) * width
            n_asked = n_columns if flat_rows[place] | flat_rows[place + one] else 0
            for _ in range(n_asked):
                own = code[flat_rows[place]]
                above = own - np.int32(flat_rows[place + one])
                below = last - np.int32(flat_rows[place + two]) - own
                outside |= above | below
                inside |= (above - 1) | (below - 1)
                place += fields
            # Whether a clause holds is hard to guess, so it is no branch. That codes do not tell is seldom.
            holds = int(outside >= 0)
            if holds & (inside < 0) & (n_asked > 0):
                holds = int(_holds(clauses, s, value))
            inout_slots[kept] = s
            kept += holds
        out_count[e] = kept - begin
        for i in range(events.start[e], events.start[e + 1]):
            code[events.attribute[i] + 1], value[events.attribute[i]] = _ABSENT, np.nan
    return kept


@kernel
def _holds(clauses: ClauseTable, s: int, value: NDArray[np.float64]) -> bool:
    for p in range(clauses.start[s], clauses.stop[s]):
        # An absent attribute is not a number, which lies in no interval.
        if not (clauses.low[p] <= value[clauses.attribute[p]] <= clauses.high[p]):
            return False
    return True
