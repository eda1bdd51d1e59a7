"""How events pass through the sieve: which blocks each has to look into, and which way they are matched.

Hulls say which events look into a block. Each of these makes a visit: it ANDs rows of bits (`by_rows.py`). All events
meet a block before the next one is looked at, so what is read of it comes from main memory once for all of them.

Clauses that are in chunks have no hulls. They are matched with one event after the other (`by_chunks.py`), or turned
round if there are enough events: then each clause ANDs masks of events (`by_masks.py`), which costs the same for one
event as for 512.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.sieve.by_chunks import match_chunks
from eventsieve.matchers.sieve.by_masks import match_blocks
from eventsieve.matchers.sieve.by_rows import VISITS_AT_ONCE, Visits, match_visits, read_block, room_for_visits
from eventsieve.matchers.sieve.events import translated
from eventsieve.matchers.sieve.masks import MASK_EVENTS, masks_of
from eventsieve.matchers.sieve.order import SHARED

if TYPE_CHECKING:
    from eventsieve._kernels.handle import Handle
    from eventsieve.matchers.sieve.chunks import Chunks
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.layout import Attributes, Rows
    from eventsieve.matchers.sieve.predicates import Predicates
    from eventsieve.model.columns import ClauseTable, EventColumns
    from eventsieve.model.transform import TransformTable

_FEW_EVENTS: Final = 8
"""Hulls are compared event by event up to here, and for all events of a batch in wide registers above."""
_VISITS: Final = 4096
_ROWS_PER_VISIT: Final = 40
"""Visits to a block times this, above its number of rows: then all of them are fetched, one after the other."""
_ROW_COST: Final = 0.45
"""Predicates that can be taken through masks in the time of a line of a chunk's row,"""
_END_COST: Final = 0.07
"""of an end in the cell of a value,"""
_RUN_COST: Final = 12
"""of finding a value's run in a chunk,"""
_SORT_COST: Final = 700
"""and of the masks of an attribute, which have to be made first."""


class SieveIndex(NamedTuple):
    """The index as kernels see it."""

    table: TransformTable
    apart: NDArray[np.bool_]  # (n_attributes,), different whole numbers have different codes
    attributes: Attributes
    rows: Rows
    chunks: Chunks
    predicates: Predicates
    slot_of_position: NDArray[np.int32]
    clauses: ClauseTable  # by slot


@kernel
def match(
    handle: Handle[SieveIndex],
    events: EventColumns,
    first: int,
    n_events: int,
    part: int,
    n_parts: int,
    out: Found,
) -> int:
    """Match the events from `first` on together with one of `n_parts` parts of the index.

    Parts take turns at blocks and chunks, since clauses that match much stand side by side. Return the number of
    matches, or -1 if there is no room for all.
    """
    index = handle.bundle
    codes = translated(index.table, index.apart, index.attributes, events, first, n_events)
    out.n_runs[0] = 0
    used = 0
    if index.rows.first:
        n_squares = -(-n_events // MASK_EVENTS)
        if n_events * _chunk_cost(index) > n_squares * _mask_cost(index):
            used = match_by_masks(index, codes, index.rows.first, part, n_parts, out)
        else:
            used = _match_chunks(index, codes, part, n_parts, out)
    if n_events <= _FEW_EVENTS:
        return _match_few(index, codes, part, n_parts, used, out)
    return _match_many(index, codes, part, n_parts, used, out)


@inlined
def _chunk_cost(index: SieveIndex) -> float:
    """Return how long one event takes to be matched with all chunks, in the time of a predicate by masks."""
    attributes = index.attributes
    n_row_attributes, n_attributes = attributes.attribute_of_row.shape[0], attributes.row_attribute.shape[0]
    n_cells = (n_row_attributes * attributes.n_cells + n_attributes - n_row_attributes) / n_attributes
    n_runs, n_ends = n_attributes * index.chunks.stop.shape[0], index.chunks.end.shape[0] / n_cells
    return _ROW_COST * index.rows.first * n_row_attributes + _RUN_COST * n_runs + _END_COST * n_ends


@inlined
def _mask_cost(index: SieveIndex) -> int:
    """Return the same for up to MASK_EVENTS events by masks."""
    return _SORT_COST * index.attributes.row_attribute.shape[0] + index.chunks.end.shape[0] // 2


@kernel
def _match_chunks(index: SieveIndex, codes: EventCodes, part: int, n_parts: int, out: Found) -> int:
    """Match events one after the other with the chunks of a part; return the number of matches, or -1 without room."""
    used = 0
    for e in range(codes.code.shape[0]):
        used = match_chunks(index, codes, e, part, n_parts, used, out)
        if used < 0:
            return -1
    return used


@kernel
def match_by_masks(index: SieveIndex, codes: EventCodes, n_blocks: int, part: int, n_parts: int, out: Found) -> int:
    """Match events, many at a time, with a part of the first blocks; return the number of matches, or -1 as above."""
    n_events = codes.code.shape[0]
    used = 0
    for first in range(0, n_events, MASK_EVENTS):
        masks = masks_of(codes, first, min(MASK_EVENTS, n_events - first))
        used = match_blocks(index, codes, masks, n_blocks, part, n_parts, used, out)
        if used < 0:
            return -1
    return used


@kernel
def _match_few(index: SieveIndex, codes: EventCodes, part: int, n_parts: int, used: int, out: Found) -> int:
    """Match a few events with the blocks of a part that have rows, one by one; `used` matches are there, or -1."""
    hull, first, n_events = index.rows.hull, index.rows.first, codes.code.shape[0]
    at_once = max(1, min(_VISITS // n_events, -(-(hull.shape[0] - first) // n_parts)))
    visits = room_for_visits(at_once * n_events)
    for block in range(first + part * at_once, hull.shape[0], n_parts * at_once):
        until = min(block + at_once, hull.shape[0])
        n_visits = _visits_by_event(hull, block, until, codes.code, visits.block, visits.event)
        used = _make(index, codes, visits, n_visits, False, used, out)
    return used


@kernel
def _match_many(index: SieveIndex, codes: EventCodes, part: int, n_parts: int, used: int, out: Found) -> int:
    """Match many events with the blocks of a part that have rows; `used` as above."""
    rows, hull, n_events = index.rows, index.rows.hull, codes.code.shape[0]
    visits = room_for_visits(n_events)
    passes = np.empty(n_events, np.uint8)
    for block in range(rows.first + part, hull.shape[0], n_parts):
        n_visits = _visits_to_block(hull, block, codes.by_attribute, passes, visits.block, visits.event)
        at_hand = n_visits * _ROWS_PER_VISIT > rows.bits.shape[1]
        if at_hand:
            read_block(rows, block, visits)
        used = _make(index, codes, visits, n_visits, at_hand, used, out)
    return used


@inlined
def _make(
    index: SieveIndex, codes: EventCodes, visits: Visits, n_visits: int, at_hand: bool, used: int, out: Found
) -> int:
    """Make all visits; return how many matches there are then, or -1 if there is no room for them."""
    for begin in range(0, n_visits, VISITS_AT_ONCE):
        if used >= 0:
            end = min(begin + VISITS_AT_ONCE, n_visits)
            used = match_visits(index, codes, visits, begin, end, n_visits, at_hand, used, out)
    return used


@kernel
def _visits_by_event(
    hull: NDArray[np.uint16],
    first: int,
    stop: int,
    code: NDArray[np.int32],
    out_block: NDArray[np.int32],
    out_event: NDArray[np.int32],
) -> int:
    """List the visits of events to blocks that no hull rules out, event by event; return their number."""
    n = 0
    for e in range(code.shape[0]):
        values = code[e]
        for block in range(first, stop):
            fails = False
            for j in range(SHARED):
                value = values[hull[block, 0, j]]
                fails |= (value < np.int32(hull[block, 1, j])) | (value > np.int32(hull[block, 2, j]))
            out_block[n], out_event[n] = block, e
            n += not fails
    return n


@kernel
def _visits_to_block(
    hull: NDArray[np.uint16],
    block: int,
    by_attribute: NDArray[np.int32],
    passes: NDArray[np.uint8],
    out_block: NDArray[np.int32],
    out_event: NDArray[np.int32],
) -> int:
    """List the events that no hull of a block rules out; return their number."""
    n_events = passes.shape[0]
    passes[:] = 1
    for j in range(SHARED):
        value = by_attribute[hull[block, 0, j]]
        low, high = np.int32(hull[block, 1, j]), np.int32(hull[block, 2, j])
        for e in range(n_events):
            passes[e] &= np.uint8((value[e] >= low) & (value[e] <= high))
    n = 0
    for e in range(n_events):
        out_block[n], out_event[n] = block, e
        n += passes[e]
    return n
