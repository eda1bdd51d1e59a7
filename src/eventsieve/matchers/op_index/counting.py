"""Matching by counting: runs of entries found by search, one counter per clause of a block."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch, trailing_zeros
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.op_index.layout import (
    BLOCK_CLAUSES,
    EQUAL,
    FIRST,
    HIGH,
    LENGTH,
    LIVE,
    LOW,
    N_OPERATORS,
    NEXT,
    SIGNATURE,
    SIZE,
    SLOT_BITS,
    START,
    OpLists,
)
from eventsieve.model.columns import ClauseTable, EventColumns

_NONE: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_ONES: Final = np.uint64(0x0101_0101_0101_0101)
_PLUS_ONE: Final = np.uint8(1)
_MINUS_ONE: Final = np.uint8(255)
"""Counters are bytes and wrap."""
_TOPS: Final = np.uint64(0x8080_8080_8080_8080)


class Searches(NamedTuple):
    """Searches in the lists of one block, by operator. Search i is for the entries below wanted[i]."""

    start: NDArray[np.uint64]  # (4 * n_attributes,): where the list begins
    length: NDArray[np.uint64]
    found: NDArray[np.uint64]  # what lies before it is below; in the end, the first entry that is not
    left: NDArray[np.uint64]  # entries that are still in question
    wanted: NDArray[np.float64]
    equal_too: NDArray[np.bool_]
    stop: NDArray[np.int64]  # (N_OPERATORS,): where the searches of an operator end


class Scratch(NamedTuple):
    """One event, one block's counters, and the runs of entries to count."""

    value: NDArray[np.float64]  # (n_attributes,): NaN where there is no value
    segment_start: NDArray[np.int64]  # (signature_bits + 1,)
    segment_attribute: NDArray[np.int32]  # the event's attributes by segment
    counter: NDArray[np.uint8]  # (BLOCK_CLAUSES,)
    counter_as_words: NDArray[np.uint64]  # the same memory, eight at a time
    searches: Searches


def new_scratch(n_attributes: int, signature_bits: int) -> Scratch:
    """Return scratch for one batch."""
    counter = np.zeros(BLOCK_CLAUSES, np.uint8)
    most = (N_OPERATORS + 1) * n_attributes
    return Scratch(
        np.full(n_attributes, np.nan),
        np.zeros(signature_bits + 1, np.int64),
        np.zeros(n_attributes, np.int32),
        counter,
        counter.view(np.uint64),
        Searches(
            np.zeros(most, np.uint64),
            np.zeros(most, np.uint64),
            np.zeros(most, np.uint64),
            np.zeros(most, np.uint64),
            np.zeros(most),
            np.zeros(most, np.bool_),
            np.zeros(N_OPERATORS, np.int64),
        ),
    )


@inlined
def _take_up(events: EventColumns, e: int, signature_bits: int, scratch: Scratch) -> np.uint64:
    """Spread out an event and sort its attributes into segments; return its signature."""
    begin, stop = events.start[e], events.start[e + 1]
    start = scratch.segment_start
    start[:] = 0
    signature = _NONE
    for i in range(begin, stop):
        a = events.attribute[i]
        scratch.value[a] = events.value[i]
        start[a % signature_bits + 1] += 1
        signature |= _ONE << np.uint64(a % signature_bits)
    for segment in range(signature_bits):
        start[segment + 1] += start[segment]
    # Filled from behind: each segment's end comes down to its beginning.
    for i in range(begin, stop):
        a = events.attribute[i]
        start[a % signature_bits + 1] -= 1
        scratch.segment_attribute[start[a % signature_bits + 1]] = a
    for segment in range(signature_bits):
        start[segment] = start[segment + 1]
    start[signature_bits] = stop - begin
    return signature


@kernel
def _list_searches(index: OpLists, b: int, signature: np.uint64, scratch: Scratch) -> None:
    """Note the searches that an event asks for in the lists of a block: two ends of a run of equal values, and one
    place each in the lists of low and high ends."""
    searches = scratch.searches
    n = 0
    for operator in range(N_OPERATORS):
        left = np.uint64(index.block[b, SIGNATURE + operator]) & signature
        while left != _NONE:
            segment = trailing_zeros(left)
            left &= left - _ONE
            for i in range(scratch.segment_start[segment], scratch.segment_start[segment + 1]):
                a = scratch.segment_attribute[i]
                first = np.int64(index.first_list[b, a])
                if first < 0 or index.lists[first + operator, LENGTH] == 0:
                    continue
                start, length = index.lists[first + operator, START], index.lists[first + operator, LENGTH]
                for end in range(2 if operator == EQUAL else 1):
                    searches.start[n] = searches.found[n] = start
                    searches.length[n] = searches.left[n] = length
                    searches.wanted[n] = scratch.value[a]
                    # What equals the value counts as below it where a run of equal values ends, and for low ends.
                    searches.equal_too[n] = end == 1 or operator == LOW
                    n += 1
        searches.stop[operator] = n


@kernel
def _search(value: NDArray[np.float64], place: NDArray[np.uint16], searches: Searches) -> None:
    """Halve what is left of all lists in step, so that the fetches of one do not wait for those of another."""
    n = searches.stop[HIGH]
    longest = 1
    for i in range(n):
        longest = max(longest, int(np.int64(searches.length[i])))
    while longest > 1:
        for i in range(n):
            half = searches.left[i] >> _ONE
            # With one value left there is nothing to halve; it is read once more, and nothing moves.
            at = searches.found[i] + half - np.uint64(half > _NONE)
            searches.found[i] += half * _is_below(value[at], searches.wanted[i], searches.equal_too[i])
            searches.left[i] -= half
        longest -= longest >> 1
    for i in range(n):
        last = value[searches.found[i]]
        searches.found[i] += _is_below(last, searches.wanted[i], searches.equal_too[i])
        # Runs are short and far apart. Fetching their beginnings now hides most of the wait.
        prefetch(place, int(np.int64(searches.start[i])))
        prefetch(place, int(np.int64(searches.found[i])))


@inlined
def _is_below(value: float, wanted: float, equal_too: bool) -> np.uint64:
    return np.uint64((value < wanted) | ((value == wanted) & equal_too))


@kernel
def _failures_are_fewer(index: OpLists, b: int, scratch: Scratch) -> bool:
    """Say whether fewer low ends fail than hold, those on attributes that the event lacks among the failures."""
    searches = scratch.searches
    holds = fails = 0
    for i in range(searches.stop[EQUAL], searches.stop[LOW]):
        held = int(np.int64(searches.found[i] - searches.start[i]))
        holds += held
        fails += int(np.int64(searches.length[i])) - held
    if fails < holds:
        for a in range(scratch.value.shape[0]):
            first = index.first_list[b, a]
            if first >= 0 and np.isnan(scratch.value[a]):
                fails += index.lists[first + LOW, LENGTH]
    return bool(fails < holds)


@inlined
def _add(
    place: NDArray[np.uint16], start: np.uint64, stop: np.uint64, change: np.uint8, counter: NDArray[np.uint8]
) -> None:
    """Change the counters of a run of entries. Unsigned positions spare the check for negative ones."""
    for at in range(start, stop):
        counter[place[at]] += change


@kernel
def _count(index: OpLists, b: int, by_failures: bool, scratch: Scratch) -> None:
    """Bring the counters of a block to the number of unmet predicates of each clause."""
    counter, place, searches = scratch.counter, index.place, scratch.searches
    first, size = index.block[b, FIRST], index.block[b, SIZE]
    template = index.points if by_failures else index.predicates
    begin = template[first : first + size]
    for at in range(size):  # four times as fast as assigning the slice
        counter[at] = begin[at]
    for i in range(0, searches.stop[EQUAL], 2):
        _add(place, searches.found[i], searches.found[i + 1], _MINUS_ONE, counter)
    for i in range(searches.stop[LOW], searches.stop[HIGH]):
        _add(place, searches.start[i], searches.found[i], _PLUS_ONE, counter)
    for i in range(searches.stop[EQUAL], searches.stop[LOW]):
        if by_failures:
            _add(place, searches.found[i], searches.start[i] + searches.length[i], _PLUS_ONE, counter)
        else:
            _add(place, searches.start[i], searches.found[i], _MINUS_ONE, counter)
    if by_failures:
        for a in range(scratch.value.shape[0]):
            absent = index.first_list[b, a]
            if absent >= 0 and np.isnan(scratch.value[a]):
                start = np.uint64(index.lists[absent + LOW, START])
                _add(place, start, start + np.uint64(index.lists[absent + LOW, LENGTH]), _PLUS_ONE, counter)


@kernel
def _report(
    clauses: ClauseTable, index: OpLists, b: int, scratch: Scratch, end: int, out_slots: NDArray[np.int32]
) -> int:
    """Write the clauses of a block whose counter is 0 from out_slots[end] on; return the new end."""
    first, size = index.block[b, FIRST], index.block[b, SIZE]
    n_words = (size + 7) >> 3
    for place in range(size, 8 * n_words):
        scratch.counter[place] = 1
    begin = end
    for w in range(n_words):
        word = scratch.counter_as_words[w]
        # A borrow may also mark a 1 above a 0: only a byte that is 0 itself moves the end.
        marked = (word - _ONES) & ~word & _TOPS
        while marked != _NONE:
            place = 8 * w + (trailing_zeros(marked) >> 3)
            marked &= marked - _ONE
            out_slots[end] = first + place
            end += scratch.counter[place] == 0
    # In a loop of their own, the look-ups do not wait for each other.
    n_found, end = end, begin
    for i in range(begin, n_found):
        slot = index.slot_of_place[out_slots[i]]
        s = slot & SLOT_BITS
        out_slots[end] = s
        end += slot == s or clause_holds(clauses, int(np.int64(s)), scratch.value)
    return end


@kernel
def match(
    clauses: ClauseTable,
    index: OpLists,
    signature_bits: int,
    fewer: bool,
    events: EventColumns,
    first: int,
    scratch: Scratch,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on while an event's worst case fits; return the first that was not matched."""
    n_slots = clauses.start.shape[0]
    end = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - end < n_slots:
            return e
        signature = _take_up(events, e, signature_bits, scratch)
        begin = end
        for i in range(events.start[e], events.start[e + 1]):
            b = int(np.int64(index.block_of_pivot[events.attribute[i]]))
            while b >= 0:
                if index.block[b, LIVE] > 0:
                    _list_searches(index, b, signature, scratch)
                    _search(index.value, index.place, scratch.searches)
                    by_failures = fewer and _failures_are_fewer(index, b, scratch)
                    _count(index, b, by_failures, scratch)
                    end = _report(clauses, index, b, scratch, end, out_slots)
                b = int(index.block[b, NEXT])
        out_count[e] = end - begin
        for i in range(events.start[e], events.start[e + 1]):
            scratch.value[events.attribute[i]] = np.nan
    return int(events.start.shape[0] - 1)
