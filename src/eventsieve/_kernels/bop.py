"""BOP in compiled code: per attribute, which clauses do not ask for it; and the loop that ANDs all attributes.

Formula (1) of the paper: result = AND over all attributes of (null OR match). Attributes that the event lacks
contribute their null row alone. Slots are cut into blocks and an event is matched block by block, so that the two
working rows stay in the first-level cache for all attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import and_rows, clear_bit, copy_row, extract_bits, set_bit
from eventsieve._kernels.compiler import inlined, kernel

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable, EventColumns


class BlockRows(NamedTuple):
    """One bit per slot, by block. Free slots and attributes that nobody asks for have their null bits set."""

    alive: NDArray[np.uint64]  # (n_blocks, words_per_block), the slot has a clause
    null: NDArray[np.uint64]  # (n_blocks, n_attributes, words_per_block), the slot does not ask for the attribute


@kernel
def enter_clauses(clauses: ClauseTable, slots: NDArray[np.int32], rows: BlockRows) -> None:
    """Mark the clauses at `slots` as alive, and the attributes they ask for."""
    block_slots = rows.alive.shape[1] * WORD_BITS
    for s in slots:
        block, place = s // block_slots, s % block_slots
        for p in range(clauses.start[s], clauses.stop[s]):
            set_bit(rows.alive[block], place)
            clear_bit(rows.null[block, clauses.attribute[p]], place)


@kernel
def remove_clauses(clauses: ClauseTable, slots: NDArray[np.int32], rows: BlockRows) -> None:
    """Undo `enter_clauses`."""
    block_slots = rows.alive.shape[1] * WORD_BITS
    for s in slots:
        block, place = s // block_slots, s % block_slots
        clear_bit(rows.alive[block], place)
        for p in range(clauses.start[s], clauses.stop[s]):
            set_bit(rows.null[block, clauses.attribute[p]], place)


@kernel
def absent_attributes(events: EventColumns, e: int, n_attributes: int, out_absent: NDArray[np.int32]) -> int:
    """Write the attributes that event e lacks, rising; return how many."""
    n_absent = 0
    i = events.start[e]
    for a in range(n_attributes):
        if i < events.start[e + 1] and events.attribute[i] == a:
            i += 1
        else:
            out_absent[n_absent] = a
            n_absent += 1
    return n_absent


@inlined
def start_block(
    rows: BlockRows, block: int, absent: NDArray[np.int32], n_absent: int, out_result: NDArray[np.uint64]
) -> None:
    """Set out_result to the clauses of a block that ask for none of the absent attributes."""
    copy_row(rows.alive[block], out_result)
    and_rows(rows.null[block], absent, n_absent, out_result)


@inlined
def match_by_attribute(
    narrow: Callable[..., None],
    index: Any,
    rows: BlockRows,
    events: EventColumns,
    n_slots: int,
    first: int,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events as `Matcher._match_events` asks, one attribute after the other in each block.

    `narrow(index, rows, block, a, value, scratch, result)` clears the clauses of a block that the value of
    attribute a does not satisfy. It is a kernel, named by the kernel that calls this one, and melts into it.
    """
    n_attributes = rows.null.shape[1]
    words = rows.alive.shape[1]
    result = np.empty(words, np.uint64)
    scratch = np.empty(words, np.uint64)
    absent = np.empty(n_attributes, np.int32)
    position = 0
    e = first
    while e < events.start.shape[0] - 1 and position + n_slots <= out_slots.shape[0]:
        begin = position
        n_absent = absent_attributes(events, e, n_attributes, absent)
        for block in range(rows.alive.shape[0]):
            start_block(rows, block, absent, n_absent, result)
            for i in range(events.start[e], events.start[e + 1]):
                narrow(index, rows, block, events.attribute[i], events.value[i], scratch, result)
            position = extract_bits(result, block * words * WORD_BITS, position, out_slots)
        out_count[e] = position - begin
        e += 1
    return e
