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
        np.empty(n_attributes * _BUCKETS, np.uint16),
        np.zeros(n_attributes * _LINES * LINE_WORDS, np.uint64),
        bool(np.all(codes.whole[first : first + n_events])),
    )
    for a in range(n_attributes):
        _sort_events(codes.by_attribute[a, first : first + n_events], a, masks)
    return masks


@kernel
def _sort_events(code: NDArray[np.int32], a: int, masks: EventMasks) -> None:
    """Fill in an attribute."""
    order = np.argsort(code)
    ranked = masks.code[a * _CODES : (a + 1) * _CODES]
    lines = masks.line[a * _LINES * LINE_WORDS : (a + 1) * _LINES * LINE_WORDS]
    ranked[0] = ABSENT
    n = 0
    for e in order:
        if code[e] == ABSENT:
            continue
        for w in range(LINE_WORDS):
            lines[(n + 1) * LINE_WORDS + w] = lines[n * LINE_WORDS + w]
        lines[(n + 1) * LINE_WORDS + e // WORD_BITS] |= _ONE << np.uint64(e % WORD_BITS)
        n += 1
        ranked[n] = code[e]
    rank = 0
    for bucket in range(_BUCKETS):
        while ranked[rank + 1] < bucket << np.int64(_BUCKET_BITS):
            rank += 1
        masks.below[a * _BUCKETS + bucket] = rank


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
