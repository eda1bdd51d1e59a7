"""The triangle of every attribute: which grid an interval lies in, and lists of clauses by row and column.

Section 4.2.1. A row of grids is one contiguous run of entries in a pool, column after column, so that "all columns left
of a line" is one sweep over memory. An entry is a slot's place within its block and the codes of its two ends.

Every grid has a little room at its end. It is filled with holes: entries whose place is behind the last of the block,
so that a sweep may mark them without harm and need not know where they are. An insertion writes into its grid's first
hole. If there is none, the full grids to the right each move one entry from their front to their back, which brings the
nearest hole over. (The order within a grid means nothing.) A deletion leaves a hole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, prefetch
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.model.columns import ClauseTable, EventColumns
from eventsieve.model.transform import TransformTable

BLOCK_SLOTS = 1023 * WORD_BITS
"""Slots per block: a place fits 16 bits and leaves one word of bits, within 8 KB, for holes."""
HOLE = BLOCK_SLOTS
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
    place: NDArray[np.uint16]  # (n_pool,), the slot within its block
    low: NDArray[np.uint16]  # (n_pool,), LAST_CODE - code of the low end, so that both ends are compared alike
    high: NDArray[np.uint16]  # (n_pool,), the code of the high end
    used: NDArray[np.int64]  # (1,), the pool behind this is free


class Columns(NamedTuple):
    """The ends of popular attributes by slot: what the direct method reads."""

    column_of_attribute: NDArray[np.int32]  # (n_attributes,), -1 where there is none
    ends: NDArray[np.uint32]  # (n_blocks, n_columns, BLOCK_SLOTS), low code and, in the upper half, high code; or OPEN


class Counts(NamedTuple):
    """How many ends lie where. Two numbers change with an end, and 32 at most tell how many lie below a value."""

    ends: NDArray[np.int32]  # (n_attributes, 2, N_PARTS + N_GROUPS), low ends and high ends
    live: NDArray[np.int64]  # (1,), clauses


class Index(NamedTuple):
    """All of it."""

    grid: Grid
    lists: RowLists
    columns: Columns
    counts: Counts


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
def _codes(table: TransformTable, a: int, low: float, high: float) -> tuple[int, int]:
    """Return the codes of an interval's ends."""
    low_code = 0 if low == -np.inf else _code(table, a, low)
    high_code = LAST_CODE if high == np.inf else _code(table, a, high)
    return low_code, high_code


@inlined
def _row_and_column(tau: int, low_code: int, high_code: int) -> tuple[int, int]:
    """Return the grid of an interval: formula (3), with y measured like x, both doubled to stay whole.

    low + high is twice the middle and high - low twice the half width, and both have one bit more than a code.
    """
    row = (max(high_code - low_code, 0) * 2 * tau) >> (CODE_BITS + 1)
    return row, ((low_code + high_code) * 2 * tau) >> (CODE_BITS + 1)


@inlined
def _list_and_head(grid: Grid, block: int, a: int, row: int) -> tuple[int, int]:
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
def count_grids(clauses: ClauseTable, grid: Grid, lists: RowLists) -> None:
    """Count the intervals of all clauses by grid."""
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low_code, high_code = _codes(grid.table, a, clauses.low[p], clauses.high[p])
            row, column = _row_and_column(grid.rows[a], low_code, high_code)
            _, head = _list_and_head(grid, s // BLOCK_SLOTS, a, row)
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
                    count = _offset(lists, h)
                    lists.head[h] = size + count
                    lists.filled[h] = count
                    size += _room_for(count)
                lists.head[last] = size
                i = block * n_rows + grid.row_start[a] + row
                lists.start[i] = total
                lists.size[i] = size
                total += size
    return total


@kernel
def fill(clauses: ClauseTable, index: Index) -> None:
    """Write all entries, columns and counts. Each entry moves its grid's end down, which leaves the start."""
    grid, lists = index.grid, index.lists
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low_code, high_code = _codes(grid.table, a, clauses.low[p], clauses.high[p])
            row, column = _row_and_column(grid.rows[a], low_code, high_code)
            i, head = _list_and_head(grid, s // BLOCK_SLOTS, a, row)
            head += column - row
            lists.head[head] -= np.uint32(1)
            at = lists.start[i] + _offset(lists, head)
            _write_entry(lists, at, s, low_code, high_code)
            _write_column(index.columns, s, a, low_code, high_code)
            _count(index.counts, a, low_code, high_code, 1)
        index.counts.live[0] += clauses.stop[s] > clauses.start[s]


@inlined
def _offset(lists: RowLists, head: int) -> int:
    # Signed before anything is added: unsigned and signed together make a float.
    return int(np.int64(lists.head[head]))


@inlined
def _room_for(count: int) -> int:
    """Return the room of a grid with so many entries: one hole for eight, rounded."""
    return count + ((count + 4) >> 3)


@inlined
def _write_entry(lists: RowLists, at: int, s: int, low_code: int, high_code: int) -> None:
    lists.place[at] = s % BLOCK_SLOTS
    lists.low[at] = LAST_CODE - low_code
    lists.high[at] = high_code


@inlined
def _write_column(columns: Columns, s: int, a: int, low_code: int, high_code: int) -> None:
    column = columns.column_of_attribute[a]
    if column >= 0:
        columns.ends[s // BLOCK_SLOTS, column, s % BLOCK_SLOTS] = low_code | (high_code << CODE_BITS)


@inlined
def _write_hole(lists: RowLists, at: int) -> None:
    """Write an entry that no value matches and no value has for an end."""
    lists.place[at], lists.low[at], lists.high[at] = HOLE, 0, 0


@inlined
def _move_entry(lists: RowLists, source: int, target: int) -> None:
    lists.place[target] = lists.place[source]
    lists.low[target] = lists.low[source]
    lists.high[target] = lists.high[source]


# -- changing ------------------------------------------------------------------------------------------------


class Filing(NamedTuple):
    """The predicates of one clause on their way into the lists."""

    attribute: NDArray[np.int32]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    row_list: NDArray[np.int64]
    first: NDArray[np.int64]  # the head of the row's first grid
    head: NDArray[np.int64]  # of the grid
    last: NDArray[np.int64]  # behind the row's last grid


@inlined
def _file(clauses: ClauseTable, grid: Grid, s: int, filing: Filing) -> int:
    """Find the grid of each predicate of a clause; return how many there are."""
    first, block = clauses.start[s], s // BLOCK_SLOTS
    for p in range(first, clauses.stop[s]):
        k, a = p - first, clauses.attribute[p]
        low_code, high_code = _codes(grid.table, a, clauses.low[p], clauses.high[p])
        row, column = _row_and_column(grid.rows[a], low_code, high_code)
        i, head = _list_and_head(grid, block, a, row)
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


@kernel
def insert(clauses: ClauseTable, slots: NDArray[np.int32], index: Index, progress: NDArray[np.int64]) -> bool:
    """Insert the clauses at `slots` from where `progress` (clauses, predicates) says; False if the pool is full."""
    lists = index.lists
    filing = _new_filing(index.grid.rows.shape[0])
    while progress[0] < slots.shape[0]:
        s = slots[progress[0]]
        n = _file(clauses, index.grid, s, filing)
        _fetch(lists, filing, n)
        for k in range(progress[1], n):
            i, head, last = filing.row_list[k], filing.head[k], filing.last[k]
            found = _bring_hole(lists, lists.start[i], head, last)
            if not (found or _spread(lists, i, filing.first[k], head, last)):
                return False
            at = _first_hole(lists, lists.start[i], head)
            a, low_code, high_code = filing.attribute[k], filing.low[k], filing.high[k]
            _write_entry(lists, at, s, low_code, high_code)
            lists.filled[head] += np.uint16(1)
            _write_column(index.columns, s, a, low_code, high_code)
            _count(index.counts, a, low_code, high_code, 1)
            progress[1] += 1
        index.counts.live[0] += n > 0
        progress[0] += 1
        progress[1] = 0
    return True


@kernel
def delete(clauses: ClauseTable, slots: NDArray[np.int32], index: Index) -> None:
    """Take out the clauses at `slots`."""
    lists = index.lists
    filing = _new_filing(index.grid.rows.shape[0])
    for s in slots:
        place = np.uint16(s % BLOCK_SLOTS)
        n = _file(clauses, index.grid, s, filing)
        _fetch(lists, filing, n)
        for k in range(n):
            last = _first_hole(lists, lists.start[filing.row_list[k]], filing.head[k]) - 1
            at = last
            while lists.place[at] != place:
                at -= 1
            # The grid's last entry takes its place.
            _move_entry(lists, last, at)
            _write_hole(lists, last)
            lists.filled[filing.head[k]] -= np.uint16(1)
            _write_column(index.columns, s, filing.attribute[k], 0, LAST_CODE)
            _count(index.counts, filing.attribute[k], filing.low[k], filing.high[k], -1)
        index.counts.live[0] -= n > 0


@inlined
def _has_hole(lists: RowLists, head: int) -> bool:
    """Say whether the grid at `head` has a hole."""
    return _offset(lists, head) + int(np.int64(lists.filled[head])) < _offset(lists, head + 1)


@inlined
def _first_hole(lists: RowLists, base: int, head: int) -> int:
    """Return where in the pool the holes of the grid at `head` begin: they are at its end."""
    return base + _offset(lists, head) + int(np.int64(lists.filled[head]))


@inlined
def _bring_hole(lists: RowLists, base: int, head: int, last: int) -> bool:
    """See to it that the grid at `head` has a hole, its own or the nearest to its right; False if there is none."""
    source = head
    while source < last and not _has_hole(lists, source):
        source += 1
    if source == last:
        return False
    for h in range(source, head, -1):
        # The front entry goes to the back, and what it leaves is the back of the grid before.
        front = base + _offset(lists, h)
        back = _first_hole(lists, base, h) if h == source else base + _offset(lists, h + 1) - 1
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
    offset = 0
    for h in range(first, last):
        begin = base + _offset(lists, h)
        count = int(np.int64(lists.filled[h]))
        for j in range(count):
            _move_entry(lists, begin + j, new + offset + j)
        lists.head[h] = offset
        offset += _room_after_move(count, h == wanted)
    lists.head[last] = offset
    lists.start[i], lists.size[i], lists.used[0] = new, size, new + size
    return True


@inlined
def _room_after_move(count: int, wanted: bool) -> int:
    return _room_for(count) + ((count >> 1) + 4 if wanted else 0)


@inlined
def _count(counts: Counts, a: int, low_code: int, high_code: int, step: int) -> None:
    low, high = counts.ends[a, 0], counts.ends[a, 1]
    low[low_code >> (CODE_BITS - COUNT_BITS)] += step
    low[N_PARTS + (low_code >> (CODE_BITS - GROUP_BITS))] += step
    high[high_code >> (CODE_BITS - COUNT_BITS)] += step
    high[N_PARTS + (high_code >> (CODE_BITS - GROUP_BITS))] += step


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
