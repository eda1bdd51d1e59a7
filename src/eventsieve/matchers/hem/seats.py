"""Seats: the numbers that HEM itself gives to clauses, so that a deletion need not look for a clause's entries.

A deleted clause leaves its seat at once and its entries later. Until a sweep over the block has taken those out, the
seat is stale: no match starts from it, and nobody is given it. The slot's next clause gets another seat.
(Entries by slot would have to go before the slot is taken again, one by one: that only moves the work to insertion.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, trailing_zeros
from eventsieve._kernels.bitset import clear_bit, has_bit, set_bit
from eventsieve._kernels.compiler import inlined, kernel

BLOCK_SEATS = 1023 * WORD_BITS
"""Seats per block: a place fits 16 bits and leaves one word of bits, within 8 KB, for holes."""
NOBODY = -1
_NONE = np.uint64(0)
_ONE = np.uint64(1)


class Seats(NamedTuple):
    """Who sits where, by block. The place of a seat is its number within its block."""

    seat_of_slot: NDArray[np.int32]  # (n_slots or more,), NOBODY where a slot has no clause
    slot_of_seat: NDArray[np.int32]  # (n_blocks * BLOCK_SEATS,), for a free seat the next free one
    stale: NDArray[np.uint64]  # (n_blocks, words of a block and one for holes), one bit per seat
    n_taken: NDArray[np.int32]  # (n_blocks,), seats with a clause
    n_stale: NDArray[np.int32]  # (n_blocks,)
    free: NDArray[np.int64]  # (2,), the first free seat, and how many there are
    shift: NDArray[np.int32]  # (n_blocks,), what a seat's number is above its slot's, unless it has a guest
    guest: NDArray[np.uint64]  # (n_blocks, words of a block), one bit per seat


def no_seats() -> Seats:
    """Return seats of no blocks."""
    return Seats(
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.zeros((0, BLOCK_SEATS // WORD_BITS + 1), np.uint64),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.array([NOBODY, 0], np.int64),
        np.zeros(0, np.int32),
        np.zeros((0, BLOCK_SEATS // WORD_BITS), np.uint64),
    )


@kernel
def offer(first: int, stop: int, seats: Seats) -> None:
    """Make the seats from first to stop free, to be taken by rising number."""
    for seat in range(stop - 1, first - 1, -1):
        _free(seats, seat)


@kernel
def sit_evenly(start: NDArray[np.int64], stop: NDArray[np.int64], seats: Seats) -> None:
    """Give every clause a seat, by rising slot and as many to each block; make all others free.

    So every block has free seats about as its lists have room. A last block with few clauses, whose lists have little
    room, would get all new ones.
    """
    n_blocks = seats.n_taken.shape[0]
    per_block = -(-start.shape[0] // max(n_blocks, 1))
    for block in range(n_blocks):
        seats.shift[block] = block * (BLOCK_SEATS - per_block)
    for s in range(start.shape[0]):
        if stop[s] > start[s]:
            _seat(seats, s, s // per_block * BLOCK_SEATS + s % per_block)
    for seat in range(seats.slot_of_seat.shape[0] - 1, -1, -1):
        if seats.slot_of_seat[seat] == NOBODY:
            _free(seats, seat)


@inlined
def take_seat(seats: Seats, s: int) -> int:
    """Seat the clause at slot s; return where."""
    seat = seats.free[0]
    seats.free[0] = seats.slot_of_seat[seat]
    seats.free[1] -= 1
    _seat(seats, s, seat)
    return int(seat)


@inlined
def leave_seat(seats: Seats, s: int) -> int:
    """Let the clause at slot s leave its seat, which is stale from then on; return the seat."""
    seat = int(seats.seat_of_slot[s])
    block = seat // BLOCK_SEATS
    seats.seat_of_slot[s] = NOBODY
    set_bit(seats.stale[block], seat % BLOCK_SEATS)
    seats.n_taken[block] -= 1
    seats.n_stale[block] += 1
    return seat


@kernel
def free_stale(seats: Seats, block: int) -> None:
    """Make the stale seats of a block free: their entries are gone."""
    for w in range(seats.stale.shape[1]):
        word = seats.stale[block, w]
        while word != _NONE:
            _free(seats, block * BLOCK_SEATS + w * WORD_BITS + trailing_zeros(word))
            word &= word - _ONE
        seats.stale[block, w] = _NONE
    seats.n_stale[block] = 0


@inlined
def slot_at(seats: Seats, block: int, place: int) -> int:
    """Return the slot of the clause at a place of a block.

    Most clauses sit where the index was built to have them. Looking each of them up would take a cache line per match:
    a tenth of a match's time where one clause in thirty matches.
    """
    seat = block * BLOCK_SEATS + place
    return int(seats.slot_of_seat[seat] if has_bit(seats.guest[block], place) else seat - seats.shift[block])


@inlined
def _seat(seats: Seats, s: int, seat: int) -> None:
    block, place = seat // BLOCK_SEATS, seat % BLOCK_SEATS
    seats.seat_of_slot[s] = seat
    seats.slot_of_seat[seat] = s
    seats.n_taken[block] += 1
    if s == seat - seats.shift[block]:
        clear_bit(seats.guest[block], place)
    else:
        set_bit(seats.guest[block], place)


@inlined
def _free(seats: Seats, seat: int) -> None:
    seats.slot_of_seat[seat] = seats.free[0]
    seats.free[0] = seat
    seats.free[1] += 1
