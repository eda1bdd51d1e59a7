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
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_four_lines
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.layout import NONE
from eventsieve.matchers.sieve.order import BLOCK, SHARED
from eventsieve.matchers.sieve.predicates import FIELDS

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.layout import Rows
    from eventsieve.matchers.sieve.search import SieveIndex

VISITS_AT_ONCE: Final = 128
_ROWS_AHEAD: Final = 3
"""Visits ahead of the one at work whose rows are fetched."""
_CHECKS_AHEAD: Final = 12
_UNSURE_AT_ONCE: Final = 2
_MOSTLY: Final = np.uint64(BITS_AT_ONCE)
_MOSTLY_UNSURE: Final = np.uint64(_UNSURE_AT_ONCE)
_SURVIVORS: Final = 8
"""Clauses left by the rows of a visit, from which it is worth while to look for those that need no check,"""
_SURVIVORS_AT_HAND: Final = 6
"""also where rows are in the cache."""
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_TWO: Final = np.uint64(2)
_THREE: Final = np.uint64(3)
_FOUR: Final = np.uint64(4)
_FIELDS: Final = np.uint64(FIELDS)


class Visits(NamedTuple):
    """Which event looks into which block, and what it found there: scratch."""

    block: NDArray[np.int32]
    event: NDArray[np.int32]
    kept: NDArray[np.int32]  # (VISITS_AT_ONCE + 1,), visits that left somebody, by number
    possible: NDArray[np.uint64]  # (VISITS_AT_ONCE + 1, 8) flat, by number among the kept
    certain: NDArray[np.uint64]  # (VISITS_AT_ONCE, 8) flat
    unsure: NDArray[np.int32]  # (VISITS_AT_ONCE * BLOCK,), positions to check
    unsure_event: NDArray[np.int32]  # for each of them, the event


@kernel
def room_for_visits(n: int) -> Visits:
    """Return scratch for up to `n` visits."""
    return Visits(
        np.empty(n + 1, np.int32),
        np.empty(n + 1, np.int32),
        np.empty(VISITS_AT_ONCE + 1, np.int32),
        np.empty((VISITS_AT_ONCE + 1) * LINE_WORDS, np.uint64),
        np.empty(VISITS_AT_ONCE * LINE_WORDS, np.uint64),
        np.empty(VISITS_AT_ONCE * BLOCK + _UNSURE_AT_ONCE, np.int32),
        np.empty(VISITS_AT_ONCE * BLOCK + _UNSURE_AT_ONCE, np.int32),
    )


@inlined
def match_visits(
    index: SieveIndex,
    codes: EventCodes,
    visits: Visits,
    begin: int,
    end: int,
    n_visits: int,
    at_hand: bool,
    used: int,
    out: Found,
) -> int:
    """Make the visits from `begin` to `end`; return how many matches there are then, or -1 if there is no room.

    The rows are in the cache if they are `at_hand`.
    """
    n_kept = _sift(index.rows, codes, visits, begin, end, n_visits, at_hand)
    _find_certain(index.rows, codes, visits, n_kept, _SURVIVORS_AT_HAND if at_hand else _SURVIVORS)
    n_unsure, used = _list_certain(index, visits, n_kept, used, out)
    if used < 0 or used + n_unsure > out.slot.shape[0]:
        return -1
    return _list_checked(index, codes, visits, n_unsure, used, out)


@kernel
def read_block(rows: Rows, block: int, visits: Visits) -> None:
    """Read all rows of a block, one after the other, so that visits find them in the cache.

    In a row, lines come twice as fast from main memory as in any other order, or when they are only asked for. What is
    read has to go somewhere, or the compiler leaves it out.
    """
    bits = rows.bits.reshape(rows.bits.size)
    block_words = rows.bits.shape[1] * LINE_WORDS
    first = (block - rows.first) * block_words
    anything = _ZERO
    for word in range(first, first + block_words, LINE_WORDS):
        anything ^= bits[word]
    visits.possible[0] = anything


@kernel
def _sift(rows: Rows, codes: EventCodes, visits: Visits, begin: int, end: int, n_visits: int, at_hand: bool) -> int:
    """AND the rows of some visits until nothing is left; keep what is possible, and return how many visits left it."""
    bits, alive, hull = rows.bits.reshape(rows.bits.size), rows.alive.reshape(rows.alive.size), rows.hull
    chosen, n_chosen, row = codes.chosen, codes.n_chosen, codes.row
    visit_block, visit_event = visits.block, visits.event
    kept, possible = visits.kept, visits.possible
    block_words, before = rows.bits.shape[1] * LINE_WORDS, rows.first
    n_used = 8
    n_kept = 0
    for i in range(begin, end):
        if (not at_hand) & (i + _ROWS_AHEAD < n_visits):
            block, later = visit_block[i + _ROWS_AHEAD], visit_event[i + _ROWS_AHEAD]
            first = (block - before) * block_words
            for k in range(SHARED):
                prefetch(bits, first + row[later, hull[block, 0, k]] * LINE_WORDS)
            # As many as the last visit needed: similar blocks need similar numbers.
            for k in range(min(n_used, n_chosen[later])):
                prefetch(bits, first + chosen[later, k] * LINE_WORDS)
        block, e = visit_block[i], np.uint64(visit_event[i])
        shared = np.uint64(block)
        first, at = (block - before) * block_words, n_kept * LINE_WORDS
        # Shared attributes first: every clause of the block asks for them, so these rows rule out most.
        left = and_four_lines(
            bits,
            first + row[e, hull[shared, _ZERO, _ZERO]] * LINE_WORDS,
            first + row[e, hull[shared, _ZERO, _ONE]] * LINE_WORDS,
            first + row[e, hull[shared, _ZERO, _TWO]] * LINE_WORDS,
            first + row[e, hull[shared, _ZERO, _THREE]] * LINE_WORDS,
            alive,
            block * 2 * LINE_WORDS,
            possible,
            at,
        )
        j, n_rows = _ZERO, np.uint64(n_chosen[e])
        while (left != _ZERO) & (j < n_rows):
            left = and_four_lines(
                bits,
                first + chosen[e, j] * LINE_WORDS,
                first + chosen[e, j + _ONE] * LINE_WORDS,
                first + chosen[e, j + _TWO] * LINE_WORDS,
                first + chosen[e, j + _THREE] * LINE_WORDS,
                possible,
                at,
                possible,
                at,
            )
            j += _FOUR
        n_used = int(np.int64(j))
        kept[n_kept] = i
        n_kept += left != _ZERO
    return n_kept


@kernel
def _find_certain(rows: Rows, codes: EventCodes, visits: Visits, n_kept: int, survivors: int) -> None:
    """Find who holds for sure, by the rows beside those of the values, where so many are left that it is worth it."""
    bits, alive = rows.bits.reshape(rows.bits.size), rows.alive
    beside, n_beside = codes.beside, codes.n_beside
    kept, possible, certain = visits.kept, visits.possible, visits.certain
    block_words, before = rows.bits.shape[1] * LINE_WORDS, rows.first
    for i in range(n_kept):
        block, e = visits.block[kept[i]], visits.event[kept[i]]
        first, at = (block - before) * block_words, i * LINE_WORDS
        n_left = 0
        for w in range(LINE_WORDS):
            n_left += popcount(possible[at + w])
        if (n_beside[e] == NONE) | ((n_beside[e] > 0) & (n_left < survivors)):
            for w in range(LINE_WORDS):
                certain[at + w] = _ZERO
            continue
        for w in range(LINE_WORDS):
            certain[at + w] = possible[at + w] & alive[block, LINE_WORDS + w]
        j = 0
        left = _ONE
        while (left != _ZERO) & (j < n_beside[e]):
            left = and_four_lines(
                bits,
                first + beside[e, j] * LINE_WORDS,
                first + beside[e, j + 1] * LINE_WORDS,
                first + beside[e, j + 2] * LINE_WORDS,
                first + beside[e, j + 3] * LINE_WORDS,
                certain,
                at,
                certain,
                at,
            )
            j += 4


@kernel
def _list_certain(index: SieveIndex, visits: Visits, n_kept: int, used: int, out: Found) -> tuple[int, int]:
    """List what is certain as matches and the rest as unsure; return the number of both, matches -1 without room."""
    span, slot_of_position = index.predicates.span, index.slot_of_position
    possible, certain = visits.possible, visits.certain
    unsure, unsure_event = visits.unsure, visits.unsure_event
    out_slot = out.slot
    visit_block, visit_event, kept = visits.block, visits.event, visits.kept
    # Unsigned, as Python counts from behind below zero, which has to be asked each time.
    n_unsure, n_used, room = _ZERO, np.uint64(used), np.uint64(out_slot.shape[0])
    for i in range(n_kept):
        block, e = visit_block[kept[i]], visit_event[kept[i]]
        for w in range(np.uint64(i * LINE_WORDS), np.uint64((i + 1) * LINE_WORDS)):
            if possible[w] == _ZERO:
                continue
            place = np.uint64(block * BLOCK) + w % np.uint64(LINE_WORDS) * np.uint64(WORD_BITS)
            known, word = certain[w], possible[w] & ~certain[w]
            if known != _ZERO:
                n_bits = np.uint64(popcount(known))
                if n_used + n_bits + _MOSTLY > room:
                    return 0, -1
                # As many as a word mostly has, whether it has them or not: cheaper than to guess wrong where to stop.
                for k in range(_ZERO, _MOSTLY):
                    out_slot[n_used + k] = slot_of_position[
                        place + np.uint64(trailing_zeros(known | np.uint64(known == _ZERO)))
                    ]
                    known &= known - _ONE
                for k in range(_MOSTLY, n_bits):
                    out_slot[n_used + k] = slot_of_position[place + np.uint64(trailing_zeros(known))]
                    known &= known - _ONE
                n_used += n_bits
            n_bits = np.uint64(popcount(word))
            for k in range(_ZERO, _MOSTLY_UNSURE):
                position = place + np.uint64(trailing_zeros(word | np.uint64(word == _ZERO)))
                unsure[n_unsure + k], unsure_event[n_unsure + k] = position, e
                prefetch(span, int(np.int64(_TWO * position)))
                prefetch(slot_of_position, int(np.int64(position)))
                word &= word - _ONE
            for k in range(_MOSTLY_UNSURE, n_bits):
                position = place + np.uint64(trailing_zeros(word))
                unsure[n_unsure + k], unsure_event[n_unsure + k] = position, e
                prefetch(span, int(np.int64(_TWO * position)))
                prefetch(slot_of_position, int(np.int64(position)))
                word &= word - _ONE
            n_unsure += n_bits
        end_run(out, e, int(np.int64(n_used)))
    return int(np.int64(n_unsure)), int(np.int64(n_used))


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
        position, e = np.uint64(unsure[i]), unsure_event[i]
        if e != e_before:
            end_run(out, e_before, used)
            e_before = e
        event = np.uint64(e)
        outside, ties = np.int32(0), False
        first, stop = np.uint64(span[_TWO * position]), np.uint64(span[_TWO * position + _ONE])
        for at in range(_FIELDS * first, _FIELDS * stop, _FIELDS):
            value = code[event, predicate_code[at]]
            low, high = np.int32(predicate_code[at + _ONE]), np.int32(predicate_code[at + _TWO])
            # Below zero if the value is not between them. A branch is seldom taken, and then guessed wrong.
            outside |= (value - low) | (high - value)
            ties |= (value == low) | (value == high)
        holds = bool(outside >= 0)
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
        used += clause_holds(index.clauses, unsure[i], codes.value[unsure_event[i]])
        end_run(out, unsure_event[i], used)
    return used


@inlined
def _fetch_predicates(predicate_code: NDArray[np.uint16], span: NDArray[np.int32], position: int) -> None:
    """Ask for the first and the last predicate of a clause: mostly they are not in the same line."""
    prefetch(predicate_code, FIELDS * span[2 * position])
    prefetch(predicate_code, FIELDS * span[2 * position + 1] - 1)
