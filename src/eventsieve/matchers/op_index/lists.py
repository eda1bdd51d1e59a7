"""Kernels that change an OP-Index: where a clause and its predicates stand, building, inserting and deleting."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.op_index.layout import (
    BLOCK_CLAUSES,
    BLOCKS,
    CAPACITY,
    CHECKED,
    ENTRIES,
    EQUAL,
    FIRST,
    FREE,
    HIGH,
    LENGTH,
    LISTS,
    LIVE,
    LOW,
    MOST_COUNTED,
    N_OPERATORS,
    NEXT,
    PIVOT,
    PLACES,
    ROOM,
    SIGNATURE,
    SIZE,
    START,
    VACANT,
    WASTED,
    OpLists,
)
from eventsieve.model.columns import ClauseTable

_CHUNK: Final = 512
"""Entries moved at a time."""


@inlined
def counted_stop(clauses: ClauseTable, s: int) -> int:
    """Return the end of the predicates of a clause that are filed."""
    return min(clauses.stop[s], clauses.start[s] + MOST_COUNTED)


@inlined
def rarest(clauses: ClauseTable, s: int, frequency: NDArray[np.int64]) -> int:
    """Return the attribute of a clause that the fewest clauses have."""
    pivot = clauses.attribute[clauses.start[s]]
    for p in range(clauses.start[s] + 1, clauses.stop[s]):
        if frequency[clauses.attribute[p]] < frequency[pivot]:
            pivot = clauses.attribute[p]
    return int(np.int64(pivot))


@kernel
def _entries_below(value: NDArray[np.float64], start: int, length: int, wanted: float, equal_too: bool) -> int:
    """Return how many values of a list are below `wanted`, or at it where `equal_too` says so."""
    first, stop = start, start + length
    while first < stop:
        middle = (first + stop) >> 1
        if value[middle] < wanted or (equal_too and value[middle] == wanted):
            first = middle + 1
        else:
            stop = middle
    return first - start


@inlined
def capacity_for(length: int) -> int:
    """Return the room of a list that is laid out: a little more than it needs, so that few insertions move it."""
    return 0 if length == 0 else length + (length >> 4) + 2


@inlined
def _entries_of(low: float, high: float) -> tuple[int, int]:
    """Return the operators of the two entries of an interval, the second -1 if it has only one."""
    if low == high:
        return EQUAL, -1
    return LOW, (HIGH if high < np.inf else -1)


# -- building --------------------------------------------------------------------------------------------------


@kernel
def count_frequencies(clauses: ClauseTable, slots: NDArray[np.int32], frequency: NDArray[np.int64]) -> None:
    """Count the clauses with a predicate on each attribute."""
    for s in slots:
        for p in range(clauses.start[s], clauses.stop[s]):
            frequency[clauses.attribute[p]] += 1


@kernel
def choose_pivots(
    clauses: ClauseTable, slots: NDArray[np.int32], frequency: NDArray[np.int64], out_pivot: NDArray[np.int32]
) -> None:
    """Write the pivot of each clause."""
    for i in range(slots.shape[0]):
        out_pivot[i] = rarest(clauses, slots[i], frequency)


@kernel
def place_clauses(
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    pivot: NDArray[np.int32],
    first_block: NDArray[np.int64],
    index: OpLists,
) -> None:
    """Give each clause a place in the blocks of its pivot, which begin at first_block[pivot]."""
    filed = np.zeros(first_block.shape[0], np.int64)
    for i in range(slots.shape[0]):
        b = first_block[pivot[i]] + filed[pivot[i]] // BLOCK_CLAUSES
        filed[pivot[i]] += 1
        _take_place(clauses, slots[i], b, index)


@kernel
def count_entries(clauses: ClauseTable, slots: NDArray[np.int32], index: OpLists) -> None:
    """Add to the capacities of lists what these clauses need, and number the lists as they come up."""
    for s in slots:
        b = int(np.int64(index.block_of_slot[s]))
        for p in range(clauses.start[s], counted_stop(clauses, s)):
            first = _lists_of(index, b, clauses.attribute[p])
            for operator in _entries_of(clauses.low[p], clauses.high[p]):
                if operator >= 0:
                    index.lists[first + operator, CAPACITY] += 1


@kernel
def lay_out_lists(index: OpLists) -> int:
    """Give every list a place for its capacity and a little more; return the entries of all."""
    end = 0
    for b in range(index.used[BLOCKS]):
        for a in range(index.first_list.shape[1]):
            first = index.first_list[b, a]
            if first >= 0:
                for i in range(first, first + N_OPERATORS):
                    index.lists[i, START] = end
                    index.lists[i, CAPACITY] = capacity_for(index.lists[i, CAPACITY])
                    end += index.lists[i, CAPACITY]
    index.used[ENTRIES] = end
    return end


@kernel
def fill_entries(clauses: ClauseTable, slots: NDArray[np.int32], signature_bits: int, index: OpLists) -> None:
    """Write the entries of these clauses into lists that have the room, in any order, then sort every list."""
    for s in slots:
        b = int(np.int64(index.block_of_slot[s]))
        for p in range(clauses.start[s], counted_stop(clauses, s)):
            a = clauses.attribute[p]
            for operator in _entries_of(clauses.low[p], clauses.high[p]):
                if operator >= 0:
                    i = index.first_list[b, a] + operator
                    at = index.lists[i, START] + index.lists[i, LENGTH]
                    index.value[at] = clauses.high[p] if operator == HIGH else clauses.low[p]
                    index.place[at] = index.place_of_slot[s]
                    index.lists[i, LENGTH] += 1
                    index.block[b, SIGNATURE + operator] |= 1 << (a % signature_bits)
    for i in range(index.used[LISTS]):
        start = index.lists[i, START]
        stop = start + index.lists[i, LENGTH]
        order = np.argsort(index.value[start:stop], kind="mergesort")
        index.value[start:stop] = index.value[start:stop][order]
        index.place[start:stop] = index.place[start:stop][order]


# -- changing --------------------------------------------------------------------------------------------------


@kernel
def insert(
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    first: int,
    signature_bits: int,
    index: OpLists,
    out_need: NDArray[np.int64],
) -> int:
    """File clauses from slots[first] on; return the first that is not filed for lack of room.

    out_need has the blocks, places, lists and entries that its filing would need at most, all zero when all are filed.
    """
    out_need[:] = 0
    for i in range(first, slots.shape[0]):
        s = slots[i]
        pivot = rarest(clauses, s, index.frequency)
        b = _open_block(index, pivot)
        if not _has_room(clauses, s, b, index, out_need):
            return i
        out_need[:] = 0
        if b < 0:
            b = new_block(index, pivot)
        _take_place(clauses, s, b, index)
        for p in range(clauses.start[s], clauses.stop[s]):
            index.frequency[clauses.attribute[p]] += 1
        for p in range(clauses.start[s], counted_stop(clauses, s)):
            a = clauses.attribute[p]
            first_list = _lists_of(index, b, a)
            for operator in _entries_of(clauses.low[p], clauses.high[p]):
                if operator >= 0:
                    value = clauses.high[p] if operator == HIGH else clauses.low[p]
                    _add_entry(index, first_list + operator, value, index.place_of_slot[s])
                    index.block[b, SIGNATURE + operator] |= 1 << (a % signature_bits)
    return int(slots.shape[0])


@kernel
def _open_block(index: OpLists, pivot: int) -> int:
    """Return a block of the pivot that has room for one more clause, or -1."""
    b = int(np.int64(index.block_of_pivot[pivot]))
    while b >= 0 and index.block[b, LIVE] == BLOCK_CLAUSES:
        b = int(index.block[b, NEXT])
    return b


@kernel
def _has_room(clauses: ClauseTable, s: int, b: int, index: OpLists, out_need: NDArray[np.int64]) -> bool:
    """Say whether a clause can be filed with the room there is, and what it needs at most."""
    used = index.used
    out_need[0] = used[BLOCKS] + 1
    out_need[1] = used[PLACES] + (_more(index.block[b, ROOM]) if b >= 0 else _more(0))
    out_need[2] = used[LISTS]
    out_need[3] = used[ENTRIES]
    for p in range(clauses.start[s], counted_stop(clauses, s)):
        a = clauses.attribute[p]
        first = index.first_list[b, a] if b >= 0 else -1
        if first < 0:
            out_need[2] += N_OPERATORS
            out_need[3] += 2 * _more(0)
            continue
        for operator in _entries_of(clauses.low[p], clauses.high[p]):
            if operator >= 0 and index.lists[first + operator, LENGTH] == index.lists[first + operator, CAPACITY]:
                out_need[3] += _more(index.lists[first + operator, LENGTH])
    return bool(
        out_need[0] <= index.block.shape[0]
        and out_need[1] <= index.slot_of_place.shape[0]
        and out_need[2] <= index.lists.shape[0]
        and out_need[3] <= index.value.shape[0]
    )


@inlined
def _more(size: int) -> int:
    """Return the room for something that has outgrown this size."""
    return size + (size >> 1) + 4


@kernel
def new_block(index: OpLists, pivot: int) -> int:
    """Return a new block without clauses, first among those of its pivot."""
    b = index.used[BLOCKS]
    index.used[BLOCKS] += 1
    index.block[b, :] = 0
    index.block[b, PIVOT] = pivot
    index.block[b, NEXT] = index.block_of_pivot[pivot]
    index.block[b, FREE] = -1
    index.first_list[b, :] = -1
    index.block_of_pivot[pivot] = b
    return int(b)


@kernel
def _take_place(clauses: ClauseTable, s: int, b: int, index: OpLists) -> None:
    """Give a clause a place in block b, one that was given back if there is any."""
    fields = index.block[b]
    place = fields[FREE]
    if place >= 0:
        fields[FREE] = np.int64(index.slot_of_place[fields[FIRST] + place]) - 1
    else:
        place = fields[SIZE]
        if place == fields[ROOM]:
            _move_places(index, fields)
        fields[SIZE] += 1
    fields[LIVE] += 1
    points = 0
    for p in range(clauses.start[s], counted_stop(clauses, s)):
        points += clauses.low[p] == clauses.high[p]
    at = fields[FIRST] + place
    is_cut = clauses.stop[s] - clauses.start[s] > MOST_COUNTED
    index.slot_of_place[at] = np.uint32(s) | (CHECKED if is_cut else np.uint32(0))
    index.predicates[at] = counted_stop(clauses, s) - clauses.start[s]
    index.points[at] = points
    index.block_of_slot[s] = b
    index.place_of_slot[s] = place


@kernel
def _move_places(index: OpLists, fields: NDArray[np.int64]) -> None:
    """Give a full block more places, at the end."""
    first, room = index.used[PLACES], _more(fields[ROOM])
    for place in range(fields[SIZE]):
        index.slot_of_place[first + place] = index.slot_of_place[fields[FIRST] + place]
        index.predicates[first + place] = index.predicates[fields[FIRST] + place]
        index.points[first + place] = index.points[fields[FIRST] + place]
    fields[FIRST], fields[ROOM] = first, room
    index.used[PLACES] += room


@kernel
def _lists_of(index: OpLists, b: int, a: int) -> int:
    """Return the first list of an attribute in a block, made if it has none."""
    if index.first_list[b, a] < 0:
        first = index.used[LISTS]
        index.used[LISTS] += N_OPERATORS
        index.lists[first : first + N_OPERATORS, :] = 0
        index.first_list[b, a] = first
    return int(np.int64(index.first_list[b, a]))


@kernel
def _add_entry(index: OpLists, i: int, value: float, place: int) -> None:
    """Put an entry to its place in a sorted list, which moves to the end when it is full."""
    start, length = index.lists[i, START], index.lists[i, LENGTH]
    if length == index.lists[i, CAPACITY]:
        new, capacity = index.used[ENTRIES], _more(length)
        for at in range(length):
            index.value[new + at] = index.value[start + at]
            index.place[new + at] = index.place[start + at]
        index.used[ENTRIES] += capacity
        index.used[WASTED] += length
        index.lists[i, START], index.lists[i, CAPACITY] = new, capacity
        start = new
    at = _entries_below(index.value, start, length, value, True)
    _move(index, start + at, start + length, 1)
    index.value[start + at] = value
    index.place[start + at] = place
    index.lists[i, LENGTH] = length + 1


@kernel
def _move(index: OpLists, first: int, stop: int, by: int) -> None:
    """Move the entries first:stop up (1) or down (-1) by one place."""
    # By way of a small buffer: a loop that reads where it writes moves one entry at a time, these many at once.
    value, place = np.empty(_CHUNK), np.empty(_CHUNK, np.uint16)
    while first < stop:
        size = min(stop - first, _CHUNK)
        begin = stop - size if by > 0 else first
        for i in range(size):
            value[i] = index.value[begin + i]
            place[i] = index.place[begin + i]
        for i in range(size):
            index.value[begin + by + i] = value[i]
            index.place[begin + by + i] = place[i]
        if by > 0:
            stop -= size
        else:
            first += size


@kernel
def delete(clauses: ClauseTable, slots: NDArray[np.int32], signature_bits: int, index: OpLists) -> None:
    """Take out the clauses at `slots`: their entries, and their places, which the next clauses of a block take."""
    for s in slots:
        b = int(np.int64(index.block_of_slot[s]))
        if b < 0:
            continue
        for p in range(clauses.start[s], clauses.stop[s]):
            index.frequency[clauses.attribute[p]] -= 1
        for p in range(clauses.start[s], counted_stop(clauses, s)):
            a = clauses.attribute[p]
            for operator in _entries_of(clauses.low[p], clauses.high[p]):
                if operator >= 0:
                    i = index.first_list[b, a] + operator
                    value = clauses.high[p] if operator == HIGH else clauses.low[p]
                    _remove_entry(index, i, value, index.place_of_slot[s])
                    if index.lists[i, LENGTH] == 0:
                        _clear_bit(index, b, operator, a, signature_bits)
        fields = index.block[b]
        place = np.int64(index.place_of_slot[s])
        at = fields[FIRST] + place
        index.slot_of_place[at] = fields[FREE] + 1
        index.predicates[at] = index.points[at] = VACANT
        fields[FREE] = place
        fields[LIVE] -= 1
        index.block_of_slot[s] = -1


@kernel
def _remove_entry(index: OpLists, i: int, value: float, place: int) -> None:
    start, length = index.lists[i, START], index.lists[i, LENGTH]
    at = start + _entries_below(index.value, start, length, value, False)
    while index.place[at] != place:
        at += 1
    _move(index, at + 1, start + length, -1)
    index.lists[i, LENGTH] = length - 1


@inlined
def _clear_bit(index: OpLists, b: int, operator: int, a: int, signature_bits: int) -> None:
    """Clear a segment's bit if its last list has become empty."""
    for other in range(a % signature_bits, index.first_list.shape[1], signature_bits):
        first = index.first_list[b, other]
        if first >= 0 and index.lists[first + operator, LENGTH] > 0:
            return
    index.block[b, SIGNATURE + operator] &= ~(1 << (a % signature_bits))


@kernel
def compact(index: OpLists, out_value: NDArray[np.float64], out_place: NDArray[np.uint16]) -> None:
    """Copy all lists to the front of a new pool, each with a little room."""
    end = 0
    for i in range(index.used[LISTS]):
        start, length = index.lists[i, START], index.lists[i, LENGTH]
        out_value[end : end + length] = index.value[start : start + length]
        out_place[end : end + length] = index.place[start : start + length]
        index.lists[i, START] = end
        index.lists[i, CAPACITY] = capacity_for(length)
        end += capacity_for(length)
    index.used[ENTRIES] = end
    index.used[WASTED] = 0
