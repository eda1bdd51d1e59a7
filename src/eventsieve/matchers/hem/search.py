"""Matching: an event's queue of attributes, each by its triangle or directly (Algorithms 1 to 3), block by block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, prefetch
from eventsieve._kernels.bitset import and_row, copy_row, extract_bits, has_bit, set_bit
from eventsieve._kernels.bop import BlockRows, absent_attributes, start_block
from eventsieve._kernels.buckets import clear_places, set_places
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.coding import CODE_BITS, LAST_CODE, signed
from eventsieve.matchers.hem.plan import Plans
from eventsieve.matchers.hem.seats import BLOCK_SEATS, Seats, slot_at
from eventsieve.matchers.hem.tail import TailScratch, match_tail, new_tail_scratch
from eventsieve.matchers.hem.triangle import Grid, Index, Lists, first_grid, first_head
from eventsieve.model.columns import ClauseTable, EventColumns

_WORDS = BLOCK_SEATS // WORD_BITS
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_LOW_BITS = np.uint64(WORD_BITS - 1)
_WORD_SHIFT = np.uint64(6)
_ROWS_AHEAD = 2
"""Rows of a triangle whose entries are fetched before their turn."""
_AHEAD = 24
"""Survivors whose entry in a column is fetched before their turn."""
_HIGH_END = np.uint32(CODE_BITS)
_LOW_END = np.uint32((1 << CODE_BITS) - 1)


class Scratch(NamedTuple):
    """What is known of one event, and of one block of clauses."""

    value: NDArray[np.float64]  # (n_attributes,), NaN where the event has none: no comparison with NaN holds
    absent: NDArray[np.int32]  # (n_attributes,)
    border: NDArray[np.int32]  # (n_attributes, most rows, 4), numbers of grids
    result: NDArray[np.uint64]  # (words of a block,), the clauses that are left
    kept: NDArray[np.uint64]  # the same of one attribute
    doubtful: NDArray[np.uint64]  # those with an end in the code of a value
    tail: TailScratch


def new_scratch(grid: Grid) -> Scratch:
    """Return scratch for one batch, with all attributes absent."""
    n_attributes = grid.rows.shape[0]
    return Scratch(
        np.full(n_attributes, np.nan),
        np.empty(n_attributes, np.int32),
        np.empty((n_attributes, int(grid.rows.max(initial=1)), 4), np.int32),
        np.zeros(_WORDS, np.uint64),
        np.zeros(_WORDS, np.uint64),
        np.zeros(_WORDS, np.uint64),
        new_tail_scratch(),
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
        unchecked = checks < events.start[e + 1]
        for i in range(events.start[e], events.start[e + 1]):
            scratch.value[events.attribute[i]] = events.value[i]
        for k in range(events.start[e], walks):
            i = plans.step[k]
            a = events.attribute[i]
            _find_borders(index.grid.rows[a], codes[i], scratch.border[a])
        for block in range(rows.alive.shape[0]):
            start_block(rows, block, scratch.absent, n_absent, scratch.result)
            doubt = unchecked
            for k in range(events.start[e], walks):
                i = plans.step[k]
                doubt |= _walk(index, rows, block, events.attribute[i], codes[i], plans.keeps[i], scratch)
            base = block * BLOCK_SEATS
            stop = extract_bits(scratch.result, base, position, out_slots)
            for k in range(walks, checks):
                i = plans.step[k]
                column = index.columns.ends[block, index.columns.column_of_attribute[events.attribute[i]]]
                survivors = out_slots[position:stop]
                n_kept, equal = _check_column(column, codes[i], base, survivors)
                if equal:
                    _note_doubt(column, codes[i], base, survivors[:n_kept], scratch.doubtful)
                    doubt = True
                stop = position + n_kept
            if doubt:
                survivors = out_slots[position:stop]
                stop = position + _check_exactly(clauses, unchecked, index.seats, block, scratch, survivors)
                scratch.doubtful[:] = _NONE
            _to_slots(index.seats, block, out_slots[position:stop])
            position = stop
        absent = scratch.absent[:n_absent]
        position = match_tail(
            clauses, index.tail, events, codes, e, absent, scratch.value, scratch.tail, position, out_slots
        )
        for i in range(events.start[e], events.start[e + 1]):
            scratch.value[events.attribute[i]] = np.nan
        out_count[e] = position - begin
        e += 1
    return e


# -- the triangle: Algorithm 1 -------------------------------------------------------------------------------


@kernel
def _find_borders(tau: int, code: int, out_border: NDArray[np.int32]) -> None:
    """Write, per row, the grids that the lines of a value cut (Algorithm 1, lines 1 and 2).

    Grids before the first border end before the value, and from the second on they end after it. Grids before the
    third begin before the value, and from the fourth on they begin after it. Codes are doubled, as in `triangle`.
    """
    for row in range(tau):
        # The least and the greatest doubled half width of the row.
        least = -((-row << (CODE_BITS + 1)) // (2 * tau))
        most = -((-(row + 1) << (CODE_BITS + 1)) // (2 * tau)) - 1
        out_border[row, 0] = _border(tau, row, 2 * code - most, 0)
        out_border[row, 1] = _border(tau, row, 2 * code - least, 1)
        out_border[row, 2] = _border(tau, row, 2 * code + least, 0)
        out_border[row, 3] = _border(tau, row, 2 * code + most, 1)


@inlined
def _border(tau: int, row: int, doubled_middle: int, behind: int) -> int:
    """Return the grid of a middle, or the one behind it, within a row."""
    column = ((doubled_middle * 2 * tau) >> (CODE_BITS + 1)) + behind
    return first_grid(tau, row) + min(max(column, row), 2 * tau - row) - row


@kernel
def _walk(index: Index, rows: BlockRows, block: int, a: int, code: int, keeps: bool, scratch: Scratch) -> bool:
    """Take the clauses of a block whose interval does not hold the value out of the result.

    Say whether an interval that stays has an end in the code of the value.
    """
    grid, lists = index.grid, index.lists
    base = lists.start[block * grid.rows.shape[0] + a]
    head = lists.head[first_head(grid, block, a) : first_head(grid, block, a + 1)]
    border = scratch.border[a, : grid.rows[a]]
    if not keeps:
        return _sweep(lists, base, head, border, code, False, scratch.result, scratch.doubtful)
    copy_row(rows.null[block, a], scratch.kept)
    doubt = _sweep(lists, base, head, border, code, True, scratch.kept, scratch.doubtful)
    and_row(scratch.kept, scratch.result)
    return doubt


@kernel
def _sweep(
    lists: Lists,
    base: int,
    head: NDArray[np.uint32],
    border: NDArray[np.int32],
    code: int,
    keeps: bool,
    out_bits: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Clear the clauses outside the lines of a value, or set those between them (Algorithm 1, lines 3 to 26).

    Outside are subareas 1 and 2, between is subarea 3. The grids that a line cuts are compared either way.
    """
    tau = border.shape[0]
    place, low, high = lists.place, lists.low, lists.high
    doubt = False
    outside = base
    for row in range(tau):
        _look_ahead(lists, base, head, border[min(row + _ROWS_AHEAD, tau - 1)])
        cut_0, cut_1, cut_2, cut_3 = _cuts(base, head, border[row])
        if keeps:
            if row == 0:
                doubt |= _keep_lowest(lists, cut_0, cut_3, code, out_bits, out_doubtful)
                continue
            set_places(place, cut_1, cut_2, out_bits)
        else:
            # The right end of a row and the left end of the next one are one run.
            clear_places(place, outside, cut_0, out_bits)
            outside = cut_3
        doubt |= _compare_band(place, high, cut_0, cut_1, np.uint16(code), keeps, out_bits, out_doubtful)
        doubt |= _compare_band(place, low, cut_2, cut_3, np.uint16(LAST_CODE - code), keeps, out_bits, out_doubtful)
    if not keeps:
        clear_places(place, outside, base + signed(head[-1]), out_bits)
    return doubt


@inlined
def _keep_lowest(
    lists: Lists,
    first: int,
    stop: int,
    code: int,
    out_bits: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Set the clauses of the lowest row that hold: there both lines cut the same grids, and both ends are compared."""
    doubt = False
    for i in range(first, stop):
        if lists.high[i] >= code and lists.low[i] >= LAST_CODE - code:
            set_bit(out_bits, lists.place[i])
            if lists.high[i] == code or lists.low[i] == LAST_CODE - code:
                set_bit(out_doubtful, lists.place[i])
                doubt = True
    return doubt


@inlined
def _cuts(base: int, head: NDArray[np.uint32], border: NDArray[np.int32]) -> tuple[int, int, int, int]:
    """Return where in the pool the four borders of a row are."""
    return (
        base + signed(head[border[0]]),
        base + signed(head[border[1]]),
        base + signed(head[border[2]]),
        base + signed(head[border[3]]),
    )


@inlined
def _look_ahead(lists: Lists, base: int, head: NDArray[np.uint32], border: NDArray[np.int32]) -> None:
    """Fetch what a later row compares: a few entries here and there, which the processor does not foresee."""
    cut_0, _, cut_2, _ = _cuts(base, head, border)
    prefetch(lists.place, cut_0)
    prefetch(lists.high, cut_0)
    prefetch(lists.place, cut_2)
    prefetch(lists.low, cut_2)


@inlined
def _compare_band(
    place: NDArray[np.uint16],
    end: NDArray[np.uint16],
    first: int,
    stop: int,
    code: np.uint16,
    keeps: bool,
    out_bits: NDArray[np.uint64],
    out_doubtful: NDArray[np.uint64],
) -> bool:
    """Compare one end in the grids that a line cuts: set the clauses that hold, or clear those that fail."""
    doubt = False
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(place[i])
        if keeps:
            out_bits[bit >> _WORD_SHIFT] |= np.uint64(end[i] >= code) << (bit & _LOW_BITS)
        else:
            out_bits[bit >> _WORD_SHIFT] &= ~(np.uint64(end[i] < code) << (bit & _LOW_BITS))
        if end[i] == code:
            out_doubtful[bit >> _WORD_SHIFT] |= _ONE << (bit & _LOW_BITS)
            doubt = True
    return doubt


# -- the direct method: Algorithm 2 --------------------------------------------------------------------------


@inlined
def _compare(ends: np.uint32, code: np.uint32) -> tuple[bool, bool]:
    """Say whether an interval may hold a value, and whether only exact ends can tell."""
    low, high = ends & _LOW_END, ends >> _HIGH_END
    return bool((low <= code) & (code <= high)), bool((low == code) | (high == code))


@kernel
def _check_column(
    column: NDArray[np.uint32], code: int, base: int, out_survivors: NDArray[np.int32]
) -> tuple[int, bool]:
    """Keep the survivors whose interval may hold a value; return how many, and whether exact ends are asked for."""
    n_survivors = out_survivors.shape[0]
    n_kept = 0
    equal = False
    for i in range(n_survivors):
        prefetch(column, int(out_survivors[min(i + _AHEAD, n_survivors - 1)]) - base)
        seat = out_survivors[i]
        holds, touches = _compare(column[np.uint64(seat - base)], np.uint32(code))
        out_survivors[np.uint64(n_kept)] = seat
        # No branch: it would be guessed wrong for every other clause.
        n_kept += int(holds)
        equal |= holds & touches
    return n_kept, equal


@kernel
def _note_doubt(
    column: NDArray[np.uint32],
    code: int,
    base: int,
    survivors: NDArray[np.int32],
    out_doubtful: NDArray[np.uint64],
) -> None:
    """Note the survivors that have an end in the code of a value."""
    for seat in survivors:
        if _compare(column[seat - base], np.uint32(code))[1]:
            set_bit(out_doubtful, seat - base)


@kernel
def _check_exactly(
    clauses: ClauseTable, everyone: bool, seats: Seats, block: int, scratch: Scratch, out_survivors: NDArray[np.int32]
) -> int:
    """Keep the survivors that match by their exact ends, where codes could not tell; return how many."""
    n_kept = 0
    for seat in out_survivors:
        place = seat - block * BLOCK_SEATS
        sure = not (everyone or has_bit(scratch.doubtful, place))
        if sure or clause_holds(clauses, slot_at(seats, block, place), scratch.value):
            out_survivors[n_kept] = seat
            n_kept += 1
    return n_kept


@kernel
def _to_slots(seats: Seats, block: int, out_survivors: NDArray[np.int32]) -> None:
    """Name the survivors by their slots instead of their seats."""
    for i in range(out_survivors.shape[0]):
        out_survivors[i] = slot_at(seats, block, out_survivors[i] - block * BLOCK_SEATS)
