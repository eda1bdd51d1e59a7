"""Changes in place: insertion, deletion, and the sweep that takes out what deletions have left.

An insertion writes into its grid's first hole. If there is none, the full grids to the right each move one entry from
their front to their back, which brings the nearest hole over. (The order within a grid means nothing.) A list without a
hole near by is swept, and if that does not help it moves to the end of the pool, where it gets fresh ones.

A deletion only leaves the clause's seat (`seats.py`). When one seat in sixteen of a block is stale, a sweep over its
lists turns all their entries into holes. It reads them in the order they lie in memory, where finding those of one
clause takes a walk to main memory for each. Until then matches walk past the stale entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.bitset import clear_bit, has_bit, or_row
from eventsieve._kernels.bop import BlockRows
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.seats import BLOCK_SEATS, NOBODY, free_stale, leave_seat, take_seat
from eventsieve.matchers.hem.triangle import (
    HOLE,
    LAST_CODE,
    Grid,
    Index,
    RowLists,
    codes_of,
    count_ends,
    list_and_head,
    note_clause,
    note_ends,
    offset,
    row_and_column,
    write_column,
    write_entry,
)
from eventsieve.model.columns import ClauseTable

_ONE = np.uint64(1)
_FARTHEST = 16
"""Grids to the right that are asked for a hole; a list that has none so near gets fresh ones."""
STALE_SHARE = 16
"""A block is swept when there is more than one stale seat for so many with a clause; as many seats are spare."""
FEWEST_STALE = 256
"""So many stale seats a block may have in any case: a sweep costs something for every grid, however few are filled."""


class Filing(NamedTuple):
    """The predicates of one clause on their way into the lists."""

    attribute: NDArray[np.int32]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    row_list: NDArray[np.int64]
    first: NDArray[np.int64]  # the head of the row's first grid
    head: NDArray[np.int64]  # of the grid
    last: NDArray[np.int64]  # behind the row's last grid


@kernel
def _new_filing(n_attributes: int) -> Filing:
    return Filing(
        np.empty(n_attributes, np.int32),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
    )


# -- insertion -----------------------------------------------------------------------------------------------


@kernel
def insert(
    clauses: ClauseTable, slots: NDArray[np.int32], index: Index, rows: BlockRows, progress: NDArray[np.int64]
) -> bool:
    """Insert the clauses at `slots` from where `progress` (clauses, predicates) says; False if the pool is full."""
    lists, seats = index.lists, index.seats
    filing = _new_filing(index.grid.rows.shape[0])
    while progress[0] < slots.shape[0]:
        s = slots[progress[0]]
        if clauses.stop[s] > clauses.start[s]:
            if seats.seat_of_slot[s] == NOBODY:
                take_seat(seats, s)
            seat = int(seats.seat_of_slot[s])
            n = _file(clauses, index.grid, s, seat // BLOCK_SEATS, filing)
            _fetch(lists, filing, n)
            for k in range(progress[1], n):
                i, head, last = filing.row_list[k], filing.head[k], filing.last[k]
                found = _bring_hole(lists, lists.start[i], head, last)
                if not found and seats.n_stale[seat // BLOCK_SEATS]:
                    _sweep_list(index, seat // BLOCK_SEATS, filing.attribute[k], i, filing.first[k], last)
                    found = _bring_hole(lists, lists.start[i], head, last)
                if not (found or _spread(lists, i, filing.first[k], head, last)):
                    return False
                at = _first_hole(lists, lists.start[i], head)
                write_entry(lists, at, seat, filing.low[k], filing.high[k])
                lists.filled[head] += np.uint16(1)
                note_ends(index, rows, seat, filing.attribute[k], filing.low[k], filing.high[k])
                progress[1] += 1
            note_clause(index, rows, seat)
        progress[0] += 1
        progress[1] = 0
    return True


@inlined
def _file(clauses: ClauseTable, grid: Grid, s: int, block: int, filing: Filing) -> int:
    """Find the grid of each predicate of a clause; return how many there are."""
    first = clauses.start[s]
    for p in range(first, clauses.stop[s]):
        k, a = p - first, clauses.attribute[p]
        low_code, high_code = codes_of(grid.table, a, clauses.low[p], clauses.high[p])
        row, column = row_and_column(grid.rows[a], low_code, high_code)
        i, head = list_and_head(grid, block, a, row)
        filing.attribute[k], filing.low[k], filing.high[k] = a, low_code, high_code
        filing.row_list[k], filing.first[k] = i, head
        filing.head[k], filing.last[k] = head + column - row, head + 2 * (grid.rows[a] - row)
    return int(clauses.stop[s] - first)


@inlined
def _fetch(lists: RowLists, filing: Filing, n: int) -> None:
    """Fetch the grids of a clause all at once: one after the other would mean waiting for each of them."""
    for k in range(n):
        prefetch(lists.head, filing.head[k])
        prefetch(lists.filled, filing.head[k])
        prefetch(lists.start, filing.row_list[k])
    for k in range(n):
        at = _first_hole(lists, lists.start[filing.row_list[k]], filing.head[k])
        prefetch(lists.place, at)
        prefetch(lists.low, at)
        prefetch(lists.high, at)


@inlined
def _has_hole(lists: RowLists, head: int) -> bool:
    """Say whether the grid at `head` has a hole."""
    return offset(lists, head) + int(np.int64(lists.filled[head])) < offset(lists, head + 1)


@inlined
def _first_hole(lists: RowLists, base: int, head: int) -> int:
    """Return where in the pool the holes of the grid at `head` begin: they are at its end."""
    return base + offset(lists, head) + int(np.int64(lists.filled[head]))


@inlined
def _bring_hole(lists: RowLists, base: int, head: int, last: int) -> bool:
    """See to it that the grid at `head` has a hole, its own or one near to its right; False if there is none."""
    source, stop = head, min(last, head + _FARTHEST)
    while source < stop and not _has_hole(lists, source):
        source += 1
    if source == stop:
        return False
    for h in range(source, head, -1):
        # The front entry goes to the back, and what it leaves is the back of the grid before.
        front = base + offset(lists, h)
        back = _first_hole(lists, base, h) if h == source else base + offset(lists, h + 1) - 1
        _move_entry(lists, front, back)
        _write_hole(lists, front)
        lists.head[h] += np.uint32(1)
    return True


@kernel
def _spread(lists: RowLists, i: int, first: int, wanted: int, last: int) -> bool:
    """Move a list to the end of the used pool, with fresh holes and most of them in the grid at `wanted`.

    False, and nothing is done, if the pool is too short for that.
    """
    base, new = lists.start[i], lists.used[0]
    size = 0
    for h in range(first, last):
        size += _room_after_move(int(np.int64(lists.filled[h])), h == wanted)
    if new + size > lists.place.shape[0]:
        return False
    moved = 0
    for h in range(first, last):
        begin, count = base + offset(lists, h), int(np.int64(lists.filled[h]))
        room = _room_after_move(count, h == wanted)
        for j in range(count):
            _move_entry(lists, begin + j, new + moved + j)
        for j in range(count, room):
            _write_hole(lists, new + moved + j)
        lists.head[h] = moved
        moved += room
    lists.head[last] = moved
    lists.start[i], lists.size[i], lists.used[0] = new, size, new + size
    return True


@inlined
def _room_after_move(count: int, wanted: bool) -> int:
    """Return the room of a moved grid. It is twice that of a new one: a list that has moved is likely to grow on."""
    return count + ((count + 2) >> 2) + ((count >> 1) + 4 if wanted else 0)


@inlined
def _move_entry(lists: RowLists, source: int, target: int) -> None:
    lists.place[target] = lists.place[source]
    lists.low[target] = lists.low[source]
    lists.high[target] = lists.high[source]


@inlined
def _write_hole(lists: RowLists, at: int) -> None:
    """Write an entry that no value matches and no value has for an end."""
    lists.place[at], lists.low[at], lists.high[at] = HOLE, 0, 0


# -- deletion ------------------------------------------------------------------------------------------------


@kernel
def delete(slots: NDArray[np.int32], index: Index, rows: BlockRows) -> None:
    """Let the clauses at `slots` leave their seats, and sweep the blocks that have too many stale ones."""
    seats = index.seats
    for s in slots:
        if seats.seat_of_slot[s] != NOBODY:
            seat = leave_seat(seats, s)
            block = seat // BLOCK_SEATS
            clear_bit(rows.alive[block], seat % BLOCK_SEATS)
            if seats.n_stale[block] > max(FEWEST_STALE, seats.n_taken[block] // STALE_SHARE):
                _sweep(index, rows, block)


@kernel
def sweep_all(index: Index, rows: BlockRows) -> None:
    """Sweep all blocks where that is worth it: new clauses need seats."""
    for block in range(index.seats.n_stale.shape[0]):
        if index.seats.n_stale[block] >= FEWEST_STALE:
            _sweep(index, rows, block)


@kernel
def _sweep(index: Index, rows: BlockRows, block: int) -> None:
    """Turn the entries of a block's stale seats into holes, and make the seats free."""
    grid, seats = index.grid, index.seats
    stale = seats.stale[block]
    for a in range(grid.rows.shape[0]):
        for row in range(grid.rows[a]):
            i, head = list_and_head(grid, block, a, row)
            _sweep_list(index, block, a, i, head, head + 2 * (grid.rows[a] - row))
        or_row(stale[: rows.null.shape[2]], rows.null[block, a])
    index.counts.clauses[0] -= seats.n_stale[block]
    free_stale(seats, block)


@kernel
def _sweep_list(index: Index, block: int, a: int, i: int, first: int, last: int) -> None:
    """Turn the stale entries of a list, whose heads are from first to last, into holes."""
    for head in range(first, last):
        if index.lists.filled[head]:
            _sweep_grid(index, block, a, index.lists.start[i], head)


@inlined
def _sweep_grid(index: Index, block: int, a: int, base: int, head: int) -> None:
    lists, stale = index.lists, index.seats.stale[block]
    # Unsigned positions spare the compiler Python's negative indexing: a third of the time of this loop.
    at, stop = np.uint64(base + offset(lists, head)), np.uint64(_first_hole(lists, base, head))
    while at < stop:
        if has_bit(stale, lists.place[at]):
            write_column(index.columns, block * BLOCK_SEATS + int(lists.place[at]), a, 0, LAST_CODE)
            count_ends(index.counts, a, LAST_CODE - int(lists.low[at]), int(lists.high[at]), -1)
            # The grid's last entry takes its place, and is looked at next.
            stop -= _ONE
            _move_entry(lists, int(stop), int(at))
            _write_hole(lists, int(stop))
            lists.filled[head] -= np.uint16(1)
        else:
            at += _ONE


# -- growing -------------------------------------------------------------------------------------------------


@kernel
def repack(lists: RowLists, out_lists: RowLists) -> None:
    """Move all entries to lists with a new pool, without the room that moved lists left behind."""
    new = 0
    for i in range(lists.start.shape[0]):
        old = lists.start[i]
        for j in range(lists.size[i]):
            out_lists.place[new + j] = lists.place[old + j]
            out_lists.low[new + j] = lists.low[old + j]
            out_lists.high[new + j] = lists.high[old + j]
        out_lists.start[i] = new
        new += lists.size[i]
    out_lists.used[0] = new
