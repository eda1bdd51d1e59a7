"""Predicates that a plan has left out of its lists, asked about in the end, of the few clauses that are left.

A clause has six bytes for each such predicate: its attribute, and its bounds as codes. Codes keep order. An attribute
with few different bounds has codes by rank: the bounds and the gaps between them have one each, so a code tells all.
Other bounds have the code of their position (`positions.code_of`), where a predicate whose code excludes the value's
fails, and one that holds with a code to spare on both sides holds; where a value comes within 1/32768 of a bound the
clause table tells. So the answer is exact. All rows of a plan are equally long: a clause is found without a
look-up, and comparing it is a loop without surprises.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, prefetch, trailing_zeros
from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import code_of
from eventsieve.model.columns import ClauseTable, EventColumns
from eventsieve.model.transform import TransformTable

_MOST_COLUMNS: Final = 8
"""Predicates of a clause that have codes. Where more are left out, the clause table is asked."""
_FIELDS: Final = 3
"""Attribute + 1, code of the low end, last code - code of the high end. So zeros ask for nothing, of attribute 0."""
_LAST: Final = (1 << 16) - 1
_MOST_RANKS: Final = (_LAST - 2) // 4
_NO_ATTRIBUTE: Final = 1
"""The code of every event's attribute 0: inside of what zeros ask for, and on the border of what asks the table."""
_ABSENT: Final = -1
_AHEAD: Final = 24
"""Clauses whose rows are asked for before they are looked at: they lie scattered over the block."""
_SEEN_AT_FIRST: Final = 1 << 16
_AT_ONCE: Final = 2
ROOM_TO_CHECK: Final = BLOCK_SLOTS + _AT_ONCE
"""Places that `check_block` needs to work in."""

_ZERO, _ONE, _LOW_BITS, _WORD_SHIFT = np.uint64(0), np.uint64(1), np.uint64(WORD_BITS - 1), np.uint64(6)


class LeftOut(NamedTuple):
    """What a plan asks about in the end."""

    table: TransformTable
    rank_start: NDArray[np.int64]  # (n_attributes + 1,)
    ranked: NDArray[np.float64]  # (n_ranked,), the bounds of attributes with codes by rank, rising within each
    rows: NDArray[np.uint16]  # (n_slots, n_columns * 3), zeros where nothing is asked
    asks: NDArray[np.uint64]  # (n_blocks, words per block), the slot has more than zeros


def left_out_of(table: TransformTable, left_out: ClauseTable, n_attributes: int) -> LeftOut:
    """Return the codes of a table that holds the left-out predicates alone."""
    n_slots = left_out.start.size
    most = int((left_out.stop - left_out.start).max(initial=0))
    rank_start, ranked = _few_bounds(left_out, n_attributes)
    rows = np.zeros((n_slots, _FIELDS * min(most, _MOST_COLUMNS)), np.uint16)
    asks = np.zeros((-(-n_slots // BLOCK_SLOTS), BLOCK_SLOTS // WORD_BITS), np.uint64)
    found = LeftOut(table, rank_start, ranked, rows, asks)
    if most:
        _fill(found, left_out)
    return found


def with_room(left_out: LeftOut, n_slots: int) -> LeftOut:
    """Return the same with more slots, which ask for nothing."""
    more = max(0, n_slots - left_out.rows.shape[0])
    rows = np.concatenate([left_out.rows, np.zeros((more, left_out.rows.shape[1]), np.uint16)])
    more = max(0, -(-n_slots // BLOCK_SLOTS) - left_out.asks.shape[0])
    asks = np.concatenate([left_out.asks, np.zeros((more, left_out.asks.shape[1]), np.uint64)])
    return left_out._replace(rows=rows, asks=asks)


def _few_bounds(left_out: ClauseTable, n_attributes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the different bounds of attributes that do not have too many."""
    order = np.argsort(left_out.attribute, kind="stable")
    cuts = np.searchsorted(left_out.attribute[order], np.arange(n_attributes + 1))
    parts: list[NDArray[np.float64]] = [np.empty(0)]
    start = np.zeros(n_attributes + 1, np.int64)
    for a in range(n_attributes):
        mine = order[cuts[a] : cuts[a + 1]]
        few = _distinct(left_out, mine[:_SEEN_AT_FIRST])
        if few.size <= _MOST_RANKS and mine.size > _SEEN_AT_FIRST:
            few = _distinct(left_out, mine)
        parts.append(few if few.size <= _MOST_RANKS else parts[0])
        start[a + 1] = start[a] + parts[-1].size
    return start, np.concatenate(parts)


def _distinct(table: ClauseTable, predicate: NDArray[np.int64]) -> NDArray[np.float64]:
    bounds = np.concatenate([table.low[predicate], table.high[predicate]])
    return np.unique(bounds[np.isfinite(bounds)])


@inlined
def _rank_of(left_out: LeftOut, a: int, value: float) -> int:
    """Return how many of an attribute's bounds are less than a value."""
    low, high = left_out.rank_start[a], left_out.rank_start[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if left_out.ranked[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low - left_out.rank_start[a]


@inlined
def _has_ranks(left_out: LeftOut, a: int) -> bool:
    return left_out.rank_start[a] < left_out.rank_start[a + 1]


@inlined
def _position_code(table: TransformTable, a: int, value: float) -> int:
    """Return a code from 1 to 32,768, so that there is one beyond it on either side, for ends that are open."""
    return 1 + (code_of(table, a, value) >> 1)


@kernel
def _value_code(left_out: LeftOut, a: int, value: float) -> int:
    """Return the code of an event's value. The r-th bound, as a value, has 4 r + 3, and the gap below it 4 r + 1."""
    if not _has_ranks(left_out, a):
        return _position_code(left_out.table, a, value)
    rank = _rank_of(left_out, a, value)
    at = left_out.rank_start[a] + rank
    same = at < left_out.rank_start[a + 1] and left_out.ranked[at] == value
    return 4 * rank + (3 if same else 1)


@kernel
def _bound_code(left_out: LeftOut, a: int, bound: float, beside: int) -> int:
    """Return the code of a bound. By rank it is beside the code of the value: nothing ever is on the border."""
    if not _has_ranks(left_out, a):
        return _position_code(left_out.table, a, bound)
    # Infinite bounds have no rank. Nothing is above the last code, and nothing must be below the first.
    return 4 * _rank_of(left_out, a, bound) + 3 + beside if bound > -np.inf else 0


@kernel
def _fill(found: LeftOut, left_out: ClauseTable) -> None:
    for s in range(found.rows.shape[0]):
        column = 0
        for p in range(left_out.start[s], left_out.stop[s]):
            found.asks[s // BLOCK_SLOTS, s % BLOCK_SLOTS // WORD_BITS] |= _ONE << (np.uint64(s) & _LOW_BITS)
            a = left_out.attribute[p]
            if column == found.rows.shape[1] or a >= _LAST:
                # No room, or no code: ask for attribute 0 so that every event is on the border.
                found.rows[s, :_FIELDS] = 0, _NO_ATTRIBUTE, 0
                break
            found.rows[s, column] = a + 1
            if left_out.low[p] > -np.inf:
                found.rows[s, column + 1] = _bound_code(found, a, left_out.low[p], -1)
            if left_out.high[p] < np.inf:
                found.rows[s, column + 2] = _LAST - _bound_code(found, a, left_out.high[p], 1)
            column += _FIELDS


@kernel
def forget_slots(slots: NDArray[np.int32], left_out: LeftOut) -> None:
    """Ask nothing of the clauses at `slots` any more."""
    for s in slots:
        left_out.rows[s] = 0
        left_out.asks[s // BLOCK_SLOTS, s % BLOCK_SLOTS // WORD_BITS] &= ~(_ONE << (np.uint64(s) & _LOW_BITS))


@kernel
def code_event(
    left_out: LeftOut, events: EventColumns, e: int, out_code: NDArray[np.int32], out_value: NDArray[np.float64]
) -> None:
    """Write the code of each attribute of an event to its number + 1, and its value to its number."""
    out_code[:], out_value[:] = _ABSENT, np.nan
    out_code[0] = _NO_ATTRIBUTE
    for i in range(events.start[e], events.start[e + 1]):
        a = events.attribute[i]
        out_code[a + 1], out_value[a] = _value_code(left_out, a, events.value[i]), events.value[i]


@kernel
def check_block(
    left_out: LeftOut,
    clauses: ClauseTable,
    block: int,
    code: NDArray[np.int32],
    value: NDArray[np.float64],
    place: NDArray[np.int32],
    inout_candidates: NDArray[np.uint64],
) -> None:
    """Clear the bits of the candidates of a block whose left-out predicates fail. `place` is room to work in."""
    n_places = _list_asked(left_out.asks[block], inout_candidates, place)
    rows, first = left_out.rows.reshape(left_out.rows.size), block * BLOCK_SLOTS
    width, n_columns, last = left_out.rows.shape[1], left_out.rows.shape[1] // _FIELDS, np.int32(_LAST)
    for j in range(min(_AHEAD, n_places)):
        _fetch_row(rows, width, first + place[j])
    for j in range(n_places):
        if j + _AHEAD < n_places:
            _fetch_row(rows, width, first + place[j + _AHEAD])
        # Together they are negative if one is. The second ones are so on a border too.
        outside = inside = np.int32(0)
        # Unsigned, since a signed place could be counted from the end, and that is asked at every step.
        at = np.uint64(width * (first + place[j]))
        for _ in range(n_columns):
            own = code[rows[at]]
            above = own - np.int32(rows[at + np.uint64(1)])
            below = last - np.int32(rows[at + np.uint64(2)]) - own
            outside |= above | below
            inside |= (above - 1) | (below - 1)
            at += np.uint64(_FIELDS)
        # Whether a clause holds is hard to guess, so it is no branch. That codes do not tell is seldom.
        fails = int(outside < 0)
        if (fails == 0) & (inside < 0):
            fails = int(not clause_holds(clauses, first + place[j], value))
        bit = np.uint64(place[j])
        inout_candidates[bit >> _WORD_SHIFT] &= ~(np.uint64(fails) << (bit & _LOW_BITS))


@inlined
def _fetch_row(rows: NDArray[np.uint16], width: int, s: int) -> None:
    """Ask for both ends of a row: every other one goes over the border of a line of the cache."""
    prefetch(rows, width * s)
    prefetch(rows, width * s + width - 1)


@kernel
def _list_asked(asks: NDArray[np.uint64], candidates: NDArray[np.uint64], out_place: NDArray[np.int32]) -> int:
    """Write the places of the candidates that are asked; return how many there are."""
    n_places = 0
    for w in range(asks.shape[0]):
        word = candidates[w] & asks[w]
        # Most words have one or two: those are written in any case, since how many there are is hard to guess.
        for _ in range(_AT_ONCE):
            out_place[n_places] = w * WORD_BITS + trailing_zeros(word)
            n_places += word != _ZERO
            word &= word - np.uint64(word != _ZERO)
        while word != _ZERO:
            out_place[n_places] = w * WORD_BITS + trailing_zeros(word)
            n_places += 1
            word &= word - _ONE
    return n_places
