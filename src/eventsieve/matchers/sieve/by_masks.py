"""Blocks by masks of events: for each clause the events that hold, then turned into the clauses of each event.

A clause takes the AND over its predicates of the events within their intervals (`masks.py`). It costs the same however
many of the events look into the block, and tells exactly who matches: codes decide, and the few events that share a
code with an end are held against the clause table. The lines of a block's 512 clauses are a square of bits, which is
transposed, 64 by 64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, trailing_zeros
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_xor_lines, exchange_bits
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.masks import LINES, code_at, rank_below, rank_up_to
from eventsieve.matchers.sieve.order import BLOCK
from eventsieve.matchers.sieve.predicates import FIELDS, holds_exactly

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.masks import EventMasks
    from eventsieve.matchers.sieve.search import SieveIndex

SQUARE_WORDS: Final = BLOCK * LINE_WORDS
_WORD_LINES: Final = WORD_BITS * LINE_WORDS
"""Words from one 64 clauses to the next."""
_ZERO, _ONE, _TWO, _THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(FIELDS)
_LINE: Final = np.uint64(LINE_WORDS)
_ATTRIBUTE_WORDS: Final = np.uint64(LINES * LINE_WORDS)
_LAST_BIT: Final = np.uint64(1 << 63)
_LOWER_HALF: Final = np.uint64((1 << 32) - 1)


@kernel
def match_block(
    index: SieveIndex,
    codes: EventCodes,
    masks: EventMasks,
    block: int,
    square: NDArray[np.uint64],
    used: int,
    out: Found,
) -> int:
    """List all matches of a block; return how many matches there are then, or -1 if there is no room."""
    _find_events(index, codes, masks, block, square)
    for first in range(0, SQUARE_WORDS, _WORD_LINES):
        _transpose(square, first)
    return _list_clauses(index.slot_of_position, masks, block, square, used, out)


@kernel
def _find_events(
    index: SieveIndex, codes: EventCodes, masks: EventMasks, block: int, square: NDArray[np.uint64]
) -> None:
    """Fill the square: line c has the events that the clause at the block's place c holds for."""
    span, predicate_code = index.predicates.span, index.predicates.code
    below, code, lines, decided = masks.below, masks.code, masks.line, masks.decided
    doubt = np.zeros(LINE_WORDS, np.uint64)
    for c in range(min(BLOCK, span.shape[0] // 2 - block * BLOCK), BLOCK):
        square[c * LINE_WORDS : (c + 1) * LINE_WORDS] = _ZERO
    for c in range(min(BLOCK, span.shape[0] // 2 - block * BLOCK)):
        position = block * BLOCK + c
        at, stop = np.uint64(span[2 * position]) * _THREE, np.uint64(span[2 * position + 1]) * _THREE
        everybody = ~_ZERO if stop > at else _ZERO
        for w in range(c * LINE_WORDS, (c + 1) * LINE_WORDS):
            square[w] = everybody
        doubtful = False
        while at < stop:
            a, low, high = (
                np.uint64(predicate_code[at]),
                np.uint64(predicate_code[at + _ONE]),
                np.uint64(predicate_code[at + _TWO]),
            )
            first, last = rank_below(below, code, a, low), rank_up_to(below, code, a, high)
            begin = a * _ATTRIBUTE_WORDS
            and_xor_lines(
                lines, np.int64(begin + first * _LINE), np.int64(begin + last * _LINE), square, c * LINE_WORDS
            )
            ties = (code_at(code, a, first + _ONE) == np.int64(low)) | (code_at(code, a, last) == np.int64(high))
            if ties & (not decided):
                _note_ties(masks, a, low, high, doubt)
                doubtful = True
            at += _THREE
        if doubtful:
            _settle(index, codes, masks, position, doubt, square[c * LINE_WORDS : (c + 1) * LINE_WORDS])


@kernel
def _note_ties(masks: EventMasks, a: np.uint64, low: np.uint64, high: np.uint64, doubt: NDArray[np.uint64]) -> None:
    """Add the events that have the code of an end."""
    for end in (low, high):
        first, last = rank_below(masks.below, masks.code, a, end), rank_up_to(masks.below, masks.code, a, end)
        begin = a * _ATTRIBUTE_WORDS
        for w in range(LINE_WORDS):
            word = np.uint64(w)
            doubt[word] |= masks.line[begin + first * _LINE + word] ^ masks.line[begin + last * _LINE + word]


@kernel
def _settle(
    index: SieveIndex,
    codes: EventCodes,
    masks: EventMasks,
    position: int,
    doubt: NDArray[np.uint64],
    line: NDArray[np.uint64],
) -> None:
    """Take out of a clause's events those that only seemed to match; forget the doubt."""
    slot = index.slot_of_position[position]
    for w in range(LINE_WORDS):
        word = line[w] & doubt[w]
        while word != _ZERO:
            e = w * WORD_BITS + trailing_zeros(word)
            if not holds_exactly(index.clauses, slot, codes.value, masks.first + e):
                line[w] &= ~(word & (~word + _ONE))
            word &= word - _ONE
        doubt[w] = _ZERO


@kernel
def _transpose(square: NDArray[np.uint64], first: int) -> None:
    """Transpose eight squares of 64 by 64 bits: word w of 64 lines each."""
    distance, half = WORD_BITS // 2, _LOWER_HALF
    while distance:
        for begin in range(first, first + _WORD_LINES, 2 * distance * LINE_WORDS):
            for line in range(begin, begin + distance * LINE_WORDS, LINE_WORDS):
                exchange_bits(square, line, line + distance * LINE_WORDS, np.uint64(distance), half)
        distance >>= 1
        half ^= half << np.uint64(distance)


@kernel
def _list_clauses(
    slot_of_position: NDArray[np.int32],
    masks: EventMasks,
    block: int,
    square: NDArray[np.uint64],
    used: int,
    out: Found,
) -> int:
    """List the matches of a transposed square, event by event."""
    slots = np.zeros(BLOCK, np.int32)
    for position in range(block * BLOCK, min((block + 1) * BLOCK, slot_of_position.shape[0])):
        slots[position - block * BLOCK] = slot_of_position[position]
    out_slot = out.slot
    room = out_slot.shape[0] - BITS_AT_ONCE
    for e in range(masks.n_events):
        if used + BLOCK > room and used + _n_matches(square, e) > room:
            return -1
        n = np.uint64(used)
        for group in range(BLOCK // WORD_BITS):
            word = square[np.uint64(group * _WORD_LINES + e % WORD_BITS * LINE_WORDS + e // WORD_BITS)]
            place, before = np.uint64(group * WORD_BITS), n
            n += np.uint64(popcount(word))
            while word != _ZERO:
                # Some at a time, whether a word has them or not: cheaper than to guess wrong where to stop.
                for k in range(BITS_AT_ONCE):
                    out_slot[before + np.uint64(k)] = slots[place + np.uint64(trailing_zeros(word | _LAST_BIT))]
                    word &= word - _ONE
                before += np.uint64(BITS_AT_ONCE)
        used = int(np.int64(n))
        end_run(out, e + masks.first, used)
    return used


@inlined
def _n_matches(square: NDArray[np.uint64], e: int) -> int:
    n = 0
    for group in range(BLOCK // WORD_BITS):
        n += popcount(square[group * _WORD_LINES + e % WORD_BITS * LINE_WORDS + e // WORD_BITS])
    return n
