"""Events turned round: for each attribute, which events lie below a value, as lines of bits.

Events that have an attribute are sorted by its code. Line i of the attribute has the bits of the first i of them, so
the events within an interval are the XOR of two lines. Which two is found from tables: how many codes lie below the
first one of each bucket of 16, and from there a step or two along the sorted codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS
from eventsieve.matchers.sieve.predicates import ABSENT, LAST_CODE

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes

MASK_EVENTS: Final = LINE_WORDS * WORD_BITS
"""Events of a line."""
_BUCKET_BITS: Final = np.uint64(4)
_BUCKETS: Final = (LAST_CODE >> 4) + 1
_CODES: Final = MASK_EVENTS + 2
_LINES: Final = MASK_EVENTS + 1
"""Lines of an attribute: none of the events up to all of them."""
_ONE: Final = np.uint64(1)
_WORD_SHIFT: Final = np.uint64(6)
_LOW_BITS: Final = np.uint64(63)


class EventMasks(NamedTuple):
    """Up to MASK_EVENTS events of a batch, by attribute; all arrays are flat."""

    first: int  # the event of the batch that has bit 0
    n_events: int
    code: NDArray[np.int32]  # (n_attributes * _CODES,), ABSENT, then the codes by rising order, then one above all
    below: NDArray[np.uint16]  # (n_attributes * _BUCKETS,), how many codes lie below a bucket
    line: NDArray[np.uint64]  # (n_attributes * _LINES * 8,)
    decided: bool  # no event can be told from an end of the same code by more than its code


@kernel
def masks_of(codes: EventCodes, first: int, n_events: int) -> EventMasks:
    """Return the masks of some events."""
    n_attributes = codes.value.shape[1]
    masks = EventMasks(
        first,
        n_events,
        np.full(n_attributes * _CODES, LAST_CODE + 1, np.int32),
        np.zeros(n_attributes * _BUCKETS, np.uint16),
        np.zeros(n_attributes * _LINES * LINE_WORDS, np.uint64),
        bool(np.all(codes.whole[first : first + n_events])),
    )
    order = np.empty(MASK_EVENTS, np.uint16)
    for a in range(n_attributes):
        code = codes.by_attribute[a, first : first + n_events]
        ranked = masks.code[a * _CODES : (a + 1) * _CODES]
        n = _sort_events(code, masks.below[a * _BUCKETS : (a + 1) * _BUCKETS], ranked[1:], order)
        ranked[0] = ABSENT
        _write_lines(order[:n], masks.line[a * _LINES * LINE_WORDS : (a + 1) * _LINES * LINE_WORDS])
    return masks


@kernel
def _sort_events(
    code: NDArray[np.int32], below: NDArray[np.uint16], ranked: NDArray[np.int32], order: NDArray[np.uint16]
) -> int:
    """Sort the events that have an attribute by their codes; return how many there are."""
    n = 0
    for e in range(code.shape[0]):
        if code[e] != ABSENT:
            below[np.uint64(code[e]) >> _BUCKET_BITS] += np.uint16(1)
            n += 1
    # From behind, each bucket's number becomes that of the events below the next one, and counts down to its own.
    behind = n
    for bucket in range(_BUCKETS - 1, -1, -1):
        count = int(below[bucket])
        below[bucket] = behind
        behind -= count
    for e in range(code.shape[0]):
        if code[e] != ABSENT:
            own = np.uint64(code[e]) >> _BUCKET_BITS
            below[own] -= np.uint16(1)
            at = int(below[own])
            while ranked[at + 1] < code[e]:
                # Others of the bucket stand from here on, by rising code.
                ranked[at], order[at] = ranked[at + 1], order[at + 1]
                at += 1
            ranked[at], order[at] = code[e], e
    return n


@kernel
def _write_lines(order: NDArray[np.uint16], lines: NDArray[np.uint64]) -> None:
    """Write a line for each number of events, from none to all in their order."""
    for i in range(order.shape[0]):
        for w in range(LINE_WORDS):
            lines[(i + 1) * LINE_WORDS + w] = lines[i * LINE_WORDS + w]
        e = np.uint64(order[i])
        lines[np.uint64((i + 1) * LINE_WORDS) + (e >> _WORD_SHIFT)] |= _ONE << (e & _LOW_BITS)


# Below, all numbers are unsigned: signed ones might be negative, and to find out takes a branch each time.


@inlined
def rank_below(below: NDArray[np.uint16], code: NDArray[np.int32], a: int, end: int) -> np.uint64:
    """Return how many events have a code below `end`."""
    rank = np.uint64(below[np.uint64(a) * np.uint64(_BUCKETS) + (np.uint64(end) >> _BUCKET_BITS)])
    while code[np.uint64(a) * np.uint64(_CODES) + rank + _ONE] < np.int32(end):
        rank += _ONE
    return rank


@inlined
def rank_up_to(below: NDArray[np.uint16], code: NDArray[np.int32], a: int, end: int) -> np.uint64:
    """Return how many events have a code up to `end`."""
    rank = np.uint64(below[np.uint64(a) * np.uint64(_BUCKETS) + (np.uint64(end) >> _BUCKET_BITS)])
    while code[np.uint64(a) * np.uint64(_CODES) + rank + _ONE] <= np.int32(end):
        rank += _ONE
    return rank


@inlined
def code_at(code: NDArray[np.int32], a: int, rank: np.uint64) -> int:
    """Return the code of the event with a rank, counted from 1; ABSENT for rank 0."""
    return int(code[np.uint64(a) * np.uint64(_CODES) + rank])


@inlined
def line_number(a: int, rank: np.uint64) -> int:
    """Return where the line of the first `rank` events begins."""
    return int((np.uint64(a) * np.uint64(_LINES) + rank) * np.uint64(LINE_WORDS))
