"""Matching: an event's queue of attributes, each by its triangle or directly (Algorithms 1 to 3), block by block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, prefetch, trailing_zeros
from eventsieve._kernels.bitset import and_row, copy_row, has_bit, set_bit
from eventsieve._kernels.bop import BlockRows, absent_attributes, start_block
from eventsieve._kernels.buckets import clear_places, set_places
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.plan import Plans
from eventsieve.matchers.hem.triangle import BLOCK_SLOTS, CODE_BITS, LAST_CODE, Grid, Index, RowLists
from eventsieve.model.columns import ClauseTable, EventColumns

_WORDS = BLOCK_SLOTS // WORD_BITS
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_LOW_BITS = np.uint64(WORD_BITS - 1)
_WORD_SHIFT = np.uint64(6)
_ROWS_AHEAD = 2
"""Rows of a triangle whose entries are fetched before their turn."""
_AHEAD = np.uint64(24)
"""Survivors whose entry in a column is fetched before their turn."""
_HIGH_END = np.uint32(CODE_BITS)
_LOW_END = np.uint32((1 << CODE_BITS) - 1)


class Scratch(NamedTuple):
    """What is known of one event, and of one block of clauses."""

    value: NDArray[np.float64]  # (n_attributes,), NaN where the event has none: no comparison with NaN holds
    absent: NDArray[np.int32]  # (n_attributes,)
    border: NDArray[np.int32]  # (n_attributes, most rows, 4)
    result: NDArray[np.uint64]  # (words of a block, and one for holes), the clauses that are left
    kept: NDArray[np.uint64]  # the same of one attribute
    doubtful: NDArray[np.uint64]  # those with an end in the code of a value
    survivor: NDArray[np.uint16]  # (BLOCK_SLOTS,), the places that are left, once there are few


def new_scratch(grid: Grid) -> Scratch:
    """Return scratch for one batch, with all attributes absent."""
    n_attributes = grid.rows.shape[0]
    return Scratch(
        np.full(n_attributes, np.nan),
        np.empty(n_attributes, np.int32),
        np.empty((n_attributes, int(grid.rows.max(initial=1)), 4), np.int32),
        np.zeros(_WORDS + 1, np.uint64),
        np.zeros(_WORDS + 1, np.uint64),
        np.zeros(_WORDS + 1, np.uint64),
        np.empty(BLOCK_SLOTS, np.uint16),
    )


@kernel
def match(
    clauses: ClauseTable,
    index: Index,
    rows: BlockRows,
    events: EventColumns,
    codes: NDArray[np.int32],
    plans: Plans,
    first: int,
    scratch: Scratch,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events as `Matcher._match_events` asks (Algorithm 3)."""
    n_slots, n_attributes = clauses.start.shape[0], index.grid.rows.shape[0]
    position = 0
    e = first
    while e < events.start.shape[0] - 1 and position + n_slots <= out_slots.shape[0]:
        begin = position
        n_absent = absent_attributes(events, e, n_attributes, scratch.absent)
        walks = events.start[e] + plans.n_walks[e]
        checks = walks + plans.n_checks[e]
        for i in range(events.start[e], events.start[e + 1]):
            scratch.value[events.attribute[i]] = events.value[i]
        for k in range(events.start[e], walks):
            i = plans.step[k]
            a = events.attribute[i]
            _find_borders(index.grid.rows[a], codes[i], scratch.border[a])
        for block in range(rows.alive.shape[0]):
            start_block(rows, block, scratch.absent, n_absent, scratch.result[:_WORDS])
            doubt = checks < events.start[e + 1]
            for k in range(events.start[e], walks):
                i = plans.step[k]
                doubt |= _walk(index, rows, block, events.attribute[i], codes[i], plans.keeps[i], scratch)
            n_survivors = _list_survivors(scratch)
            for k in range(walks, checks):
                i = plans.step[k]
                column = index.columns.ends[block, index.columns.column_of_attribute[events.attribute[i]]]
                n_survivors, equal = _check_column(column, codes[i], n_survivors, scratch.survivor)
                doubt |= equal
                if equal:
                    _note_doubt(column, codes[i], n_survivors, scratch)
            position = _report(
                clauses, block, n_survivors, doubt, checks < events.start[e + 1], scratch, position, out_slots
            )
        for i in range(events.start[e], events.start[e + 1]):
            scratch.value[events.attribute[i]] = np.nan
        out_count[e] = position - begin
        e += 1
    return e


# -- the triangle: Algorithm 1 -------------------------------------------------------------------------------


@kernel
def _find_borders(tau: int, code: int, out_border: NDArray[np.int32]) -> None:
    """Write, per row, the columns that the lines of a value cut (Algorithm 1, lines 1 and 2).

    Columns before the first border end before the value, and from the second on they end after it. Columns before the
    third begin before the value, and from the fourth on they begin after it. Codes are doubled, as in `triangle`.
    """
    for row in range(tau):
        # The least and the greatest doubled half width of the row.
        least = -((-row << (CODE_BITS + 1)) // (2 * tau))
        most = -((-(row + 1) << (CODE_BITS + 1)) // (2 * tau)) - 1
        out_border[row, 0] = _column(tau, row, 2 * code - most, 0)
        out_border[row, 1] = _column(tau, row, 2 * code - least, 1)
        out_border[row, 2] = _column(tau, row, 2 * code + least, 0)
        out_border[row, 3] = _column(tau, row, 2 * code + most, 1)


@inlined
def _column(tau: int, row: int, doubled_middle: int, behind: int) -> int:
    """Return the column of a middle, or the one behind it, within a row and counted from its first."""
    column = ((doubled_middle * 2 * tau) >> (CODE_BITS + 1)) + behind
    return min(max(column, row), 2 * tau - row) - row


@kernel
def _walk(index: Index, rows: BlockRows, block: int, a: int, code: int, keeps: bool, scratch: Scratch) -> bool:
    """Take the clauses of a block whose interval does not hold the value out of the result.

    Say whether an interval that stays has an end in the code of the value.
    """
    grid, lists = index.grid, index.lists
    start = lists.start[block * grid.row_start[-1] + grid.row_start[a] :][: grid.rows[a]]
    head = lists.head[block * grid.head_start[-1] + grid.head_start[a] :]
    if not keeps:
        return _exclude(lists, start, head, scratch.border[a], code, scratch.result, scratch.doubtful)
    copy_row(rows.null[block, a], scratch.kept[:_WORDS])
    doubt = _keep(lists, start, head, scratch.border[a], code, scratch.kept, scratch.doubtful)
    and_row(scratch.kept[:_WORDS], scratch.result[:_WORDS])
    return doubt


@kernel
def _exclude(
    lists: RowLists,
    start: NDArray[np.int64],
    head: NDArray[np.uint32],
    border: NDArray[np.int32],
    code: int,
    out_result: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Exclude the clauses outside the lines of a value: subareas 1 and 2 (Algorithm 1, lines 3 to 26)."""
    tau = start.shape[0]
    place, low, high = lists.place, lists.low, lists.high
    doubt = False
    for row in range(tau):
        _look_ahead(lists, start, head, border, min(row + _ROWS_AHEAD, tau - 1))
        cut_0, cut_1, cut_2, cut_3 = _cuts(start, head, border, row)
        stop = start[row] + np.int64(head[_first_head(tau, row) + 2 * (tau - row)])
        clear_places(place, start[row], cut_0, out_result)
        clear_places(place, cut_3, stop, out_result)
        doubt |= _exclude_band(place, high, cut_0, cut_1, np.uint16(code), out_result, out_doubtful)
        doubt |= _exclude_band(place, low, cut_2, cut_3, np.uint16(LAST_CODE - code), out_result, out_doubtful)
    return doubt


@kernel
def _keep(
    lists: RowLists,
    start: NDArray[np.int64],
    head: NDArray[np.uint32],
    border: NDArray[np.int32],
    code: int,
    out_kept: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Keep the clauses between the lines of a value: subarea 3."""
    tau = start.shape[0]
    place, low, high = lists.place, lists.low, lists.high
    doubt = False
    # In the lowest row both lines cut the same grids: there both ends are compared.
    first, _, _, stop = _cuts(start, head, border, 0)
    for i in range(first, stop):
        if high[i] >= code and low[i] >= LAST_CODE - code:
            set_bit(out_kept, place[i])
            if high[i] == code or low[i] == LAST_CODE - code:
                set_bit(out_doubtful, place[i])
                doubt = True
    for row in range(1, tau):
        _look_ahead(lists, start, head, border, min(row + _ROWS_AHEAD, tau - 1))
        cut_0, cut_1, cut_2, cut_3 = _cuts(start, head, border, row)
        set_places(place, cut_1, cut_2, out_kept)
        doubt |= _keep_band(place, high, cut_0, cut_1, np.uint16(code), out_kept, out_doubtful)
        doubt |= _keep_band(place, low, cut_2, cut_3, np.uint16(LAST_CODE - code), out_kept, out_doubtful)
    return doubt


@inlined
def _first_head(tau: int, row: int) -> int:
    """Return where the heads of a row begin: row r has 2 * (tau - r) columns, and one head more."""
    return row * (2 * tau + 2 - row)


@inlined
def _cuts(
    start: NDArray[np.int64], head: NDArray[np.uint32], border: NDArray[np.int32], row: int
) -> tuple[int, int, int, int]:
    """Return where in the pool the four borders of a row are."""
    base, h = start[row], _first_head(start.shape[0], row)
    return (
        base + np.int64(head[h + border[row, 0]]),
        base + np.int64(head[h + border[row, 1]]),
        base + np.int64(head[h + border[row, 2]]),
        base + np.int64(head[h + border[row, 3]]),
    )


@inlined
def _look_ahead(
    lists: RowLists, start: NDArray[np.int64], head: NDArray[np.uint32], border: NDArray[np.int32], row: int
) -> None:
    """Fetch what a later row compares: a few entries here and there, which the processor does not foresee."""
    cut_0, _, cut_2, _ = _cuts(start, head, border, row)
    prefetch(lists.place, cut_0)
    prefetch(lists.high, cut_0)
    prefetch(lists.place, cut_2)
    prefetch(lists.low, cut_2)


@inlined
def _exclude_band(
    place: NDArray[np.uint16],
    end: NDArray[np.uint16],
    first: int,
    stop: int,
    code: np.uint16,
    out_result: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Compare one end in the grids that a line cuts; exclude the clauses that fail."""
    doubt = False
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(place[i])
        out_result[bit >> _WORD_SHIFT] &= ~(np.uint64(end[i] < code) << (bit & _LOW_BITS))
        if end[i] == code:
            out_doubtful[bit >> _WORD_SHIFT] |= _ONE << (bit & _LOW_BITS)
            doubt = True
    return doubt


@inlined
def _keep_band(
    place: NDArray[np.uint16],
    end: NDArray[np.uint16],
    first: int,
    stop: int,
    code: np.uint16,
    out_kept: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Compare one end in the grids that a line cuts; keep the clauses that hold."""
    doubt = False
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(place[i])
        out_kept[bit >> _WORD_SHIFT] |= np.uint64(end[i] >= code) << (bit & _LOW_BITS)
        if end[i] == code:
            out_doubtful[bit >> _WORD_SHIFT] |= _ONE << (bit & _LOW_BITS)
            doubt = True
    return doubt


# -- the direct method: Algorithm 2 --------------------------------------------------------------------------


@kernel
def _list_survivors(scratch: Scratch) -> int:
    """List the places that are left; return how many."""
    n_survivors = 0
    for w in range(_WORDS):
        word = scratch.result[w]
        while word != _NONE:
            scratch.survivor[n_survivors] = w * WORD_BITS + trailing_zeros(word)
            n_survivors += 1
            word &= word - _ONE
    return n_survivors


@inlined
def _compare(ends: np.uint32, code: np.uint32) -> tuple[bool, bool]:
    """Say whether an interval may hold a value, and whether only exact ends can tell."""
    low, high = ends & _LOW_END, ends >> _HIGH_END
    return bool((low <= code) & (code <= high)), bool((low == code) | (high == code))


@kernel
def _check_column(
    column: NDArray[np.uint32], code: int, n_survivors: int, survivor: NDArray[np.uint16]
) -> tuple[int, bool]:
    """Keep the survivors whose interval may hold a value; return how many, and whether exact ends are asked for."""
    n_kept, last = np.uint64(0), np.uint64(max(n_survivors - 1, 0))
    equal = False
    for i in range(np.uint64(n_survivors)):
        prefetch(column, int(survivor[min(i + _AHEAD, last)]))
        place = np.uint64(survivor[i])
        holds, touches = _compare(column[place], np.uint32(code))
        survivor[n_kept] = place
        # No branch: it would be guessed wrong for every other clause.
        n_kept += np.uint64(holds)
        equal |= touches
    return int(n_kept), equal


@kernel
def _note_doubt(column: NDArray[np.uint32], code: int, n_survivors: int, scratch: Scratch) -> None:
    """Note the survivors that have an end in the code of a value."""
    for i in range(n_survivors):
        place = scratch.survivor[i]
        if _compare(column[place], np.uint32(code))[1]:
            set_bit(scratch.doubtful, place)


@kernel
def _report(
    clauses: ClauseTable,
    block: int,
    n_survivors: int,
    doubt: bool,
    unchecked: bool,
    scratch: Scratch,
    position: int,
    out_slots: NDArray[np.int32],
) -> int:
    """Write the slots that are left, compared exactly where codes could not tell; return the next position."""
    base = block * BLOCK_SLOTS
    for i in range(n_survivors):
        place = int(scratch.survivor[i])
        if doubt and (unchecked or has_bit(scratch.doubtful, place)):
            if not _satisfied(clauses, base + place, scratch.value):
                continue
        out_slots[position] = base + place
        position += 1
    if doubt:
        scratch.doubtful[:] = _NONE
    return position


@kernel
def _satisfied(clauses: ClauseTable, s: int, value: NDArray[np.float64]) -> bool:
    for p in range(clauses.start[s], clauses.stop[s]):
        if not (clauses.low[p] <= value[clauses.attribute[p]] <= clauses.high[p]):
            return False
    return True
