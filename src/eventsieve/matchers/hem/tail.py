"""The tail: where new clauses are kept as plain codes, and compared one and all, until there are enough to be filed.

To put a single interval into a triangle takes a walk to main memory, for each of the clause's attributes. Some
thousand clauses at once are filed by one pass over a block (`filing.py`), and a clause that is deleted before has
never been in any triangle. Meanwhile every event is compared with every clause of the tail. Clauses stand in chunks of
64, attribute by attribute, so that a chunk is compared in vector registers and its result is one word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, trailing_zeros
from eventsieve._kernels.bitset import ALL_ONES, clear_bit
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.coding import LAST_CODE, codes_of
from eventsieve.matchers.hem.seats import IN_TAIL, NOBODY
from eventsieve.model.columns import ClauseTable, EventColumns
from eventsieve.model.transform import TransformTable

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_QUARTERS = np.uint64(0x0001_0002_0004_0008)
"""Times a word whose four quarters are 0 or 1, this puts quarter i of the word to bit 48 + i."""


class Tail(NamedTuple):
    """Place p is number p % 64 of chunk p // 64. An interval that nobody asks for holds every value."""

    slot: NDArray[np.int32]  # (n_chunks * 64,)
    alive: NDArray[np.uint64]  # (n_chunks,), the place has a clause
    null: NDArray[np.uint64]  # (n_chunks, n_attributes), the clause does not ask for the attribute
    low: NDArray[np.uint16]  # (n_chunks, n_attributes, 64), the code of the low end
    high: NDArray[np.uint16]  # (n_chunks, n_attributes, 64)


class TailScratch(NamedTuple):
    """What is known of one chunk."""

    holds: NDArray[np.uint16]  # (64,), 1 where a clause holds all values so far; as wide as what is compared
    holds_as_words: NDArray[np.uint64]  # the same memory, four at a time


def new_tail(n_clauses: int, n_attributes: int) -> Tail:
    """Return an empty tail with room for at least so many clauses."""
    n_chunks = -(-n_clauses // WORD_BITS)
    shape = (n_chunks, n_attributes, WORD_BITS)
    return Tail(
        np.zeros(n_chunks * WORD_BITS, np.int32),
        np.zeros(n_chunks, np.uint64),
        np.full(shape[:2], ALL_ONES),
        np.zeros(shape, np.uint16),
        np.full(shape, LAST_CODE, np.uint16),
    )


def new_tail_scratch() -> TailScratch:
    """Return scratch for one batch."""
    holds = np.zeros(WORD_BITS, np.uint16)
    return TailScratch(holds, holds.view(np.uint64))


# -- changing ------------------------------------------------------------------------------------------------


@kernel
def enter(
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    done: int,
    table: TransformTable,
    tail: Tail,
    seat_of_slot: NDArray[np.int32],
) -> int:
    """Take in the clauses at `slots` from number `done` on; return the number of the first that finds no place."""
    chunk = 0
    while done < slots.shape[0]:
        while chunk < tail.alive.shape[0] and tail.alive[chunk] == ALL_ONES:
            chunk += 1
        if chunk == tail.alive.shape[0]:
            break
        s = slots[done]
        if clauses.stop[s] > clauses.start[s]:
            number = trailing_zeros(~tail.alive[chunk])
            _write_clause(clauses, s, table, number, tail.null[chunk], tail.low[chunk], tail.high[chunk])
            tail.slot[chunk * WORD_BITS + number] = s
            tail.alive[chunk] |= _ONE << np.uint64(number)
            seat_of_slot[s] = IN_TAIL + chunk * WORD_BITS + number
        done += 1
    return done


@kernel
def _write_clause(
    clauses: ClauseTable,
    s: int,
    table: TransformTable,
    number: int,
    out_null: NDArray[np.uint64],
    out_low: NDArray[np.uint16],
    out_high: NDArray[np.uint16],
) -> None:
    """Write the clause at slot s to its number in a chunk, with what it does not ask for: others have been there."""
    bit = _ONE << np.uint64(number)
    p = clauses.start[s]
    for a in range(out_null.shape[0]):
        low_code, high_code, asks = 0, LAST_CODE, _NONE
        if p < clauses.stop[s] and clauses.attribute[p] == a:
            low_code, high_code = codes_of(table, a, clauses.low[p], clauses.high[p])
            asks = bit
            p += 1
        out_low[a, number], out_high[a, number] = low_code, high_code
        out_null[a] = (out_null[a] | bit) ^ asks


@kernel
def leave(slots: NDArray[np.int32], alive: NDArray[np.uint64], seat_of_slot: NDArray[np.int32]) -> int:
    """Forget those of the clauses at `slots` that are in the tail; return how many are not.

    A kernel of its own, with few arrays: handing over a whole index takes as long as forgetting a thousand clauses.
    """
    n_others = 0
    for s in slots:
        place = seat_of_slot[s] - IN_TAIL
        if place < 0:
            n_others += 1
        else:
            clear_bit(alive, place)
            seat_of_slot[s] = NOBODY
    return n_others


@kernel
def n_asking(tail: Tail, a: int) -> int:
    """Return how many clauses of the tail ask for an attribute."""
    total = 0
    for chunk in range(tail.alive.shape[0]):
        total += popcount(tail.alive[chunk] & ~tail.null[chunk, a])
    return total


# -- matching ------------------------------------------------------------------------------------------------


@kernel
def match_tail(
    clauses: ClauseTable,
    tail: Tail,
    events: EventColumns,
    codes: NDArray[np.int32],
    e: int,
    absent: NDArray[np.int32],
    value: NDArray[np.float64],
    scratch: TailScratch,
    position: int,
    out_slots: NDArray[np.int32],
) -> int:
    """Write the slots of the tail's clauses that event e satisfies to out_slots[position:]; return the next position.

    `value` has the event's values by attribute, and `absent` the attributes that it lacks.
    """
    attributes = events.attribute[events.start[e] : events.start[e + 1]]
    codes = codes[events.start[e] : events.start[e + 1]]
    for chunk in range(tail.alive.shape[0]):
        left = tail.alive[chunk]
        for a in absent:
            left &= tail.null[chunk, a]
        if left != _NONE:
            left &= _holding(tail, chunk, attributes, codes, scratch)
        while left != _NONE:
            number = trailing_zeros(left)
            s = tail.slot[chunk * WORD_BITS + number]
            if not _touches(tail, chunk, number, attributes, codes) or clause_holds(clauses, s, value):
                out_slots[position] = s
                position += 1
            left &= left - _ONE
    return position


@kernel
def _holding(
    tail: Tail, chunk: int, attributes: NDArray[np.int32], codes: NDArray[np.int32], scratch: TailScratch
) -> np.uint64:
    """Return one bit per clause of a chunk: by the codes of its ends, it may hold all values."""
    holds = scratch.holds
    holds[:] = 1
    for i in range(attributes.shape[0]):
        # No attribute is passed over, though nobody may ask for it: with that branch the loop took twice as long.
        low, high, code = tail.low[chunk, attributes[i]], tail.high[chunk, attributes[i]], np.uint16(codes[i])
        for number in range(WORD_BITS):
            holds[number] &= np.uint16((low[number] <= code) & (code <= high[number]))
    bits = _NONE
    for w in range(WORD_BITS // 4):
        bits |= ((scratch.holds_as_words[w] * _QUARTERS) >> np.uint64(48) & np.uint64(15)) << np.uint64(4 * w)
    return bits


@inlined
def _touches(tail: Tail, chunk: int, number: int, attributes: NDArray[np.int32], codes: NDArray[np.int32]) -> bool:
    """Say whether a clause has an end in the very code of a value, so that only exact ends can tell."""
    touches = False
    for i in range(attributes.shape[0]):
        a, code = attributes[i], codes[i]
        touches |= (tail.low[chunk, a, number] == code) | (tail.high[chunk, a, number] == code)
    return touches
