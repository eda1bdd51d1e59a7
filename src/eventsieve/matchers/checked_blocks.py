"""Matching with checks in the end, several events at a time: what Spare-REIN does with the lists of a plan.

Each event has a bit for each slot. First REIN's walk over the plan's lists clears bits, event by event. Then block
after block is gone through by all events: each ANDs the prepared rows of its values, and checks what is left.
So the rows and the checks of a block, some 4 MB, are fetched once for all events of a group. What is set in the end
matches.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount
from eventsieve._kernels.bitset import and_rows, extract_bits
from eventsieve._kernels.bop import BlockRows, absent_attributes, start_block
from eventsieve._kernels.buckets import BLOCK_SLOTS, BucketLists, BucketRule, cell_of_value, has_ends, look_ahead
from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.left_out import ROOM_TO_CHECK, LeftOut, check_block, code_event
from eventsieve.matchers.prepared_rows import NO_ROWS, PreparedRows
from eventsieve.matchers.rein import mark_unsatisfied
from eventsieve.model.columns import ClauseTable, EventColumns

_MOST_EVENTS: Final = 64
_MOST_BYTES: Final = 1 << 22
"""Of the bits of a group of events: beyond the second-level cache more of them do not help."""


def events_at_once(n_events: int, n_blocks: int) -> int:
    """Return how many events to match as one group."""
    return max(1, min(n_events, _MOST_EVENTS, _MOST_BYTES // max(1, n_blocks * BLOCK_SLOTS // 8)))


@kernel
def match_blocks(
    rule: BucketRule,
    lists: BucketLists,
    nulls: BlockRows,
    rows: PreparedRows,
    left_out: LeftOut,
    clauses: ClauseTable,
    events: EventColumns,
    first: int,
    candidates: NDArray[np.uint64],
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events as `Matcher._match_events` asks. `candidates` has room for a group: event, block, word."""
    n_group, n_blocks, words = candidates.shape
    n_attributes = nulls.null.shape[1]
    cell = np.empty((n_group, n_attributes), np.int32)
    code, value = np.empty((n_group, n_attributes + 1), np.int32), np.empty((n_group, n_attributes), np.float64)
    absent, chosen = np.empty(n_attributes, np.int32), np.empty(n_attributes, np.int32)
    place = np.empty(ROOM_TO_CHECK, np.int32)
    n_events, position, e = events.start.shape[0] - 1, 0, first
    while e < n_events:
        stop = min(e + n_group, n_events)
        for each in range(e, stop):
            code_event(left_out, events, each, code[each - e], value[each - e])
            for i in range(events.start[each], events.start[each + 1]):
                a = events.attribute[i]
                cell[each - e, a] = cell_of_value(rule, a, events.value[i])
            _clear_by_lists(lists, nulls, events, each, cell[each - e], absent, candidates[each - e])
        for block in range(n_blocks):
            for each in range(e, stop):
                n_chosen = _rows_of_event(rows, block, events, each, cell[each - e], chosen)
                and_rows(rows.may_hold, chosen, n_chosen, candidates[each - e, block])
                check_block(
                    left_out, clauses, block, code[each - e], value[each - e], place, candidates[each - e, block]
                )
        for each in range(e, stop):
            found = _count(candidates[each - e])
            if position + found > out_slots.shape[0]:
                return each
            for block in range(n_blocks):
                position = extract_bits(candidates[each - e, block], block * words * WORD_BITS, position, out_slots)
            out_count[each] = found
        e = stop
    return e


@kernel
def _clear_by_lists(
    lists: BucketLists,
    nulls: BlockRows,
    events: EventColumns,
    e: int,
    cell: NDArray[np.int32],
    absent: NDArray[np.int32],
    out_candidates: NDArray[np.uint64],
) -> None:
    """Leave the clauses of every block that lack no attribute and that no list rules out."""
    n_attributes = nulls.null.shape[1]
    n_absent = absent_attributes(events, e, n_attributes, absent)
    for block in range(out_candidates.shape[0]):
        start_block(nulls, block, absent, n_absent, out_candidates[block])
        for i in range(events.start[e], events.start[e + 1]):
            a = events.attribute[i]
            low_list = 2 * (block * n_attributes + a)
            look_ahead(lists, low_list, cell[a], n_attributes)
            if has_ends(lists, low_list):
                mark_unsatisfied(lists, low_list, cell[a], events.value[i], False, out_candidates[block])


@kernel
def _rows_of_event(
    rows: PreparedRows,
    block: int,
    events: EventColumns,
    e: int,
    cell: NDArray[np.int32],
    out_chosen: NDArray[np.int32],
) -> int:
    """Write which rows of a block the values of an event have; return how many."""
    n_chosen = 0
    if block < rows.first_row.shape[0]:
        for i in range(events.start[e], events.start[e + 1]):
            a = events.attribute[i]
            row = rows.first_row[block, a]
            if row != NO_ROWS:
                out_chosen[n_chosen] = row + rows.group_of_cell[a, cell[a]]
                n_chosen += 1
    return n_chosen


@kernel
def _count(candidates: NDArray[np.uint64]) -> int:
    found = 0
    for block in range(candidates.shape[0]):
        for w in range(candidates.shape[1]):
            found += popcount(candidates[block, w])
    return found
