"""The triangle of every attribute: which grid an interval lies in, and lists of clauses by row and column.

Section 4.2.1. A triangle is one contiguous list of entries, row after row and in each row column after column, so that
"all columns left of a line" is one sweep over memory. An entry is a clause's place within its block and the codes of
its two ends. There are no gaps between entries: a list is only ever rewritten as a whole (`filing.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bitset import clear_bit, set_bit
from eventsieve._kernels.bop import BlockRows
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.coding import CODE_BITS, LAST_CODE, codes_of, signed
from eventsieve.matchers.hem.seats import BLOCK_SEATS, Seats
from eventsieve.matchers.hem.tail import Tail
from eventsieve.model.columns import ClauseTable
from eventsieve.model.transform import TransformTable

OPEN = np.uint32(LAST_CODE << CODE_BITS)
"""The two codes of an interval that holds every value."""
COUNT_BITS = 8
GROUP_BITS = 4
"""Ends are counted in 2**8 equal parts of the codes, and again in 2**4 groups of parts."""
N_PARTS = 1 << COUNT_BITS
N_GROUPS = 1 << GROUP_BITS


class Grid(NamedTuple):
    """Attribute a has rows[a] rows; row r has the columns r up to 2 * rows[a] - r.

    A block keeps one head per grid and one behind the last. The attribute's come after those of the attributes before.
    """

    table: TransformTable
    rows: NDArray[np.int32]  # (n_attributes,), the paper's tau
    head_start: NDArray[np.int64]  # (n_attributes + 1,)


class Lists(NamedTuple):
    """List i = block * n_attributes + a, whose heads begin at h, has in its grid number g the entries from
    start[i] + head[h + g] up to start[i] + head[h + g + 1]."""

    start: NDArray[np.int64]  # (n_lists,)
    room: NDArray[np.int32]  # (n_lists,), entries the list may have before it must move
    head: NDArray[np.uint32]  # (n_blocks * n_heads,)
    place: NDArray[np.uint16]  # (n_pool,), the seat within its block
    low: NDArray[np.uint16]  # (n_pool,), LAST_CODE - code of the low end, so that both ends are compared alike
    high: NDArray[np.uint16]  # (n_pool,), the code of the high end
    used: NDArray[np.int64]  # (1,), the pool behind this is free


class Columns(NamedTuple):
    """The ends of popular attributes by seat: what the direct method reads.

    (One row per seat would make filing cheaper, but matches on `full` a fifth slower.)
    """

    column_of_attribute: NDArray[np.int32]  # (n_attributes,), -1 where there is none
    ends: NDArray[np.uint32]  # (n_blocks, n_columns, BLOCK_SEATS), low code and, in the upper half, high code; or OPEN


class Counts(NamedTuple):
    """How many ends lie where. Two numbers change with an end, and 32 at most tell how many lie below a value."""

    ends: NDArray[np.int32]  # (n_attributes, 2, N_PARTS + N_GROUPS), low ends and high ends
    clauses: NDArray[np.int64]  # (1,), those that have entries, stale ones included


class Index(NamedTuple):
    """All of it. Clauses of the tail are in nothing else, nor are they counted."""

    grid: Grid
    lists: Lists
    columns: Columns
    counts: Counts
    seats: Seats
    tail: Tail


# -- where an interval lies ----------------------------------------------------------------------------------


@inlined
def first_grid(tau: int, row: int) -> int:
    """Return the number of a row's first grid: row r has 2 * (tau - r) columns. Row tau is behind the last."""
    return row * (2 * tau + 1 - row)


@inlined
def grid_of(tau: int, low_code: int, high_code: int) -> int:
    """Return the grid of an interval: formula (3), with y measured like x, both doubled to stay whole.

    low + high is twice the middle and high - low twice the half width, and both have one bit more than a code.
    """
    row = (max(high_code - low_code, 0) * 2 * tau) >> (CODE_BITS + 1)
    return first_grid(tau, row) - row + (((low_code + high_code) * 2 * tau) >> (CODE_BITS + 1))


@inlined
def first_head(grid: Grid, block: int, a: int) -> int:
    """Return where the heads of an attribute's list begin."""
    return int(block * grid.head_start[-1] + grid.head_start[a])


@inlined
def offset(lists: Lists, head: int) -> int:
    return signed(lists.head[head])


@inlined
def list_size(grid: Grid, lists: Lists, block: int, a: int) -> int:
    """Return how many entries an attribute's list has: its last head says so."""
    return offset(lists, first_head(grid, block, a + 1) - 1)


@inlined
def list_at(
    grid: Grid, lists: Lists, block: int, a: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint16], NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the heads of an attribute's list, and the places, low and high ends of its entries."""
    start = lists.start[block * grid.rows.shape[0] + a]
    stop = start + list_size(grid, lists, block, a)
    head = lists.head[first_head(grid, block, a) : first_head(grid, block, a + 1)]
    return head, lists.place[start:stop], lists.low[start:stop], lists.high[start:stop]


@kernel
def count_predicates(clauses: ClauseTable, out_count: NDArray[np.int64]) -> None:
    """Count the predicates on each attribute."""
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            out_count[clauses.attribute[p]] += 1


# -- building ------------------------------------------------------------------------------------------------


@kernel
def count_grids(clauses: ClauseTable, index: Index) -> None:
    """Count the intervals of all clauses by grid."""
    grid, lists = index.grid, index.lists
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low_code, high_code = codes_of(grid.table, a, clauses.low[p], clauses.high[p])
            head = first_head(grid, index.seats.seat_of_slot[s] // BLOCK_SEATS, a)
            lists.head[head + grid_of(grid.rows[a], low_code, high_code)] += np.uint32(1)


@kernel
def lay_out(n_blocks: int, grid: Grid, lists: Lists) -> int:
    """Turn counts by grid into the ends of their entries, and line the lists up; return the room of all of them."""
    n_attributes = grid.rows.shape[0]
    total = 0
    for i in range(n_blocks * n_attributes):
        block, a = i // n_attributes, i % n_attributes
        size = 0
        for head in range(first_head(grid, block, a), first_head(grid, block, a + 1)):
            size += offset(lists, head)
            lists.head[head] = size
        lists.start[i] = total
        lists.room[i] = min(size + (size >> 3), BLOCK_SEATS)
        total += lists.room[i]
    return total


@kernel
def fill(clauses: ClauseTable, index: Index, rows: BlockRows) -> None:
    """Write all entries, columns, counts and bits. Each entry moves its grid's end down, which leaves the start."""
    grid, lists = index.grid, index.lists
    for s in range(clauses.start.shape[0]):
        if clauses.stop[s] == clauses.start[s]:
            continue
        seat = index.seats.seat_of_slot[s]
        block, place = seat // BLOCK_SEATS, seat % BLOCK_SEATS
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low_code, high_code = codes_of(grid.table, a, clauses.low[p], clauses.high[p])
            head = first_head(grid, block, a) + grid_of(grid.rows[a], low_code, high_code)
            lists.head[head] -= np.uint32(1)
            at = lists.start[block * grid.rows.shape[0] + a] + offset(lists, head)
            lists.place[at], lists.low[at], lists.high[at] = place, LAST_CODE - low_code, high_code
            write_column(index.columns, block, place, a, low_code, high_code)
            count_ends(index.counts, a, low_code, high_code, 1)
            clear_bit(rows.null[block, a], place)
        set_bit(rows.alive[block], place)
        index.counts.clauses[0] += 1


@inlined
def write_column(columns: Columns, block: int, place: int, a: int, low_code: int, high_code: int) -> None:
    column = columns.column_of_attribute[a]
    if column >= 0:
        columns.ends[block, column, place] = low_code | (high_code << CODE_BITS)


@inlined
def count_ends(counts: Counts, a: int, low_code: int, high_code: int, step: int) -> None:
    low, high = counts.ends[a, 0], counts.ends[a, 1]
    low[low_code >> (CODE_BITS - COUNT_BITS)] += step
    low[N_PARTS + (low_code >> (CODE_BITS - GROUP_BITS))] += step
    high[high_code >> (CODE_BITS - COUNT_BITS)] += step
    high[N_PARTS + (high_code >> (CODE_BITS - GROUP_BITS))] += step


# -- room ----------------------------------------------------------------------------------------------------


@kernel
def repack(index: Index, n_blocks: int, out_lists: Lists) -> None:
    """Move all entries to a new pool, without the room that moved lists left behind."""
    grid, lists = index.grid, index.lists
    n_attributes = grid.rows.shape[0]
    new = 0
    for i in range(n_blocks * n_attributes):
        _, place, low, high = list_at(grid, lists, i // n_attributes, i % n_attributes)
        copy_entries(place, out_lists.place[new : new + place.shape[0]])
        copy_entries(low, out_lists.low[new : new + place.shape[0]])
        copy_entries(high, out_lists.high[new : new + place.shape[0]])
        out_lists.start[i] = new
        new += lists.room[i]
    out_lists.used[0] = new


@inlined
def copy_entries(entries: NDArray[np.uint16], out_entries: NDArray[np.uint16]) -> None:
    """Copy as many as there is room for. (One array at a time: three in one loop took ten times as long.)"""
    for j in range(out_entries.shape[0]):
        out_entries[j] = entries[j]
