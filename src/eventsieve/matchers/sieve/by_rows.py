"""Visits by rows of bits: rows are ANDed, what is certain is listed, and the rest is held against its predicates.

While the rows of one visit are ANDed, those of the visits to come are on their way.

In loops that run often, conditions are joined by | and &, and arrays are taken out of their bundles first: across the
branch of an `or`, the compiler counts references to every array of a bundle, five times the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, prefetch, trailing_zeros
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_four_lines
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.order import BLOCK, SHARED
from eventsieve.matchers.sieve.predicates import FIELDS, holds_exactly

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.layout import Rows
    from eventsieve.matchers.sieve.search import SieveIndex

VISITS_AT_ONCE: Final = 16
_ROWS_AHEAD: Final = 3
"""Visits ahead of the one at work whose rows are fetched."""
_CHECKS_AHEAD: Final = 12
_UNSURE_AT_ONCE: Final = 2
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)


class Visits(NamedTuple):
    """Which event looks into which block, and what it found there: scratch."""

    block: NDArray[np.int32]
    event: NDArray[np.int32]
    possible: NDArray[np.uint64]  # (VISITS_AT_ONCE * 8,)
    certain: NDArray[np.uint64]  # (VISITS_AT_ONCE * 8,)
    unsure: NDArray[np.int32]  # (VISITS_AT_ONCE * BLOCK,), positions to check
    unsure_event: NDArray[np.int32]  # for each of them, the event


@kernel
def room_for_visits(n: int) -> Visits:
    """Return scratch for up to `n` visits."""
    return Visits(
        np.empty(n + 1, np.int32),
        np.empty(n + 1, np.int32),
        np.empty(VISITS_AT_ONCE * LINE_WORDS, np.uint64),
        np.empty(VISITS_AT_ONCE * LINE_WORDS, np.uint64),
        np.empty(VISITS_AT_ONCE * BLOCK + _UNSURE_AT_ONCE, np.int32),
        np.empty(VISITS_AT_ONCE * BLOCK + _UNSURE_AT_ONCE, np.int32),
    )


@kernel
def match_visits(
    index: SieveIndex,
    codes: EventCodes,
    visits: Visits,
    begin: int,
    end: int,
    n_visits: int,
    used: int,
    out: Found,
) -> int:
    """Make the visits from `begin` to `end`; return how many matches there are then, or -1 if there is no room."""
    _sift(index.rows, codes, visits, begin, end, n_visits)
    n_unsure, used = _list_certain(index, visits, begin, end, used, out)
    if used < 0 or used + n_unsure > out.slot.shape[0]:
        return -1
    return _list_checked(index, codes, visits, n_unsure, used, out)


@kernel
def _sift(rows: Rows, codes: EventCodes, visits: Visits, begin: int, end: int, n_visits: int) -> None:
    """AND the rows of some visits until nothing is left: what is possible, and what of it is certain."""
    bits, alive, hull = rows.bits.reshape(rows.bits.size), rows.alive, rows.hull
    chosen, n_chosen, row, sure = codes.chosen, codes.n_chosen, codes.row, codes.sure
    visit_block, visit_event = visits.block, visits.event
    possible, certain = visits.possible, visits.certain
    block_words, before = rows.bits.shape[1] * LINE_WORDS, rows.first
    n_used = 8
    for i in range(begin, end):
        if i + _ROWS_AHEAD < n_visits:
            block, e = visit_block[i + _ROWS_AHEAD], visit_event[i + _ROWS_AHEAD]
            first = (block - before) * block_words
            for j in range(SHARED):
                prefetch(bits, first + row[e, hull[block, 0, j]] * LINE_WORDS)
            # As many as the last visit needed: similar blocks need similar numbers.
            for j in range(min(n_used, n_chosen[e])):
                prefetch(bits, first + chosen[e, j] * LINE_WORDS)
        block, e = visit_block[i], visit_event[i]
        first = (block - before) * block_words
        at = (i - begin) * LINE_WORDS
        for w in range(LINE_WORDS):
            possible[at + w] = alive[block, w]
        # Shared attributes first: every clause of the block asks for them, so these rows rule out most.
        left = and_four_lines(
            bits,
            first + row[e, hull[block, 0, 0]] * LINE_WORDS,
            first + row[e, hull[block, 0, 1]] * LINE_WORDS,
            first + row[e, hull[block, 0, 2]] * LINE_WORDS,
            first + row[e, hull[block, 0, 3]] * LINE_WORDS,
            possible,
            at,
        )
        j = 0
        while (left != _ZERO) & (j < n_chosen[e]):
            left = and_four_lines(
                bits,
                first + chosen[e, j] * LINE_WORDS,
                first + chosen[e, j + 1] * LINE_WORDS,
                first + chosen[e, j + 2] * LINE_WORDS,
                first + chosen[e, j + 3] * LINE_WORDS,
                possible,
                at,
            )
            j += 4
        n_used = j
        for w in range(LINE_WORDS):
            certain[at + w] = alive[block, LINE_WORDS + w] if sure[e] else _ZERO


@kernel
def _list_certain(index: SieveIndex, visits: Visits, begin: int, end: int, used: int, out: Found) -> tuple[int, int]:
    """List what is certain as matches and the rest as unsure; return the number of both, matches -1 without room."""
    span, slot_of_position = index.predicates.span, index.slot_of_position
    possible, certain = visits.possible, visits.certain
    unsure, unsure_event = visits.unsure, visits.unsure_event
    out_slot = out.slot
    visit_block, visit_event = visits.block, visits.event
    n_unsure = 0
    for i in range(begin, end):
        block, e = visit_block[i], visit_event[i]
        for w in range((i - begin) * LINE_WORDS, (i - begin + 1) * LINE_WORDS):
            if possible[w] == _ZERO:
                continue
            place = block * BLOCK + w % LINE_WORDS * WORD_BITS
            known, word = possible[w] & certain[w], possible[w] & ~certain[w]
            if known != _ZERO:
                n_bits = popcount(known)
                if used + n_bits + BITS_AT_ONCE > out_slot.shape[0]:
                    return 0, -1
                # As many as a word mostly has, whether it has them or not: cheaper than to guess wrong where to stop.
                for k in range(BITS_AT_ONCE):
                    out_slot[used + k] = slot_of_position[place + trailing_zeros(known | np.uint64(known == _ZERO))]
                    known &= known - _ONE
                for k in range(BITS_AT_ONCE, n_bits):
                    out_slot[used + k] = slot_of_position[place + trailing_zeros(known)]
                    known &= known - _ONE
                used += n_bits
            n_bits = popcount(word)
            for k in range(_UNSURE_AT_ONCE):
                position = place + trailing_zeros(word | np.uint64(word == _ZERO))
                unsure[n_unsure + k], unsure_event[n_unsure + k] = position, e
                prefetch(span, 2 * position)
                prefetch(slot_of_position, position)
                word &= word - _ONE
            for k in range(_UNSURE_AT_ONCE, n_bits):
                position = place + trailing_zeros(word)
                unsure[n_unsure + k], unsure_event[n_unsure + k] = position, e
                prefetch(span, 2 * position)
                prefetch(slot_of_position, position)
                word &= word - _ONE
            n_unsure += n_bits
        end_run(out, e, used)
    return n_unsure, used


@kernel
def _list_checked(index: SieveIndex, codes: EventCodes, visits: Visits, n_unsure: int, used: int, out: Found) -> int:
    """List the unsure that hold; return how many matches there are then. There is room for them."""
    predicate_code, span = index.predicates.code, index.predicates.span
    unsure, unsure_event, code, whole = visits.unsure, visits.unsure_event, codes.code, codes.whole
    slot_of_position, out_slot = index.slot_of_position, out.slot
    e_before = 0
    for i in range(min(_CHECKS_AHEAD, n_unsure)):
        _fetch_predicates(predicate_code, span, unsure[i])
    n_ties = 0
    for i in range(n_unsure):
        if i + _CHECKS_AHEAD < n_unsure:
            _fetch_predicates(predicate_code, span, unsure[i + _CHECKS_AHEAD])
        position, e = unsure[i], unsure_event[i]
        if e != e_before:
            end_run(out, e_before, used)
            e_before = e
        holds, ties = True, False
        for at in range(FIELDS * span[2 * position], FIELDS * span[2 * position + 1], FIELDS):
            value = code[e, predicate_code[at]]
            low, high = np.int32(predicate_code[at + 1]), np.int32(predicate_code[at + 2])
            ties |= (value == low) | (value == high)
            if (value < low) | (value > high):
                holds = False
                break
        slot = slot_of_position[position]
        open_tie = holds & ties & (not whole[e])
        out_slot[used] = slot
        used += holds & (not open_tie)
        # The beginning of the list has been gone through: it takes what only exact bounds can tell.
        unsure[n_ties], unsure_event[n_ties] = slot, e
        n_ties += open_tie
    end_run(out, e_before, used)
    for i in range(n_ties):
        out_slot[used] = unsure[i]
        used += holds_exactly(index.clauses, unsure[i], codes.value, unsure_event[i])
        end_run(out, unsure_event[i], used)
    return used


@inlined
def _fetch_predicates(predicate_code: NDArray[np.uint16], span: NDArray[np.int32], position: int) -> None:
    """Ask for the first and the last predicate of a clause: mostly they are not in the same line."""
    prefetch(predicate_code, FIELDS * span[2 * position])
    prefetch(predicate_code, FIELDS * span[2 * position + 1] - 1)
