"""Blocks by masks of events: for each clause the events that hold, then turned into the clauses of each event.

A clause takes the AND over its predicates of the events within their intervals (`masks.py`). It costs the same however
many of the events look into the block, and tells exactly who matches: codes decide, and the few events that share a
code with an end are held against the clause table. The lines of a block's 512 clauses are a square of bits, which is
transposed, 64 by 64. Squares of some blocks are listed together: so each event has a few long runs of matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, trailing_zeros
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_xor_lines, exchange_bits
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.masks import code_at, line_number, rank_below, rank_up_to
from eventsieve.matchers.sieve.order import BLOCK
from eventsieve.matchers.sieve.predicates import FIELDS

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.masks import EventMasks
    from eventsieve.matchers.sieve.predicates import Predicates
    from eventsieve.matchers.sieve.search import SieveIndex

BLOCKS_AT_ONCE: Final = 8
_GROUPS: Final = BLOCK // WORD_BITS
"""Of 64 clauses, in a square."""
_GROUP_WORDS: Final = (WORD_BITS + 1) * LINE_WORDS
"""Words from a group to the next. A line is left out, or the lines of an event would all want the same place of the
cache."""
_SQUARE_WORDS: Final = _GROUPS * _GROUP_WORDS
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_FIELDS: Final = np.uint64(FIELDS)
_LAST_BIT: Final = np.uint64(1 << 63)
_LOWER_HALF: Final = np.uint64((1 << 32) - 1)


class _Ties(NamedTuple):
    """Predicates with an end that has the code of some event: scratch."""

    place: NDArray[np.int32]  # of the clause
    predicate: NDArray[np.int64]


@kernel
def match_blocks(
    index: SieveIndex,
    codes: EventCodes,
    masks: EventMasks,
    n_blocks: int,
    part: int,
    n_parts: int,
    used: int,
    out: Found,
) -> int:
    """List all matches in a part of the first blocks; return how many there are then, or -1 if there is no room."""
    squares = np.empty(BLOCKS_AT_ONCE * _SQUARE_WORDS, np.uint64)
    slots = np.zeros(BLOCKS_AT_ONCE * BLOCK, np.int32)
    dense = False
    for block in range(part * BLOCKS_AT_ONCE, n_blocks, n_parts * BLOCKS_AT_ONCE):
        n = min(BLOCKS_AT_ONCE, n_blocks - block)
        for j in range(n):
            _fill(index, codes, masks, block + j, squares[j * _SQUARE_WORDS : (j + 1) * _SQUARE_WORDS])
        some = index.slot_of_position[block * BLOCK : (block + n) * BLOCK]
        slots[: some.shape[0]] = some
        before = used
        used = _list_clauses(slots, masks, squares[: n * _SQUARE_WORDS], dense, used, out)
        if used < 0:
            return -1
        # More matches than words: what was so here will be so next.
        dense = used - before > n * BLOCK * masks.n_events // WORD_BITS
    return used


@kernel
def _fill(index: SieveIndex, codes: EventCodes, masks: EventMasks, block: int, square: NDArray[np.uint64]) -> None:
    """Find the matches of a block, as a transposed square."""
    predicates = index.predicates
    first, stop = block * BLOCK, min((block + 1) * BLOCK, predicates.span.shape[0] // 2)
    n_predicates = 0
    for position in range(first, stop):
        n_predicates += predicates.span[2 * position + 1] - predicates.span[2 * position]
    ties = _Ties(np.empty(n_predicates + 1, np.int32), np.empty(n_predicates + 1, np.int64))
    square[_line(stop - first) :] = _ZERO
    n_ties = _find_events(predicates, masks.below, masks.code, masks.line, first, stop, square, ties)
    if not masks.decided:
        _settle(index, codes, masks, block, square, ties.place[:n_ties], ties.predicate[:n_ties])
    for group in range(_GROUPS):
        _transpose(square, group * _GROUP_WORDS)


@inlined
def _line(place: int) -> int:
    """Return where the line of a clause begins in a square."""
    return (place + place // WORD_BITS) * LINE_WORDS


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
        line = _line(position - first)
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
        slot, line = index.slot_of_position[block * BLOCK + places[i]], _line(places[i])
        a = predicate_code[FIELDS * tied[i]]
        for end in (predicate_code[FIELDS * tied[i] + 1], predicate_code[FIELDS * tied[i] + 2]):
            first = line_number(a, rank_below(below, code, a, end))
            last = line_number(a, rank_up_to(below, code, a, end))
            for w in range(LINE_WORDS):
                word = square[line + w] & (lines[first + w] ^ lines[last + w])
                while word != _ZERO:
                    e = w * WORD_BITS + trailing_zeros(word)
                    if not clause_holds(index.clauses, slot, codes.value[masks.first + e]):
                        square[line + w] &= ~(word & (~word + _ONE))
                    word &= word - _ONE


@kernel
def _transpose(square: NDArray[np.uint64], first: int) -> None:
    """Transpose eight squares of 64 by 64 bits: word w of 64 lines each."""
    distance, half = WORD_BITS // 2, _LOWER_HALF
    while distance:
        for begin in range(first, first + WORD_BITS * LINE_WORDS, 2 * distance * LINE_WORDS):
            for line in range(begin, begin + distance * LINE_WORDS, LINE_WORDS):
                exchange_bits(square, line, line + distance * LINE_WORDS, np.uint64(distance), half)
        distance >>= 1
        half ^= half << np.uint64(distance)


@kernel
def _list_clauses(
    slots: NDArray[np.int32], masks: EventMasks, squares: NDArray[np.uint64], dense: bool, used: int, out: Found
) -> int:
    """List the matches of transposed squares, event by event; most words have some if they are dense."""
    out_slot = out.slot
    room = out_slot.shape[0] - BITS_AT_ONCE
    n_groups = squares.shape[0] // _GROUP_WORDS
    for line in range(WORD_BITS):
        # Events of the same line one after the other: it is in the cache then.
        for w in range(LINE_WORDS):
            e = w * WORD_BITS + line
            if e >= masks.n_events:
                break
            at = line * LINE_WORDS + w
            if used + n_groups * WORD_BITS > room and used + _n_matches(squares, at) > room:
                return -1
            n = np.uint64(used)
            for group in range(n_groups):
                word = squares[np.uint64(group * _GROUP_WORDS + at)]
                place, after = np.uint64(group * WORD_BITS), n + np.uint64(popcount(word))
                if (word != _ZERO) | dense:
                    # Some at a time, whether a word has them or not: cheaper than to guess wrong where to stop.
                    for k in range(BITS_AT_ONCE):
                        out_slot[n + np.uint64(k)] = slots[place + np.uint64(trailing_zeros(word | _LAST_BIT))]
                        word &= word - _ONE
                    for i in range(n + np.uint64(BITS_AT_ONCE), after):
                        out_slot[i] = slots[place + np.uint64(trailing_zeros(word))]
                        word &= word - _ONE
                n = after
            used = int(np.int64(n))
            end_run(out, masks.first + e, used)
    return used


@inlined
def _n_matches(squares: NDArray[np.uint64], at: int) -> int:
    n = 0
    for word in range(at, squares.shape[0], _GROUP_WORDS):
        n += popcount(squares[word])
    return n
