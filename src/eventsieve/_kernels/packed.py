"""Packed leaves: the clauses of one leaf side by side, with all that is needed to judge them, read front to back.

A predicate takes six bytes: its attribute and its bounds as 16-bit codes of positions (`positions.code_of`). A leaf
is stored column by column, and a clause's most telling predicate stands in the first. Scanning compares a column and
keeps what passes for the next, without a branch per clause: see `matchers.simple`, where this idea was measured.

Codes keep order, so a predicate whose code excludes the value's code fails. One that holds with a code to spare on
both sides holds. Where the codes are equal, only exact bounds can tell, except that two whole numbers with the same
code are the same number, wherever the codes of an attribute keep whole numbers apart. So integers, texts and
booleans need no look into the clause table, and real numbers need one where a value comes within 1/65536 of a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS, code_of

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable, EventColumns
    from eventsieve.model.transform import TransformTable

MOST_COLUMNS: Final = 8
"""Predicates of a clause that are packed. Few clauses pass so many; the rest is checked in the clause table."""
MOST_ATTRIBUTES: Final = (1 << 16) - 1
LAST_CODE: Final = (1 << CODE_BITS) - 1
_ABSENT: Final = -(1 << 20)
"""The code of a value that is not there: as an unsigned number, its distance from any low end is beyond every width."""
_CHECKED: Final = np.uint32(1 << 31)
SLOT_BITS: Final = np.uint32((1 << 31) - 1)
_WIDTH: Final = np.uint32(LAST_CODE)


class Coding(NamedTuple):
    """How predicates and values become codes."""

    table: TransformTable
    whole_apart: NDArray[np.bool_]  # (n_attributes,): different whole numbers within the domain have different codes
    n_columns: int


class Leaves(NamedTuple):
    """A pool of places. A leaf owns `room` of them from `start` on, and its clause i stands at place start + i.

    Predicate j of that clause stands at (start * n_columns) + j * room + i: column by column within the leaf.
    """

    slot: NDArray[np.uint32]  # (places,): the highest bit says that codes alone may not decide
    attribute: NDArray[np.uint16]  # (places * n_columns,); n_attributes asks for nothing
    bounds: NDArray[np.uint32]  # (places * n_columns,): low << 16 | high - low


class EventRow(NamedTuple):
    """One event at a time, spread out by attribute."""

    code: NDArray[np.int32]  # (n_attributes + 1,): negative where there is no value; the last is 0
    value: NDArray[np.float64]  # (n_attributes,): NaN where there is no value
    survivors: NDArray[np.int32]  # as many as the largest leaf has clauses


def whole_apart(table: TransformTable) -> NDArray[np.bool_]:
    """Say, per attribute, whether a step of 1 anywhere in the domain is a step of more than one code."""
    least = np.array(
        [table.slope[first : stop - 1].min() for first, stop in zip(table.start[:-1], table.start[1:], strict=True)]
    )
    return least * (1 << CODE_BITS) > 1.0001


def new_row(n_attributes: int, largest_leaf: int) -> EventRow:
    """Return a row without values."""
    code = np.full(n_attributes + 1, _ABSENT, np.int32)
    code[n_attributes] = 0
    return EventRow(code, np.full(n_attributes, np.nan), np.empty(largest_leaf, np.int32))


@kernel
def take_up(coding: Coding, events: EventColumns, e: int, row: EventRow) -> bool:
    """Spread out an event; return whether equal codes prove equal values for all of it."""
    all_whole = True
    for i in range(events.start[e], events.start[e + 1]):
        a, value = events.attribute[i], events.value[i]
        row.code[a] = code_of(coding.table, a, value)
        row.value[a] = value
        all_whole &= _is_whole(coding, a, value)
    return all_whole


@kernel
def put_down(events: EventColumns, e: int, row: EventRow) -> None:
    """Take the event out of the row again."""
    for i in range(events.start[e], events.start[e + 1]):
        a = events.attribute[i]
        row.code[a] = _ABSENT
        row.value[a] = np.nan


@inlined
def _is_whole(coding: Coding, a: int, value: float) -> bool:
    """Say whether no other whole number of the domain shares the code of this one."""
    table = coding.table
    inside = table.value[table.start[a]] <= value <= table.value[table.start[a + 1] - 1]
    return bool(coding.whole_apart[a] and inside and value == np.floor(value))


@kernel
def pack_clause(
    coding: Coding,
    clauses: ClauseTable,
    s: int,
    known_low: NDArray[np.int32],
    known_high: NDArray[np.int32],
    start: int,
    room: int,
    i: int,
    leaves: Leaves,
) -> None:
    """Write the clause at slot s as number i of the leaf at `start`, the most telling predicate first.

    An event that gets here has a code from known_low[a] to known_high[a]: a predicate is judged by what it leaves of
    that, so one that the way to the leaf has already decided comes last.
    """
    n_columns = coding.n_columns
    share = np.empty(MOST_COLUMNS)
    attribute = np.empty(MOST_COLUMNS, np.uint16)
    bounds = np.empty(MOST_COLUMNS, np.uint32)
    n_filled = 0
    checked = clauses.stop[s] - clauses.start[s] > n_columns
    for p in range(clauses.start[s], clauses.stop[s]):
        a = clauses.attribute[p]
        low, high = code_of(coding.table, a, clauses.low[p]), code_of(coding.table, a, clauses.high[p])
        checked |= clauses.low[p] > -np.inf and not _is_whole(coding, a, clauses.low[p])
        checked |= clauses.high[p] < np.inf and not _is_whole(coding, a, clauses.high[p])
        left_over = min(high, known_high[a]) - max(low, known_low[a]) + 1
        its_share = left_over / (known_high[a] - known_low[a] + 1)
        at = n_filled
        while at > 0 and its_share < share[at - 1]:
            at -= 1
        if at == n_columns:
            continue
        n_filled = min(n_filled + 1, n_columns)
        for j in range(n_filled - 1, at, -1):
            share[j], attribute[j], bounds[j] = share[j - 1], attribute[j - 1], bounds[j - 1]
        share[at], attribute[at], bounds[at] = its_share, a, np.uint32((low << 16) | (high - low))
    for j in range(n_columns):
        place = start * n_columns + j * room + i
        leaves.attribute[place] = attribute[j] if j < n_filled else coding.whole_apart.shape[0]
        leaves.bounds[place] = bounds[j] if j < n_filled else _WIDTH
    leaves.slot[start + i] = np.uint32(s) | (_CHECKED if checked else np.uint32(0))


@inlined
def slot_at(leaves: Leaves, place: int) -> int:
    """Return the slot of the clause at a place."""
    return int(leaves.slot[place] & SLOT_BITS)


@kernel
def copy_clause(
    leaves: Leaves, n_columns: int, start: int, room: int, i: int, new_start: int, new_room: int, new_i: int,
    out_leaves: Leaves,
) -> None:  # fmt: skip
    """Copy a clause from one leaf, or place of it, to another."""
    out_leaves.slot[new_start + new_i] = leaves.slot[start + i]
    for j in range(n_columns):
        old, new = start * n_columns + j * room + i, new_start * n_columns + j * new_room + new_i
        out_leaves.attribute[new] = leaves.attribute[old]
        out_leaves.bounds[new] = leaves.bounds[old]


@inlined
def _may_hold(code: np.int32, bounds: np.uint32) -> bool:
    """Say whether a code lies within the bounds: one comparison, since what lies below wraps to beyond every width."""
    return bool(np.uint32(code - np.int32(bounds >> np.uint32(16))) <= (bounds & _WIDTH))


@kernel
def scan_leaf(
    leaves: Leaves,
    clauses: ClauseTable,
    n_columns: int,
    start: int,
    room: int,
    size: int,
    all_whole: bool,
    row: EventRow,
    end: int,
    out_slots: NDArray[np.int32],
) -> int:
    """Write the clauses of a leaf that the event satisfies from out_slots[end] on; return the new end."""
    code, survivors = row.code, row.survivors
    first = start * n_columns
    attribute, bounds = leaves.attribute[first : first + size], leaves.bounds[first : first + size]
    n_survivors = 0
    for i in range(size):
        survivors[n_survivors] = i
        n_survivors += _may_hold(code[attribute[i]], bounds[i])
    for j in range(1, n_columns):
        if n_survivors == 0:
            return end
        first = start * n_columns + j * room
        attribute, bounds = leaves.attribute[first : first + size], leaves.bounds[first : first + size]
        n_kept = 0
        for k in range(n_survivors):
            i = survivors[k]
            survivors[n_kept] = i
            n_kept += _may_hold(code[attribute[np.uint32(i)]], bounds[np.uint32(i)])
        n_survivors = n_kept
    for k in range(n_survivors):
        i = survivors[k]
        marked = leaves.slot[start + i]
        s = marked & SLOT_BITS
        out_slots[end] = s
        if all_whole and marked == s:
            end += 1
        else:
            n_predicates = clauses.stop[s] - clauses.start[s]
            end += _certain(leaves, start * n_columns + i, room, n_columns, n_predicates, code) or clause_holds(
                clauses, s, row.value
            )
    return end


@kernel
def _certain(leaves: Leaves, place: int, room: int, n_columns: int, n_predicates: int, code: NDArray[np.int32]) -> bool:
    """Say whether codes alone prove that a clause holds: all of it is packed, with a code to spare on both sides."""
    if n_predicates > n_columns:
        return False
    for j in range(n_predicates):
        bounds = leaves.bounds[place + j * room]
        low = np.int32(bounds >> np.uint32(16))
        high = low + np.int32(bounds & _WIDTH)
        if not low < code[leaves.attribute[place + j * room]] < high:
            return False
    return True
