"""The triangle of every attribute: which grid an interval lies in, and lists of clauses by row and column.

Section 4.2.1. A row of grids is one contiguous run of entries in a pool, column after column, so that "all columns left
of a line" is one sweep over memory. An entry is a clause's place within its block and the codes of its two ends.

Every grid has a little room. It is filled with holes: entries whose place is behind the last of the block, so that a
sweep may mark them without harm and need not know where they are. How lists change is in `changing.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bitset import clear_bit, set_bit
from eventsieve._kernels.bop import BlockRows
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.matchers.hem.seats import BLOCK_SEATS, Seats
from eventsieve.model.columns import ClauseTable, EventColumns
from eventsieve.model.transform import TransformTable

HOLE = BLOCK_SEATS
CODE_BITS = 16
LAST_CODE = (1 << CODE_BITS) - 1
OPEN = np.uint32(LAST_CODE << CODE_BITS)
"""The two codes of an interval that holds every value."""
COUNT_BITS = 8
GROUP_BITS = 4
"""Ends are counted in 2**8 equal parts of the codes, and again in 2**4 groups of parts."""
N_PARTS = 1 << COUNT_BITS
N_GROUPS = 1 << GROUP_BITS


class Grid(NamedTuple):
    """Attribute a has rows[a] rows; row r has the columns r up to 2 * rows[a] - r.

    A block keeps one list per row, and one head per column and one behind the last. The attribute's come after those
    of the attributes before it.
    """

    table: TransformTable
    rows: NDArray[np.int32]  # (n_attributes,), the paper's tau
    row_start: NDArray[np.int64]  # (n_attributes + 1,)
    head_start: NDArray[np.int64]  # (n_attributes + 1,)


class RowLists(NamedTuple):
    """Row list i, whose heads begin at h, has in its column number c the entries from start[i] + head[h + c] up to
    start[i] + head[h + c + 1]."""

    start: NDArray[np.int64]  # (n_blocks * n_rows,)
    size: NDArray[np.int32]  # (n_blocks * n_rows,), holes included
    head: NDArray[np.uint32]  # (n_blocks * n_heads,)
    filled: NDArray[np.uint16]  # (n_blocks * n_heads,), the grid's entries that are not holes
    place: NDArray[np.uint16]  # (n_pool,), the seat within its block
    low: NDArray[np.uint16]  # (n_pool,), LAST_CODE - code of the low end, so that both ends are compared alike
    high: NDArray[np.uint16]  # (n_pool,), the code of the high end
    used: NDArray[np.int64]  # (1,), the pool behind this is free


class Columns(NamedTuple):
    """The ends of popular attributes by seat: what the direct method reads.

    A free seat is open. (One row per seat would make insertions cheaper, but matches on `full` a fifth slower.)
    """

    column_of_attribute: NDArray[np.int32]  # (n_attributes,), -1 where there is none
    ends: NDArray[np.uint32]  # (n_blocks, n_columns, BLOCK_SEATS), low code and, in the upper half, high code; or OPEN


class Counts(NamedTuple):
    """How many ends lie where. Two numbers change with an end, and 32 at most tell how many lie below a value."""

    ends: NDArray[np.int32]  # (n_attributes, 2, N_PARTS + N_GROUPS), low ends and high ends
    clauses: NDArray[np.int64]  # (1,), those that have entries, stale ones included


class Index(NamedTuple):
    """All of it."""

    grid: Grid
    lists: RowLists
    columns: Columns
    counts: Counts
    seats: Seats


# -- where an interval lies ----------------------------------------------------------------------------------


@inlined
def _code(table: TransformTable, a: int, value: float) -> int:
    """Return the code of a value: from 1 to 65,534, so that open ends are strictly outside.

    With one linear piece, the usual case, nothing is searched, in a third of the time of `position_of`.
    """
    piece = table.start[a]
    if table.start[a + 1] - piece > 2:
        position = position_of(table, a, value)
    else:
        first, last = table.position[piece], table.position[piece + 1]
        position = first + (value - table.value[piece]) * table.slope[piece]
        # The negated form also catches inf * 0, which is not a number.
        position = first if not position > first else min(position, last)
    return 1 + min(int(position * (LAST_CODE - 1)), LAST_CODE - 2)


@inlined
def codes_of(table: TransformTable, a: int, low: float, high: float) -> tuple[int, int]:
    """Return the codes of an interval's ends."""
    low_code = 0 if low == -np.inf else _code(table, a, low)
    high_code = LAST_CODE if high == np.inf else _code(table, a, high)
    return low_code, high_code


@inlined
def row_and_column(tau: int, low_code: int, high_code: int) -> tuple[int, int]:
    """Return the grid of an interval: formula (3), with y measured like x, both doubled to stay whole.

    low + high is twice the middle and high - low twice the half width, and both have one bit more than a code.
    """
    row = (max(high_code - low_code, 0) * 2 * tau) >> (CODE_BITS + 1)
    return row, ((low_code + high_code) * 2 * tau) >> (CODE_BITS + 1)


@inlined
def list_and_head(grid: Grid, block: int, a: int, row: int) -> tuple[int, int]:
    """Return the list of a row in a block, and the head of its first column."""
    return (
        block * grid.row_start[-1] + grid.row_start[a] + row,
        block * grid.head_start[-1] + grid.head_start[a] + row * (2 * grid.rows[a] + 2 - row),
    )


@kernel
def value_codes(table: TransformTable, events: EventColumns) -> NDArray[np.int32]:
    """Return the code of every value of the events."""
    codes = np.empty(events.value.shape[0], np.int32)
    for i in range(codes.shape[0]):
        codes[i] = _code(table, events.attribute[i], events.value[i])
    return codes


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
            row, column = row_and_column(grid.rows[a], low_code, high_code)
            _, head = list_and_head(grid, index.seats.seat_of_slot[s] // BLOCK_SEATS, a, row)
            lists.head[head + column - row] += np.uint32(1)


@kernel
def lay_out(grid: Grid, lists: RowLists) -> int:
    """Turn counts by grid into the ends of their entries, and line the lists up; return the size of all of them."""
    n_rows, n_heads = grid.row_start[-1], grid.head_start[-1]
    total = 0
    for block in range(lists.start.shape[0] // max(n_rows, 1)):
        for a in range(grid.rows.shape[0]):
            tau = grid.rows[a]
            for row in range(tau):
                head = block * n_heads + grid.head_start[a] + row * (2 * tau + 2 - row)
                last = head + 2 * (tau - row)
                size = 0
                for h in range(head, last):
                    count = offset(lists, h)
                    lists.head[h] = size + count
                    lists.filled[h] = count
                    size += room_for(count)
                lists.head[last] = size
                i = block * n_rows + grid.row_start[a] + row
                lists.start[i] = total
                lists.size[i] = size
                total += size
    return total


@kernel
def fill(clauses: ClauseTable, index: Index, rows: BlockRows) -> None:
    """Write all entries, columns, counts and bits. Each entry moves its grid's end down, which leaves the start."""
    grid, lists = index.grid, index.lists
    for s in range(clauses.start.shape[0]):
        if clauses.stop[s] == clauses.start[s]:
            continue
        seat = index.seats.seat_of_slot[s]
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low_code, high_code = codes_of(grid.table, a, clauses.low[p], clauses.high[p])
            row, column = row_and_column(grid.rows[a], low_code, high_code)
            i, head = list_and_head(grid, seat // BLOCK_SEATS, a, row)
            head += column - row
            lists.head[head] -= np.uint32(1)
            write_entry(lists, lists.start[i] + offset(lists, head), seat, low_code, high_code)
            note_ends(index, rows, seat, a, low_code, high_code)
        note_clause(index, rows, seat)


@inlined
def note_ends(index: Index, rows: BlockRows, seat: int, a: int, low_code: int, high_code: int) -> None:
    """Write all that is kept of a predicate beside its entry."""
    write_column(index.columns, seat, a, low_code, high_code)
    count_ends(index.counts, a, low_code, high_code, 1)
    clear_bit(rows.null[seat // BLOCK_SEATS, a], seat % BLOCK_SEATS)


@inlined
def note_clause(index: Index, rows: BlockRows, seat: int) -> None:
    """Let matches find a clause whose predicates are all written."""
    set_bit(rows.alive[seat // BLOCK_SEATS], seat % BLOCK_SEATS)
    index.counts.clauses[0] += 1


@inlined
def offset(lists: RowLists, head: int) -> int:
    # Signed before anything is added: unsigned and signed together make a float.
    return int(np.int64(lists.head[head]))


@inlined
def room_for(count: int) -> int:
    """Return the room of a grid with so many entries: one hole for eight, rounded."""
    return count + ((count + 4) >> 3)


@inlined
def write_entry(lists: RowLists, at: int, seat: int, low_code: int, high_code: int) -> None:
    lists.place[at] = seat % BLOCK_SEATS
    lists.low[at] = LAST_CODE - low_code
    lists.high[at] = high_code


@inlined
def write_column(columns: Columns, seat: int, a: int, low_code: int, high_code: int) -> None:
    column = columns.column_of_attribute[a]
    if column >= 0:
        columns.ends[seat // BLOCK_SEATS, column, seat % BLOCK_SEATS] = low_code | (high_code << CODE_BITS)


@inlined
def count_ends(counts: Counts, a: int, low_code: int, high_code: int, step: int) -> None:
    low, high = counts.ends[a, 0], counts.ends[a, 1]
    low[low_code >> (CODE_BITS - COUNT_BITS)] += step
    low[N_PARTS + (low_code >> (CODE_BITS - GROUP_BITS))] += step
    high[high_code >> (CODE_BITS - COUNT_BITS)] += step
    high[N_PARTS + (high_code >> (CODE_BITS - GROUP_BITS))] += step
