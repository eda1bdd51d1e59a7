"""Blocks by masks of events: for each clause the events that hold, then turned into the clauses of each event.

A clause takes the AND over its predicates of the events within their intervals (`masks.py`). It costs the same however
many of the events look into the block, and tells exactly who matches: codes decide, and the few events that share a
code with an end are held against the clause table. The lines of a block's 512 clauses are a square of bits, which is
transposed, 64 by 64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, trailing_zeros
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_xor_lines, exchange_bits
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.masks import code_at, line_number, rank_below, rank_up_to
from eventsieve.matchers.sieve.order import BLOCK
from eventsieve.matchers.sieve.predicates import FIELDS, holds_exactly

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.masks import EventMasks
    from eventsieve.matchers.sieve.predicates import Predicates
    from eventsieve.matchers.sieve.search import SieveIndex

SQUARE_WORDS: Final = BLOCK * LINE_WORDS
_WORD_LINES: Final = WORD_BITS * LINE_WORDS
"""Words from one 64 clauses to the next."""
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_FIELDS: Final = np.uint64(FIELDS)
_LAST_BIT: Final = np.uint64(1 << 63)
_LOWER_HALF: Final = np.uint64((1 << 32) - 1)


class _Ties(NamedTuple):
    """Predicates with an end that has the code of some event: scratch."""

    place: NDArray[np.int32]  # of the clause
    predicate: NDArray[np.int64]


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
    predicates = index.predicates
    first, stop = block * BLOCK, min((block + 1) * BLOCK, predicates.span.shape[0] // 2)
    n_predicates = 0
    for position in range(first, stop):
        n_predicates += predicates.span[2 * position + 1] - predicates.span[2 * position]
    ties = _Ties(np.empty(n_predicates + 1, np.int32), np.empty(n_predicates + 1, np.int64))
    square[(stop - first) * LINE_WORDS :] = _ZERO
    n_ties = _find_events(predicates, masks.below, masks.code, masks.line, first, stop, square, ties)
    if not masks.decided:
        _settle(index, codes, masks, block, square, ties.place[:n_ties], ties.predicate[:n_ties])
    for line in range(0, SQUARE_WORDS, _WORD_LINES):
        _transpose(square, line)
    return _list_clauses(index.slot_of_position, masks, block, square, used, out)


@kernel
def _find_events(
    predicates: Predicates,
    below: NDArray[np.uint16],
    code: NDArray[np.int32],
    lines: NDArray[np.uint64],
    first: int,
    stop: int,
    square: NDArray[np.uint64],
    ties: _Ties,
) -> int:
    """Fill the square, a line for each clause from position `first` on: the events that its codes hold for.

    Return how many predicates have ties. They are noted without a branch: most guesses about them would be wrong.
    """
    span, predicate_code = predicates.span, predicates.code
    tie_place, tie_predicate = ties.place, ties.predicate
    n_ties = 0
    for position in range(first, stop):
        begin, end = np.uint64(span[2 * position]), np.uint64(span[2 * position + 1])
        line = (position - first) * LINE_WORDS
        everybody = ~_ZERO if end > begin else _ZERO
        for w in range(line, line + LINE_WORDS):
            square[w] = everybody
        for p in range(begin, end):
            at = p * _FIELDS
            a, low, high = predicate_code[at], predicate_code[at + _ONE], predicate_code[at + _TWO]
            lowest, beyond = rank_below(below, code, a, low), rank_up_to(below, code, a, high)
            and_xor_lines(lines, line_number(a, lowest), line_number(a, beyond), square, line)
            tie_place[n_ties], tie_predicate[n_ties] = position - first, p
            n_ties += (code_at(code, a, lowest + _ONE) == low) | (code_at(code, a, beyond) == high)
    return n_ties


@kernel
def _settle(
    index: SieveIndex,
    codes: EventCodes,
    masks: EventMasks,
    block: int,
    square: NDArray[np.uint64],
    places: NDArray[np.int32],
    tied: NDArray[np.int64],
) -> None:
    """Hold events that have the code of an end against the clause table, and take out whom it does not confirm."""
    below, code, lines, predicate_code = masks.below, masks.code, masks.line, index.predicates.code
    for i in range(places.shape[0]):
        slot = index.slot_of_position[block * BLOCK + places[i]]
        a = predicate_code[FIELDS * tied[i]]
        for end in (predicate_code[FIELDS * tied[i] + 1], predicate_code[FIELDS * tied[i] + 2]):
            first = line_number(a, rank_below(below, code, a, end))
            last = line_number(a, rank_up_to(below, code, a, end))
            for w in range(LINE_WORDS):
                word = square[places[i] * LINE_WORDS + w] & (lines[first + w] ^ lines[last + w])
                while word != _ZERO:
                    e = w * WORD_BITS + trailing_zeros(word)
                    if not holds_exactly(index.clauses, slot, codes.value, masks.first + e):
                        square[places[i] * LINE_WORDS + w] &= ~(word & (~word + _ONE))
                    word &= word - _ONE


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
