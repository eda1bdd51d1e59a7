"""What an OP-Index is made of: blocks of clauses by pivot, and sorted lists of entries, in flat arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

EQUAL, LOW, HIGH, N_OPERATORS = range(4)
"""Operators, each with its own list per attribute of a block."""
PIVOT, NEXT, FIRST, SIZE, ROOM, LIVE, FREE, SIGNATURE = range(8)
"""Fields of a block: its pivot, the next block of the same pivot, where its places begin, how many have been used, how
many there are, clauses, the first place given back, and one signature per operator from here on. -1: none."""
BLOCK_FIELDS: Final = SIGNATURE + N_OPERATORS
START, LENGTH, CAPACITY, LIST_FIELDS = range(4)
"""Fields of a list."""
BLOCKS, PLACES, LISTS, ENTRIES, WASTED, N_USED = range(6)
"""Places in `OpLists.used`: what is in use; entries left behind by lists that have moved."""
BLOCK_CLAUSES: Final = 1 << 15
"""Clauses of a block: their counters fill 32 KB."""
MOST_COUNTED: Final = 250
"""Predicates of a clause that are filed, so that a counter fits a byte. The others are checked in the clause table."""
VACANT: Final = 255
"""The counter of a place without a clause: it has no entries, so it never gets to 0."""
CHECKED: Final = np.uint32(1 << 31)
SLOT_BITS: Final = np.uint32((1 << 31) - 1)


class OpLists(NamedTuple):
    """All of the index, with spare room behind the ends of what `used` counts.

    Attribute a of block b has three lists, by operator, from first_list[b, a] on, if it has any (-1). Place p of
    block b stands at FIRST + p.
    """

    block: NDArray[np.int64]  # (blocks, BLOCK_FIELDS)
    first_list: NDArray[np.int32]  # (blocks, n_attributes)
    lists: NDArray[np.int64]  # (lists, LIST_FIELDS)
    value: NDArray[np.float64]  # (entries,), rising within a list
    place: NDArray[np.uint16]  # (entries,): the clause's place in its block
    slot_of_place: NDArray[np.uint32]  # (places,): a slot, marked if it must be checked; or the next free place + 1
    predicates: NDArray[np.uint8]  # (places,): how many the clause has
    points: NDArray[np.uint8]  # (places,): how many of them ask for a single value
    block_of_slot: NDArray[np.int32]  # -1 where the slot is not filed
    place_of_slot: NDArray[np.uint16]
    frequency: NDArray[np.int64]  # (n_attributes,): clauses with a predicate on the attribute
    block_of_pivot: NDArray[np.int32]  # (n_attributes,): the first of its blocks, or -1
    used: NDArray[np.int64]  # (N_USED,)
