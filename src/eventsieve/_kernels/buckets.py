"""Bucket lists: the ends of intervals, sorted into cells, in flat arrays that stay contiguous while they change.

Slots are cut into blocks. Each block and attribute has two lists, one of low ends and one of high ends. A list is
one contiguous run of entries in a pool, cell after cell, so "every end above this cell" is a single sweep over
memory. An entry is the slot's place within its block, which fits 16 bits: half the memory to read, and the bits to
mark for one block stay in the first-level cache. The exact bounds stand beside the entries and are read only in
the cell of the value itself.

An insertion or deletion moves the rest of its list by one entry: some 20 KB, which is quick, and every later match
finds the list without holes. (Chains of overflow chunks would make changes cheaper, and each match would pay for
following them.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code, code_of

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable
    from eventsieve.model.transform import TransformTable

BLOCK_BITS = 15
BLOCK_SLOTS = 1 << BLOCK_BITS
"""Slots per block. A list then has at most 32,768 entries, so cell offsets fit 16 bits too, end included."""
LOW = 0
HIGH = 1
_CHUNK = 1024
"""Entries moved at a time."""

_WORD_SHIFT = np.uint64(6)
_LOW_BITS = np.uint64(63)
_ONE = np.uint64(1)


class BucketRule(NamedTuple):
    """What decides the entries of a predicate."""

    table: TransformTable
    n_cells: int
    open_low: bool
    """Low ends at -inf have an entry too."""
    open_high: bool
    """High ends at inf have an entry too."""


class BucketLists(NamedTuple):
    """List i = 2 * (block * n_attributes + attribute) + side. Its cell c holds the entries
    start[i] + cell_start[i, c] up to start[i] + cell_start[i, c + 1]."""

    start: NDArray[np.int64]  # (n_lists,)
    room: NDArray[np.int32]  # (n_lists,), entries the list may have before it must move
    cell_start: NDArray[np.uint16]  # (n_lists, n_cells + 1)
    place: NDArray[np.uint16]  # (n_pool,), the entry's slot within its block
    bound: NDArray[np.float64]  # (n_pool,), the entry's end
    used: NDArray[np.int64]  # (1,), the pool behind this is free


class Ends(NamedTuple):
    """Entries on their way into or out of the lists; key = list * n_cells + cell."""

    key: NDArray[np.int64]
    place: NDArray[np.uint16]
    bound: NDArray[np.float64]


# -- matching ------------------------------------------------------------------------------------------------


@inlined
def cell_of_value(rule: BucketRule, a: int, value: float) -> int:
    return cell_of_code(code_of(rule.table, a, value), rule.n_cells)


@inlined
def cell_first(lists: BucketLists, i: int, c: int) -> int:
    """Return where cell c of list i begins within the list; for c = n_cells that is the list's size."""
    # Signed before anything is added: unsigned and signed together make a float.
    return int(np.int64(lists.cell_start[i, c]))


@inlined
def cell_borders(lists: BucketLists, i: int, c: int) -> tuple[int, int, int, int]:
    """Return where list i begins, where its cell c begins and stops, and where the list stops."""
    base = lists.start[i]
    n_cells = lists.cell_start.shape[1] - 1
    return (
        base,
        base + cell_first(lists, i, c),
        base + cell_first(lists, i, c + 1),
        base + cell_first(lists, i, n_cells),
    )


@inlined
def has_ends(lists: BucketLists, low_list: int) -> bool:
    """Say whether a block and attribute can have entries. The rooms of a block lie together, the list heads do not."""
    return lists.room[low_list] > 0 or lists.room[low_list + 1] > 0


@kernel
def look_ahead(lists: BucketLists, low_list: int, c: int, n_attributes: int) -> None:
    """Fetch what the same value needs in the blocks to come: list heads two blocks ahead, entries one block ahead.

    Lists are short and lie far apart, so without this a match waits for memory longer than it works.
    """
    n_lists, columns = lists.cell_start.shape
    heads = low_list + 4 * n_attributes
    if heads < n_lists and has_ends(lists, heads):
        flat_heads = lists.cell_start.reshape(n_lists * columns)
        prefetch(lists.start, heads)
        for i in range(heads, heads + 2):
            prefetch(flat_heads, i * columns + c)
            prefetch(flat_heads, i * columns + columns - 1)
    entries = low_list + 2 * n_attributes
    if entries < n_lists and has_ends(lists, entries):
        _, own, above, _ = cell_borders(lists, entries, c)
        prefetch(lists.bound, own)
        prefetch(lists.place, own)
        prefetch(lists.place, above)
        first, own, _, _ = cell_borders(lists, entries + 1, c)
        prefetch(lists.bound, own)
        prefetch(lists.place, own)
        prefetch(lists.place, first)


@kernel
def set_places(place: NDArray[np.uint16], first: int, stop: int, out_words: NDArray[np.uint64]) -> None:
    """Set the bit of every entry from first to stop."""
    # Unsigned positions spare the compiler Python's negative indexing: this loop is half as long for it.
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(place[i])
        out_words[bit >> _WORD_SHIFT] |= _ONE << (bit & _LOW_BITS)


@kernel
def clear_places(place: NDArray[np.uint16], first: int, stop: int, out_words: NDArray[np.uint64]) -> None:
    """Clear the bit of every entry from first to stop."""
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(place[i])
        out_words[bit >> _WORD_SHIFT] &= ~(_ONE << (bit & _LOW_BITS))


@kernel
def set_places_within(
    lists: BucketLists, first: int, stop: int, least: float, most: float, out_words: NDArray[np.uint64]
) -> None:
    """Set the bit of the entries from first to stop whose bound is in least..most."""
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(lists.place[i])
        bound = lists.bound[i]
        # The comparison becomes the bit itself: a branch would be guessed wrong every other time.
        out_words[bit >> _WORD_SHIFT] |= np.uint64(least <= bound <= most) << (bit & _LOW_BITS)


@kernel
def clear_places_within(
    lists: BucketLists, first: int, stop: int, least: float, most: float, out_words: NDArray[np.uint64]
) -> None:
    """Clear the bit of the entries from first to stop whose bound is in least..most."""
    for i in range(np.uint64(first), np.uint64(stop)):
        bit = np.uint64(lists.place[i])
        bound = lists.bound[i]
        out_words[bit >> _WORD_SHIFT] &= ~(np.uint64(least <= bound <= most) << (bit & _LOW_BITS))


# -- building ------------------------------------------------------------------------------------------------


@inlined
def key_of_end(rule: BucketRule, n_attributes: int, s: int, a: int, side: int, bound: float) -> int:
    """Return the key of one end, or -1 if the rule gives it no entry."""
    if side == LOW and bound == -np.inf and not rule.open_low:
        return -1
    if side == HIGH and bound == np.inf and not rule.open_high:
        return -1
    return (2 * ((s >> BLOCK_BITS) * n_attributes + a) + side) * rule.n_cells + cell_of_value(rule, a, bound)


@kernel
def count_ends(rule: BucketRule, clauses: ClauseTable, n_attributes: int, lists: BucketLists) -> None:
    """Count the ends of all clauses by list and cell."""
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            for side in range(2):
                bound = clauses.low[p] if side == LOW else clauses.high[p]
                key = key_of_end(rule, n_attributes, s, clauses.attribute[p], side, bound)
                if key >= 0:
                    lists.cell_start[key // rule.n_cells, key % rule.n_cells] += np.uint16(1)


@kernel
def lay_out(lists: BucketLists) -> int:
    """Turn counts by cell into the ends of cells, and put the lists one behind the other; return their total."""
    total = 0
    n_cells = lists.cell_start.shape[1] - 1
    for i in range(lists.start.shape[0]):
        size = 0
        for c in range(n_cells):
            size += lists.cell_start[i, c]
            lists.cell_start[i, c] = size
        lists.cell_start[i, n_cells] = size
        lists.start[i] = total
        lists.room[i] = size
        total += size
    return total


@kernel
def fill_ends(rule: BucketRule, clauses: ClauseTable, n_attributes: int, lists: BucketLists) -> None:
    """Write all entries. Each moves the end of its cell down, which leaves the cell's start behind."""
    for s in range(clauses.start.shape[0]):
        for p in range(clauses.start[s], clauses.stop[s]):
            for side in range(2):
                bound = clauses.low[p] if side == LOW else clauses.high[p]
                key = key_of_end(rule, n_attributes, s, clauses.attribute[p], side, bound)
                if key >= 0:
                    i = key // rule.n_cells
                    lists.cell_start[i, key % rule.n_cells] -= np.uint16(1)
                    at = lists.start[i] + lists.cell_start[i, key % rule.n_cells]
                    lists.place[at] = s & (BLOCK_SLOTS - 1)
                    lists.bound[at] = bound


# -- changing ------------------------------------------------------------------------------------------------


@kernel
def ends_of(rule: BucketRule, clauses: ClauseTable, n_attributes: int, slots: NDArray[np.int32]) -> Ends:
    """Return the ends of the clauses at `slots`, in the order of the table."""
    most = 0
    for s in slots:
        most += 2 * (clauses.stop[s] - clauses.start[s])
    key = np.empty(most, np.int64)
    place = np.empty(most, np.uint16)
    bound = np.empty(most, np.float64)
    n_ends = 0
    for s in slots:
        for p in range(clauses.start[s], clauses.stop[s]):
            for side in range(2):
                end = clauses.low[p] if side == LOW else clauses.high[p]
                found = key_of_end(rule, n_attributes, s, clauses.attribute[p], side, end)
                if found >= 0:
                    key[n_ends] = found
                    place[n_ends] = s & (BLOCK_SLOTS - 1)
                    bound[n_ends] = end
                    n_ends += 1
    return Ends(key[:n_ends], place[:n_ends], bound[:n_ends])


def sorted_ends(ends: Ends) -> Ends:
    """Return ends by rising key. (NumPy sorts; a sort in compiled code would take seconds to compile.)"""
    order = np.argsort(ends.key)
    return Ends(ends.key[order], ends.place[order], ends.bound[order])


@inlined
def run_stop(key: NDArray[np.int64], first: int, n_cells: int) -> int:
    """Return where the keys of the list that key[first] belongs to stop."""
    past = (key[first] // n_cells + 1) * n_cells
    stop = first + 1
    while stop < key.shape[0] and key[stop] < past:
        stop += 1
    return stop


@kernel
def missing_room(ends: Ends, lists: BucketLists) -> int:
    """Return how much longer the pool must be to insert sorted ends; 0 if it is long enough."""
    n_cells = lists.cell_start.shape[1] - 1
    needed = lists.used[0] - lists.place.shape[0]
    first = 0
    while first < ends.key.shape[0]:
        stop = run_stop(ends.key, first, n_cells)
        i = ends.key[first] // n_cells
        size = cell_first(lists, i, n_cells) + stop - first
        if size > lists.room[i]:
            needed += grown(size)
        first = stop
    return max(needed, 0)


@inlined
def grown(size: int) -> int:
    """Return the room given to a list of this size that has to move."""
    return size + (size >> 2) + 4


@kernel
def insert_ends(ends: Ends, lists: BucketLists) -> None:
    """Put sorted ends into their cells. Lists that are full move to the end of the used pool first."""
    n_cells = lists.cell_start.shape[1] - 1
    via_place, via_bound = np.empty(_CHUNK, np.uint16), np.empty(_CHUNK, np.float64)
    first = 0
    while first < ends.key.shape[0]:
        stop = run_stop(ends.key, first, n_cells)
        i = ends.key[first] // n_cells
        size = cell_first(lists, i, n_cells)
        if size + stop - first > lists.room[i]:
            _move_list(lists, i, size, grown(size + stop - first))
        until = lists.start[i] + size
        for j in range(stop - 1, first - 1, -1):
            at = lists.start[i] + cell_first(lists, i, ends.key[j] - i * n_cells + 1)
            _shift_up(lists, at, until, j + 1 - first, via_place, via_bound)
            lists.place[at + j - first] = ends.place[j]
            lists.bound[at + j - first] = ends.bound[j]
            until = at
        _move_borders(ends.key, first, stop, 1, lists)
        first = stop


@kernel
def _move_list(lists: BucketLists, i: int, size: int, room: int) -> None:
    old = lists.start[i]
    new = lists.used[0]
    for j in range(size):
        lists.place[new + j] = lists.place[old + j]
        lists.bound[new + j] = lists.bound[old + j]
    lists.start[i] = new
    lists.room[i] = room
    lists.used[0] = new + room


@kernel
def _shift_up(
    lists: BucketLists, first: int, stop: int, gap: int, via_place: NDArray[np.uint16], via_bound: NDArray[np.float64]
) -> None:
    """Move the entries from first to stop up by `gap`, the last ones first."""
    # By way of a small buffer: a loop that reads where it writes moves one entry at a time, these two many at once.
    while stop > first:
        begin = max(first, stop - _CHUNK)
        for j in range(stop - begin):
            via_place[j] = lists.place[begin + j]
            via_bound[j] = lists.bound[begin + j]
        for j in range(stop - begin):
            lists.place[begin + gap + j] = via_place[j]
            lists.bound[begin + gap + j] = via_bound[j]
        stop = begin


@kernel
def _shift_down(
    lists: BucketLists, first: int, stop: int, gap: int, via_place: NDArray[np.uint16], via_bound: NDArray[np.float64]
) -> None:
    """Move the entries from first to stop down by `gap`, the first ones first."""
    while first < stop:
        end = min(stop, first + _CHUNK)
        for j in range(end - first):
            via_place[j] = lists.place[first + j]
            via_bound[j] = lists.bound[first + j]
        for j in range(end - first):
            lists.place[first - gap + j] = via_place[j]
            lists.bound[first - gap + j] = via_bound[j]
        first = end


@kernel
def _move_borders(key: NDArray[np.int64], first: int, stop: int, step: int, lists: BucketLists) -> None:
    """Move the borders behind each changed cell of one list by `step` for every entry that comes before them."""
    n_cells = lists.cell_start.shape[1] - 1
    i = key[first] // n_cells
    borders = lists.cell_start[i]
    for j in range(first, stop):
        end = key[j + 1] - i * n_cells if j + 1 < stop else n_cells
        moved = np.uint16((j + 1 - first) * step)
        for c in range(key[j] - i * n_cells + 1, end + 1):
            borders[c] += moved


@kernel
def find_ends(ends: Ends, lists: BucketLists) -> NDArray[np.int64]:
    """Return where in the pool each entry stands."""
    n_cells = lists.cell_start.shape[1] - 1
    at = np.empty(ends.key.shape[0], np.int64)
    for j in range(at.shape[0]):
        i = ends.key[j] // n_cells
        at[j] = lists.start[i] + cell_first(lists, i, ends.key[j] - i * n_cells)
        while lists.place[at[j]] != ends.place[j]:
            at[j] += 1
    return at


@kernel
def delete_ends(key: NDArray[np.int64], at: NDArray[np.int64], lists: BucketLists) -> None:
    """Take out the entries that stand at `at`, by rising key and, within a key, rising place; close the gaps."""
    n_cells = lists.cell_start.shape[1] - 1
    via_place, via_bound = np.empty(_CHUNK, np.uint16), np.empty(_CHUNK, np.float64)
    first = 0
    while first < key.shape[0]:
        stop = run_stop(key, first, n_cells)
        i = key[first] // n_cells
        for j in range(first, stop):
            until = at[j + 1] if j + 1 < stop else lists.start[i] + cell_first(lists, i, n_cells)
            _shift_down(lists, at[j] + 1, until, j + 1 - first, via_place, via_bound)
        _move_borders(key, first, stop, -1, lists)
        first = stop


@kernel
def repack(lists: BucketLists, out_place: NDArray[np.uint16], out_bound: NDArray[np.float64]) -> None:
    """Move all lists into a new pool without the room that moved lists left behind."""
    n_cells = lists.cell_start.shape[1] - 1
    new = 0
    for i in range(lists.start.shape[0]):
        old = lists.start[i]
        for j in range(cell_first(lists, i, n_cells)):
            out_place[new + j] = lists.place[old + j]
            out_bound[new + j] = lists.bound[old + j]
        lists.start[i] = new
        new += lists.room[i]
    lists.used[0] = new
