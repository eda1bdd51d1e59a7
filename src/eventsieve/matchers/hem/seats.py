"""Seats: the numbers that HEM itself gives to clauses, so that a deletion need not look for a clause's entries.

A new clause has a place in the tail (`tail.py`) until it is filed and gets a seat in a block (`filing.py`). A deleted
clause leaves its seat at once and its entries later. Until its block is rewritten the seat is stale: no match starts
from it, and nobody is given it. The slot's next clause goes elsewhere.
(Entries by slot would have to go before the slot is taken again, one by one: that only moves the work to insertion.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import clear_bit, has_bit, set_bit
from eventsieve._kernels.compiler import inlined, kernel

BLOCK_SEATS = 1 << 16
"""Seats per block: a place fits 16 bits, and the bits in work, 8 KB, stay in the first-level cache."""
NOBODY = -1
IN_TAIL = 1 << 30
"""Numbers from here on are places in the tail."""


class Seats(NamedTuple):
    """Who sits where, by block. The place of a seat is its number within its block.

    A seat is taken where its bit in `BlockRows.alive` is set. The others are free or stale, and mean nothing.
    """

    seat_of_slot: NDArray[np.int32]  # (n_slots or more,), NOBODY where a slot has no clause
    slot_of_seat: NDArray[np.int32]  # (n_blocks * BLOCK_SEATS,)
    n_taken: NDArray[np.int32]  # (n_blocks,), seats with a clause
    n_stale: NDArray[np.int32]  # (n_blocks,)
    shift: NDArray[np.int32]  # (n_blocks,), what a seat's number is above its slot's, unless it has a guest
    guest: NDArray[np.uint64]  # (n_blocks, words of a block), one bit per seat


def no_seats() -> Seats:
    """Return seats of no blocks."""
    return Seats(
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.zeros((0, BLOCK_SEATS // WORD_BITS), np.uint64),
    )


@kernel
def sit_evenly(start: NDArray[np.int64], stop: NDArray[np.int64], seats: Seats) -> None:
    """Give every clause a seat, by rising slot and as many to each block, so that every block has free ones."""
    n_blocks = seats.n_taken.shape[0]
    per_block = -(-start.shape[0] // max(n_blocks, 1))
    for block in range(n_blocks):
        seats.shift[block] = block * (BLOCK_SEATS - per_block)
    for s in range(start.shape[0]):
        if stop[s] > start[s]:
            seat_clause(seats, s, s // per_block * BLOCK_SEATS + s % per_block)


@inlined
def seat_clause(seats: Seats, s: int, seat: int) -> None:
    """Give the clause at slot s a seat that is free."""
    block, place = seat // BLOCK_SEATS, seat % BLOCK_SEATS
    seats.seat_of_slot[s] = seat
    seats.slot_of_seat[seat] = s
    seats.n_taken[block] += 1
    if s == seat - seats.shift[block]:
        clear_bit(seats.guest[block], place)
    else:
        set_bit(seats.guest[block], place)


@inlined
def slot_at(seats: Seats, block: int, place: int) -> int:
    """Return the slot of the clause at a place of a block.

    Most clauses sit where the index was built to have them. Looking each of them up would take a cache line per match:
    a tenth of a match's time where one clause in thirty matches.
    """
    seat = block * BLOCK_SEATS + place
    return int(seats.slot_of_seat[seat] if has_bit(seats.guest[block], place) else seat - seats.shift[block])
