"""Changes in the triangles: a block is rewritten, which files clauses of the tail and drops those that were deleted.

A rewrite goes through the block's lists one after the other, front to back. It copies each grid's entries whose seat is
still taken, leaves room behind them for the newcomers of that grid, and puts those in. A list and its grids fit the
second-level cache, so no entry waits for main memory, as it would if clauses were filed one by one. And lists need no
holes for entries to come, which every match would have to pass.

A deletion only clears the clause's bit. A block is rewritten for the sake of deletions alone when it has one stale seat
for eight taken ones; until then matches walk past the stale entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, trailing_zeros
from eventsieve._kernels.bitset import clear_bit, has_bit, set_bit
from eventsieve._kernels.bop import BlockRows
from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.hem.coding import LAST_CODE, signed
from eventsieve.matchers.hem.seats import BLOCK_SEATS, NOBODY, seat_clause
from eventsieve.matchers.hem.tail import Tail, n_asking
from eventsieve.matchers.hem.triangle import Index, copy_entries, count_ends, grid_of, list_at, list_size, write_column

_NONE = np.uint64(0)
_ONE = np.uint64(1)
STALE_SHARE = 8
"""A block is rewritten when there is more than one stale seat for so many with a clause."""
FEWEST_STALE = 256
"""So many stale seats a block may have in any case: a rewrite costs something for every grid, filled or not."""


class Newcomers(NamedTuple):
    """Clauses of the tail on their way into a block."""

    place_in_tail: NDArray[np.int32]
    place: NDArray[np.uint16]  # the seat within the block
    grid: NDArray[np.int32]  # of one attribute, NOBODY where a clause does not ask for it


class Draft(NamedTuple):
    """One list as it will be."""

    next: NDArray[np.int32]  # per grid, how many newcomers; then where the next of them goes
    place: NDArray[np.uint16]  # (a full block and one more, for an entry that is copied and then dropped)
    low: NDArray[np.uint16]
    high: NDArray[np.uint16]


# -- deletion ------------------------------------------------------------------------------------------------


@kernel
def delete(slots: NDArray[np.int32], index: Index, rows: BlockRows) -> None:
    """Let those of the clauses at `slots` that have seats leave them; rewrite blocks with too many stale ones."""
    seats = index.seats
    for s in slots:
        seat = int(seats.seat_of_slot[s])
        if seat != NOBODY:
            seats.seat_of_slot[s] = NOBODY
            block = seat // BLOCK_SEATS
            clear_bit(rows.alive[block], seat % BLOCK_SEATS)
            seats.n_taken[block] -= 1
            seats.n_stale[block] += 1
            if seats.n_stale[block] > max(FEWEST_STALE, seats.n_taken[block] // STALE_SHARE):
                _rewrite(index, rows, block, 0)


# -- filing --------------------------------------------------------------------------------------------------


@kernel
def file_tail(index: Index, rows: BlockRows, block: int) -> bool:
    """File the clauses of the tail into a block, as many as find a seat there; False if the pool is too short."""
    if not _make_room(index, block):
        return False
    _rewrite(index, rows, block, BLOCK_SEATS - index.seats.n_taken[block])
    return True


@kernel
def _make_room(index: Index, block: int) -> bool:
    """Let each list of a block have room for the clauses of the tail; one that has not moves to the end of the pool.

    False if the pool is too short. Lists that have moved by then have their room.
    """
    lists, n_attributes = index.lists, index.grid.rows.shape[0]
    for a in range(n_attributes):
        i, size = block * n_attributes + a, list_size(index.grid, index.lists, block, a)
        needed = min(size + n_asking(index.tail, a), BLOCK_SEATS)
        if needed <= lists.room[i]:
            continue
        # A new block is going to need what the one before it has.
        room = min(max(needed + (needed >> 2), lists.room[max(i - n_attributes, 0)]), BLOCK_SEATS)
        new = lists.used[0]
        if new + room > lists.place.shape[0]:
            return False
        _, place, low, high = list_at(index.grid, lists, block, a)
        copy_entries(place, lists.place[new : new + size])
        copy_entries(low, lists.low[new : new + size])
        copy_entries(high, lists.high[new : new + size])
        lists.start[i], lists.room[i], lists.used[0] = new, room, new + room
    return True


@kernel
def _rewrite(index: Index, rows: BlockRows, block: int, n_free: int) -> None:
    """Drop the entries of a block's stale seats, and file clauses of the tail into its first `n_free` free seats."""
    seats, tail = index.seats, index.tail
    newcomers = _seat_newcomers(tail, rows.alive[block], n_free)
    draft = Draft(
        np.empty(index.grid.head_start[-1], np.int32),
        np.empty(BLOCK_SEATS + 1, np.uint16),
        np.empty(BLOCK_SEATS + 1, np.uint16),
        np.empty(BLOCK_SEATS + 1, np.uint16),
    )
    for a in range(index.grid.rows.shape[0]):
        _sort_newcomers(index, rows, block, a, newcomers, draft.next)
        _copy_living(index, rows, block, a, draft)
        _put_newcomers(tail, a, newcomers, draft)
        _replace_list(index, block, a, draft)
    for j in range(newcomers.place.shape[0]):
        place_in_tail, place = newcomers.place_in_tail[j], int(newcomers.place[j])
        seat_clause(seats, tail.slot[place_in_tail], block * BLOCK_SEATS + place)
        set_bit(rows.alive[block], place)
        clear_bit(tail.alive, place_in_tail)
    index.counts.clauses[0] += newcomers.place.shape[0] - seats.n_stale[block]
    seats.n_stale[block] = 0


@kernel
def _seat_newcomers(tail: Tail, alive: NDArray[np.uint64], n_free: int) -> Newcomers:
    """Choose free seats of a block for the first clauses of the tail, both by rising place."""
    most = min(n_free, tail.slot.shape[0])
    place_in_tail, place = np.empty(most, np.int32), np.empty(most, np.uint16)
    n_new = 0
    for chunk in range(tail.alive.shape[0]):
        left = tail.alive[chunk]
        while left != _NONE and n_new < most:
            place_in_tail[n_new] = chunk * WORD_BITS + trailing_zeros(left)
            left &= left - _ONE
            n_new += 1
    n_seated = 0
    for w in range(alive.shape[0]):
        free = ~alive[w]
        while free != _NONE and n_seated < n_new:
            place[n_seated] = w * WORD_BITS + trailing_zeros(free)
            free &= free - _ONE
            n_seated += 1
    return Newcomers(place_in_tail[:n_new], place[:n_new], np.empty(n_new, np.int32))


@kernel
def _sort_newcomers(
    index: Index, rows: BlockRows, block: int, a: int, newcomers: Newcomers, out_count: NDArray[np.int32]
) -> None:
    """Find each newcomer's grid and count them by grid; write all that is kept of a predicate beside its entry."""
    tail, tau, null = index.tail, index.grid.rows[a], rows.null[block, a]
    out_count[: tau * (tau + 1)] = 0
    for j in range(newcomers.place.shape[0]):
        chunk, number = newcomers.place_in_tail[j] // WORD_BITS, newcomers.place_in_tail[j] % WORD_BITS
        low_code, high_code = signed(tail.low[chunk, a, number]), signed(tail.high[chunk, a, number])
        place = int(newcomers.place[j])
        write_column(index.columns, block, place, a, low_code, high_code)
        if (tail.null[chunk, a] >> np.uint64(number)) & _ONE != _NONE:
            set_bit(null, place)
            newcomers.grid[j] = NOBODY
        else:
            clear_bit(null, place)
            newcomers.grid[j] = grid_of(tau, low_code, high_code)
            out_count[newcomers.grid[j]] += 1
            count_ends(index.counts, a, low_code, high_code, 1)


@kernel
def _copy_living(index: Index, rows: BlockRows, block: int, a: int, draft: Draft) -> None:
    """Copy the entries whose seat is taken, with room behind each grid for its newcomers."""
    head, place, low, high = list_at(index.grid, index.lists, block, a)
    alive = rows.alive[block]
    at, out = np.uint64(0), np.uint64(0)
    for g in range(head.shape[0] - 1):
        head[g] = np.uint32(out)
        while at < head[g + 1]:
            draft.place[out], draft.low[out], draft.high[out] = place[at], low[at], high[at]
            if has_bit(alive, place[at]):
                out += _ONE
            else:
                count_ends(index.counts, a, LAST_CODE - signed(low[at]), signed(high[at]), -1)
            at += _ONE
        n_new = np.uint64(draft.next[g])
        draft.next[g] = out
        out += n_new
    head[-1] = np.uint32(out)


@kernel
def _put_newcomers(tail: Tail, a: int, newcomers: Newcomers, draft: Draft) -> None:
    for j in range(newcomers.place.shape[0]):
        g = newcomers.grid[j]
        if g != NOBODY:
            chunk, number = newcomers.place_in_tail[j] // WORD_BITS, newcomers.place_in_tail[j] % WORD_BITS
            at = draft.next[g]
            draft.place[at] = newcomers.place[j]
            draft.low[at] = LAST_CODE - signed(tail.low[chunk, a, number])
            draft.high[at] = tail.high[chunk, a, number]
            draft.next[g] += 1


@kernel
def _replace_list(index: Index, block: int, a: int, draft: Draft) -> None:
    _, place, low, high = list_at(index.grid, index.lists, block, a)
    copy_entries(draft.place, place)
    copy_entries(draft.low, low)
    copy_entries(draft.high, high)
