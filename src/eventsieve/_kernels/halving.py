"""Levels of halved cells, and lists of clause slots that hang on the cells.

Level i cuts the domain of an attribute into 2**i cells. The cells that an interval covers, at the coarsest level
where each is covered whole, are at most two per level (a dyadic decomposition); they are disjoint, so a value finds
the interval at most once on its way from level 0 to the finest level.

The two finest cells in which an interval begins and ends are covered in part: the interval stands in the *edge*
list of each. Which cells are covered is decided by cell numbers alone. The mapping of values to cells keeps order,
so a value in a cell strictly between the two edge cells satisfies the predicate, whatever was rounded and
however far outside the domain it lies. An open side has no edge cell: it covers everything there.

Slots are cut into blocks of a power of two, and an entry is the slot's place within its block. The lists of one block
and attribute below one cell of the root level form a page, made when the first predicate needs it: an index of few
clauses stays small, and all lists that a value visits have their heads close together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable
    from eventsieve.model.transform import TransformTable

Entries: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Places of slots within their block, in 16 or 32 bits. (Unsigned, since a signed index costs a test for negatives.)"""


class Filing(NamedTuple):
    """What decides the lists a predicate stands in."""

    table: TransformTable
    levels: int
    """The finest level: a domain has 2**levels cells."""
    root: int
    """A page holds the lists below one cell of this level."""
    top: int
    """The coarsest level with lists here."""
    bottom: int
    """The finest level with lists here; if it is `levels`, there are edge lists too."""
    block_bits: int
    most: int
    """Only a clause's first so many predicates are filed."""


class CellLists(NamedTuple):
    """Lists of slots in one pool of entries. List i is entries[start[i] : start[i] + length[i]]."""

    page_of_key: NDArray[np.int32]  # (n_blocks * n_attributes * 2**root,), -1 where there is none
    start: NDArray[np.int64]  # (n_pages * lists_in_page,)
    length: NDArray[np.int32]
    capacity: NDArray[np.int32]
    entries: Entries
    used: NDArray[np.int64]  # (1,), entries given to lists so far; behind it the pool is free


class ListNames(NamedTuple):
    """The lists a predicate stands in, by page and number within the page: scratch of `lists_of_predicate`."""

    key: NDArray[np.int64]
    number: NDArray[np.int32]


# -- numbers of cells and lists --------------------------------------------------------------------------------


@inlined
def cell_of_value(filing: Filing, a: int, value: float) -> int:
    """Return the finest cell of a value."""
    n_cells = 1 << filing.levels
    return min(int(position_of(filing.table, a, value) * n_cells), n_cells - 1)


@inlined
def is_outside(filing: Filing, a: int, value: float) -> bool:
    """Tell whether a value lies outside the domain, so that its edge cell says nothing about how far."""
    table = filing.table
    return value < table.value[table.start[a]] or value > table.value[table.start[a + 1] - 1]


@inlined
def key_of_page(filing: Filing, block: int, a: int, cell: int) -> int:
    """Return the key of the page with the lists of a finest cell."""
    n_attributes = filing.table.start.shape[0] - 1
    return ((block * n_attributes + a) << filing.root) + (cell >> (filing.levels - filing.root))


@inlined
def list_of_cell(filing: Filing, level: int, cell: int) -> int:
    """Return the number, within its page, of the list of a cell of `level`, level by level from the root down."""
    below_root = (1 << (level - filing.root)) - 1
    return below_root + (cell & below_root)


@inlined
def list_of_edge(filing: Filing, cell: int) -> int:
    """Return the number, within its page, of the edge list of a finest cell: they follow all levels."""
    below_root = 1 << (filing.levels - filing.root)
    return 2 * below_root - 1 + (cell & (below_root - 1))


@inlined
def lists_in_page(filing: Filing) -> int:
    """Return the number of lists of one page."""
    edges = 1 << (filing.levels - filing.root) if filing.bottom == filing.levels else 0
    return (2 << (filing.bottom - filing.root)) - 1 + edges


# -- where a predicate stands ----------------------------------------------------------------------------------


@inlined
def covered_cells(filing: Filing, a: int, low: float, high: float) -> tuple[int, int, int, int]:
    """Return the first and the stop of the finest cells covered whole, and the two edge cells, -1 for none."""
    first, stop = 0, 1 << filing.levels
    low_edge, high_edge = -1, -1
    if low > -np.inf:
        low_edge = cell_of_value(filing, a, low)
        first = low_edge + 1
    if high < np.inf:
        high_edge = cell_of_value(filing, a, high)
        stop = high_edge
        if high_edge == low_edge:
            high_edge = -1
    return first, stop, low_edge, high_edge


@kernel
def name_room(filing: Filing) -> ListNames:
    """Return room for the lists of any one predicate."""
    most = 2 * filing.levels + 4
    return ListNames(np.empty(most, np.int64), np.empty(most, np.int32))


@kernel
def lists_of_predicate(filing: Filing, block: int, a: int, low: float, high: float, out: ListNames) -> int:
    """Name the lists that a predicate stands in; return how many."""
    first, stop, low_edge, high_edge = covered_cells(filing, a, low, high)
    n_lists = 0
    if filing.bottom == filing.levels:
        for edge in (low_edge, high_edge):
            if edge >= 0:
                out.key[n_lists] = key_of_page(filing, block, a, edge)
                out.number[n_lists] = list_of_edge(filing, edge)
                n_lists += 1
    level = filing.levels
    # From the finest level up: a cell whose sibling is not covered stays on its level, pairs move up as one cell.
    while first < stop and level >= filing.top:
        if first & 1:
            n_lists = _name_cell(filing, block, a, level, first, n_lists, out)
            first += 1
        if first < stop and stop & 1:
            stop -= 1
            n_lists = _name_cell(filing, block, a, level, stop, n_lists, out)
        first >>= 1
        stop >>= 1
        level -= 1
    return n_lists


@inlined
def _name_cell(filing: Filing, block: int, a: int, level: int, cell: int, n_lists: int, out: ListNames) -> int:
    """Name the list of one cell, if its level has lists here; return the number of names."""
    if level > filing.bottom:
        return n_lists
    out.key[n_lists] = key_of_page(filing, block, a, cell << (filing.levels - level))
    out.number[n_lists] = list_of_cell(filing, level, cell)
    return n_lists + 1


@inlined
def filed_stop(filing: Filing, clauses: ClauseTable, s: int) -> int:
    """Return the end of the predicates of slot s that are filed."""
    return min(clauses.stop[s], clauses.start[s] + filing.most)


# -- building --------------------------------------------------------------------------------------------------


@kernel
def claim_pages(
    filing: Filing, clauses: ClauseTable, slots: NDArray[np.int32], n_pages: int, page_of_key: NDArray[np.int32]
) -> int:
    """Number the pages that the clauses at `slots` need and that are not there yet; return the number of pages."""
    names = name_room(filing)
    for s in slots:
        for p in range(clauses.start[s], filed_stop(filing, clauses, s)):
            block, a = s >> filing.block_bits, clauses.attribute[p]
            for i in range(lists_of_predicate(filing, block, a, clauses.low[p], clauses.high[p], names)):
                if page_of_key[names.key[i]] < 0:
                    page_of_key[names.key[i]] = n_pages
                    n_pages += 1
    return n_pages


@kernel
def count_entries(filing: Filing, clauses: ClauseTable, page_lists: int, lists: CellLists) -> None:
    """Add to the capacity of each list the entries that all clauses have for it."""
    names = name_room(filing)
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], filed_stop(filing, clauses, s)):
            block, a = s >> filing.block_bits, clauses.attribute[p]
            for i in range(lists_of_predicate(filing, block, a, clauses.low[p], clauses.high[p], names)):
                lists.capacity[lists.page_of_key[names.key[i]] * page_lists + names.number[i]] += 1


@kernel
def fill_entries(filing: Filing, clauses: ClauseTable, page_lists: int, lists: CellLists) -> None:
    """Write the entries of all clauses, by rising slot, into lists that are empty and have the room."""
    place_mask = (1 << filing.block_bits) - 1
    names = name_room(filing)
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], filed_stop(filing, clauses, s)):
            block, a = s >> filing.block_bits, clauses.attribute[p]
            for i in range(lists_of_predicate(filing, block, a, clauses.low[p], clauses.high[p], names)):
                target = lists.page_of_key[names.key[i]] * page_lists + names.number[i]
                lists.entries[lists.start[target] + lists.length[target]] = s & place_mask
                lists.length[target] += 1


@kernel
def lay_out(filing: Filing, page_lists: int, lists: CellLists, out_start: NDArray[np.int64]) -> int:
    """Give each list a place of its capacity in a new pool; return the places given.

    The lists of one cell in all blocks follow each other: an event visits the cell in every block, and reads
    on in the same pages of memory. On a million clauses this was worth a fifth of TAMA's time.
    """
    block_keys = (filing.table.start.shape[0] - 1) << filing.root
    begin = 0
    for first_key in range(block_keys):
        for number in range(page_lists):
            for key in range(first_key, lists.page_of_key.shape[0], block_keys):
                if lists.page_of_key[key] >= 0:
                    i = lists.page_of_key[key] * page_lists + number
                    out_start[i] = begin
                    begin += lists.capacity[i]
    return begin


@kernel
def move_entries(lists: CellLists, start: NDArray[np.int64], out_entries: Entries) -> None:
    """Move all lists into a new pool where they begin at `start`."""
    for i in range(lists.start.shape[0]):
        old, new = lists.start[i], start[i]
        for j in range(lists.length[i]):
            out_entries[new + j] = lists.entries[old + j]
        lists.start[i] = new


# -- changing --------------------------------------------------------------------------------------------------


@kernel
def insert_entries(
    filing: Filing,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    page_lists: int,
    lists: CellLists,
    progress: NDArray[np.int64],
) -> bool:
    """Append the entries of the clauses at `slots`; return False when the pool is full.

    `progress` holds the slot, predicate and list that come next, zeros at first, so that a second call with a
    larger pool goes on where the first one stopped.
    """
    place_mask = (1 << filing.block_bits) - 1
    names = name_room(filing)
    while progress[0] < slots.shape[0]:
        s = slots[progress[0]]
        while clauses.start[s] + progress[1] < filed_stop(filing, clauses, s):
            p = clauses.start[s] + progress[1]
            block, a = s >> filing.block_bits, clauses.attribute[p]
            n_lists = lists_of_predicate(filing, block, a, clauses.low[p], clauses.high[p], names)
            while progress[2] < n_lists:
                key, number = names.key[progress[2]], names.number[progress[2]]
                if not _append(lists, lists.page_of_key[key] * page_lists + number, s & place_mask):
                    return False
                progress[2] += 1
            progress[2] = 0
            progress[1] += 1
        progress[1] = 0
        progress[0] += 1
    return True


@kernel
def _append(lists: CellLists, i: int, entry: int) -> bool:
    """Append to list i, which moves to the end of the used pool when it is full; return False if that has no room."""
    length = lists.length[i]
    if length == lists.capacity[i]:
        capacity = length + (length >> 1) + 4
        old, new = lists.start[i], lists.used[0]
        if new + capacity > lists.entries.shape[0]:
            return False
        for j in range(length):
            lists.entries[new + j] = lists.entries[old + j]
        lists.start[i] = new
        lists.capacity[i] = capacity
        lists.used[0] = new + capacity
    lists.entries[lists.start[i] + length] = entry
    lists.length[i] = length + 1
    return True


@kernel
def delete_entries(
    filing: Filing, clauses: ClauseTable, slots: NDArray[np.int32], page_lists: int, lists: CellLists
) -> None:
    """Take the entries of the clauses at `slots` out of their lists; the last entry of a list fills the gap."""
    place_mask = (1 << filing.block_bits) - 1
    names = name_room(filing)
    for s in slots:
        for p in range(clauses.start[s], filed_stop(filing, clauses, s)):
            block, a = s >> filing.block_bits, clauses.attribute[p]
            for i in range(lists_of_predicate(filing, block, a, clauses.low[p], clauses.high[p], names)):
                target = lists.page_of_key[names.key[i]] * page_lists + names.number[i]
                begin, length = lists.start[target], lists.length[target]
                in_use = lists.entries[begin : begin + length]
                in_use[_position(in_use, s & place_mask)] = in_use[length - 1]
                lists.length[target] = length - 1


@inlined
def _position(entries: Entries, entry: int) -> int:
    """Return where an entry stands in a list."""
    # Without a branch for each entry the loop runs in wide registers, so whole runs are tried first.
    run = 64
    begin = 0
    while begin + run <= entries.shape[0]:
        hits = 0
        for i in range(begin, begin + run):
            hits += entries[i] == entry
        if hits:
            break
        begin += run
    while begin < entries.shape[0] - 1 and entries[begin] != entry:
        begin += 1
    return begin


@kernel
def give_slack(lists: CellLists) -> None:
    """Raise the capacity of lists in use by a little."""
    for i in range(lists.capacity.shape[0]):
        if lists.capacity[i] > 0:
            lists.capacity[i] += (lists.capacity[i] >> 4) + 2
