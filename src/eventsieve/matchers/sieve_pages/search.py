"""How events pass through the sieve: rows are ANDed page by page, and what is left is made exact and listed.

Work goes by chunks of eight pages. Within a chunk all events of a batch meet a page before the next one is looked at,
so its rows are read from main memory once for all of them. Then each event's survivors are finished: where ends of
predicates share a cell with a value, either every survivor is checked in the clause table, or the ends in these cells
are gone through and what fails is cleared, whichever is less work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, trailing_zeros
from eventsieve._kernels.bitset import and_row, copy_row, count_bits
from eventsieve._kernels.buckets import (
    BLOCK_SLOTS,
    BucketLists,
    BucketRule,
    cell_first,
    cell_of_value,
    clear_places,
    clear_places_within,
)
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_four_lines
from eventsieve.matchers.sieve_pages.layout import FINE, GROUP, NONE, PAGE, PAGE_WORDS

if TYPE_CHECKING:
    from eventsieve.matchers.sieve_pages.layout import Attributes, Pages
    from eventsieve.model.columns import ClauseTable, EventColumns

_CHUNK_PAGES: Final = BLOCK_SLOTS // (PAGE_WORDS * WORD_BITS)
_CHUNK_WORDS: Final = BLOCK_SLOTS // WORD_BITS
_ROWS_AT_ONCE: Final = 16
_CHECK_COST: Final = 40
"""Entries of lists that can be gone through in the time of one look into the clause table."""
_FEW: Final = 16
"""Survivors of a chunk that are checked in the clause table without further thought."""
_BITS_AT_ONCE: Final = 4
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)


class SieveIndex(NamedTuple):
    """The index as kernels see it."""

    rule: BucketRule
    attributes: Attributes
    pages: Pages
    lists: BucketLists  # ends by chunk, attribute and cell
    rare: NDArray[np.int32]  # (n_rare,), attributes without rows
    null: NDArray[np.uint64]  # (n_chunks, n_rare, _CHUNK_WORDS), the slot does not ask for the rare attribute
    table: ClauseTable


class Batch(NamedTuple):
    """Events as the sieve sees them."""

    value: NDArray[np.float64]  # (n_events, n_attributes), NaN where an event lacks it: no comparison with it holds
    row_start: NDArray[np.int64]  # (n_events, ...), where in a page the rows to AND begin, for absent attributes first
    n_chosen: NDArray[np.int32]  # (n_events,), a multiple of four: the last row may come several times
    unsure: NDArray[np.bool_]  # (n_events,), some value shares its cell with an end that it may fail


class Found(NamedTuple):
    """Matches in the order they were found: chunk by chunk, and within a chunk event by event."""

    slots: NDArray[np.int32]
    start: NDArray[np.int64]  # (n_chunks * n_events + 1,)


@kernel
def match(index: SieveIndex, events: EventColumns, first: int, n_events: int, out: Found) -> bool:
    """Match the events from `first` on together; return False if there is no room for all matches."""
    batch = _translated(index, events, first, n_events)
    n_pages = index.pages.alive.shape[0]
    n_chunks = -(-n_pages // _CHUNK_PAGES)
    results = np.empty((n_events, _CHUNK_WORDS), np.uint64)
    left = np.empty(n_events, np.uint32)
    used = 0
    for chunk in range(n_chunks):
        first_page = chunk * _CHUNK_PAGES
        left[:] = 0
        for page in range(first_page, min(first_page + _CHUNK_PAGES, n_pages)):
            begin = (page - first_page) * PAGE_WORDS
            for e in range(n_events):
                some = _sift(index.pages, page, batch, e, results[e, begin : begin + PAGE_WORDS])
                left[e] |= np.uint32(some) << np.uint32(page - first_page)
        for e in range(n_events):
            out.start[chunk * n_events + e] = used
            if left[e]:
                used = _finish(index, chunk, batch, e, left[e], results[e], used, out.slots)
                if used < 0:
                    return False
    out.start[n_chunks * n_events] = used
    return True


@kernel
def _translated(index: SieveIndex, events: EventColumns, first: int, n_events: int) -> Batch:
    """Return events from `first` on as a batch."""
    attributes, n_cells = index.attributes, index.attributes.highest_low.shape[1]
    n_attributes = attributes.row_attribute.shape[0]
    n_groups = -(-attributes.n_row_attributes // GROUP)
    batch = Batch(
        np.full((n_events, n_attributes), np.nan),
        np.zeros((n_events, n_attributes + 4), np.int64),
        np.empty(n_events, np.int32),
        np.zeros(n_events, np.bool_),
    )
    absent = np.empty(n_groups, np.int32)
    for e in range(n_events):
        absent[:] = (1 << GROUP) - 1
        if attributes.n_row_attributes % GROUP:
            absent[n_groups - 1] = (1 << attributes.n_row_attributes % GROUP) - 1
        for i in range(events.start[first + e], events.start[first + e + 1]):
            a = events.attribute[i]
            batch.value[e, a] = events.value[i]
            r = attributes.row_attribute[a]
            if r != NONE:
                absent[r // GROUP] &= ~(1 << (r % GROUP))
        n = 0
        for group in range(n_groups):
            if absent[group]:
                row = attributes.n_row_attributes * n_cells + (group << GROUP) + absent[group]
                batch.row_start[e, n] = row * PAGE_WORDS
                n += 1
        for i in range(events.start[first + e], events.start[first + e + 1]):
            a, value = events.attribute[i], events.value[i]
            r = attributes.row_attribute[a]
            if r != NONE:
                c = cell_of_value(index.rule, a, value) // FINE
                batch.row_start[e, n] = (r * n_cells + c) * PAGE_WORDS
                n += 1
                batch.unsure[e] |= _is_unsure(attributes, a, c, value)
        while n % 4:
            batch.row_start[e, n] = batch.row_start[e, n - 1]
            n += 1
        batch.n_chosen[e] = n
    return batch


@inlined
def _is_unsure(attributes: Attributes, a: int, c: int, value: float) -> bool:
    """Tell whether a value may fail an end in its own cell."""
    return bool(value < attributes.highest_low[a, c] or value > attributes.lowest_high[a, c])


@kernel
def _sift(pages: Pages, page: int, batch: Batch, e: int, result: NDArray[np.uint64]) -> bool:
    """Set the result to the clauses of a page that no row rules out; return whether there are any."""
    rows = pages.rows[page].reshape(pages.rows[page].size)
    row_start, n_chosen = batch.row_start[e], batch.n_chosen[e]
    copy_row(pages.alive[page], result)
    for i in range(0, n_chosen, _ROWS_AT_ONCE):
        for j in range(i, min(i + _ROWS_AT_ONCE, n_chosen), 4):
            r0, r1, r2, r3 = row_start[j], row_start[j + 1], row_start[j + 2], row_start[j + 3]
            for w in range(0, PAGE_WORDS, LINE_WORDS):
                and_four_lines(rows, r0 + w, r1 + w, r2 + w, r3 + w, result, w)
        if _any(result) == _ZERO:
            return False
    return True


@inlined
def _any(words: NDArray[np.uint64]) -> np.uint64:
    """Return zero if no bit is set."""
    together = _ZERO
    for w in range(words.shape[0]):
        together |= words[w]
    return together


@kernel
def _finish(
    index: SieveIndex,
    chunk: int,
    batch: Batch,
    e: int,
    left: int,
    result: NDArray[np.uint64],
    used: int,
    out_slots: NDArray[np.int32],
) -> int:
    """Make the survivors of a chunk exact and list them; return the places used then, or -1 if there are not enough.

    Bit p of `left` says that page p has survivors. Results of pages without are left unset.
    """
    n_left = 0
    for page in range(_CHUNK_PAGES):
        if left >> page & 1:
            n_left += count_bits(result[page * PAGE_WORDS : (page + 1) * PAGE_WORDS])
    if used + n_left > out_slots.shape[0]:
        return -1
    if (batch.unsure[e] or index.rare.shape[0]) and n_left > 0:
        if n_left <= _FEW or n_left * _CHECK_COST < _work_in_lists(index, chunk, batch, e):
            return _list_checked(index, chunk, batch.value[e], left, result, used, out_slots)
        _clear_failing(index, chunk, batch, e, result)
    for page in range(_CHUNK_PAGES):
        if left >> page & 1:
            words = result[page * PAGE_WORDS : (page + 1) * PAGE_WORDS]
            used = _list_slots(words, chunk * BLOCK_SLOTS + page * PAGE, used, out_slots)
    return used


@kernel
def _work_in_lists(index: SieveIndex, chunk: int, batch: Batch, e: int) -> int:
    """Return about how many entries `_clear_failing` would go through."""
    # Half of the ends in the cells of values with rows, half of all ends of rare attributes.
    n_entries = index.lists.place.shape[0] // max(1, index.null.shape[0])
    work = n_entries // (2 * index.attributes.highest_low.shape[1])
    n_attributes = index.attributes.row_attribute.shape[0]
    n_cells = index.rule.n_cells
    for a in index.rare:
        if np.isnan(batch.value[e, a]):
            work += _CHUNK_WORDS // 4
        else:
            low_list = 2 * (chunk * n_attributes + a)
            work += (cell_first(index.lists, low_list, n_cells) + cell_first(index.lists, low_list + 1, n_cells)) // 2
    return int(work)


@kernel
def _clear_failing(index: SieveIndex, chunk: int, batch: Batch, e: int, result: NDArray[np.uint64]) -> None:
    """Clear what fails among the ends that share a cell with a value, and all that fails of rare attributes."""
    attributes = index.attributes
    n_attributes = attributes.row_attribute.shape[0]
    place = index.lists.place
    for i in range(index.rare.shape[0]):
        if np.isnan(batch.value[e, index.rare[i]]):
            and_row(index.null[chunk, i], result)
    for a in range(n_attributes):
        value = batch.value[e, a]
        if np.isnan(value):
            continue
        own = cell_of_value(index.rule, a, value)
        first, stop = 0, index.rule.n_cells
        if attributes.row_attribute[a] != NONE:
            # The row has ruled out what fails by more than its cell.
            cell = own // FINE
            if not _is_unsure(attributes, a, cell, value):
                continue
            first, stop = cell * FINE, (cell + 1) * FINE
        low_list = 2 * (chunk * n_attributes + a)
        low, high = index.lists.start[low_list], index.lists.start[low_list + 1]
        low_own = low + cell_first(index.lists, low_list, own)
        low_above = low + cell_first(index.lists, low_list, own + 1)
        high_own = high + cell_first(index.lists, low_list + 1, own)
        high_above = high + cell_first(index.lists, low_list + 1, own + 1)
        clear_places(place, low_above, low + cell_first(index.lists, low_list, stop), result)
        clear_places(place, high + cell_first(index.lists, low_list + 1, first), high_own, result)
        clear_places_within(index.lists, low_own, low_above, np.nextafter(value, np.inf), np.inf, result)
        clear_places_within(index.lists, high_own, high_above, -np.inf, np.nextafter(value, -np.inf), result)


@kernel
def _list_slots(words: NDArray[np.uint64], begin: int, used: int, out_slots: NDArray[np.int32]) -> int:
    """List the survivors of a page; return the places used then."""
    for w in range(PAGE_WORDS):
        word = words[w]
        place = begin + w * WORD_BITS
        n_bits = popcount(word)
        n_listed = 0
        if used + _BITS_AT_ONCE <= out_slots.shape[0]:
            # As many as a word mostly has, whether it has them or not: cheaper than to guess wrong where to stop.
            for i in range(_BITS_AT_ONCE):
                out_slots[used + i] = place + trailing_zeros(word | np.uint64(word == _ZERO))
                word &= word - _ONE
            n_listed = _BITS_AT_ONCE
        for i in range(n_listed, n_bits):
            out_slots[used + i] = place + trailing_zeros(word)
            word &= word - _ONE
        used += n_bits
    return used


@kernel
def _list_checked(
    index: SieveIndex,
    chunk: int,
    row: NDArray[np.float64],
    left: int,
    result: NDArray[np.uint64],
    used: int,
    out_slots: NDArray[np.int32],
) -> int:
    """List the survivors that the clause table confirms; return the places used then."""
    table = index.table
    for w in range(_CHUNK_WORDS):
        word = result[w] if left >> (w // PAGE_WORDS) & 1 else _ZERO
        while word != _ZERO:
            slot = chunk * BLOCK_SLOTS + w * WORD_BITS + trailing_zeros(word)
            word &= word - _ONE
            holds = True
            for p in range(table.start[slot], table.stop[slot]):
                value = row[table.attribute[p]]
                if not (table.low[p] <= value <= table.high[p]):
                    holds = False
                    break
            out_slots[used] = slot
            used += holds
    return used


@kernel
def gather(
    found: Found, n_events: int, n_chunks: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
) -> int:
    """Copy the matches event by event; return how many there are."""
    used = 0
    for e in range(n_events):
        before = used
        for chunk in range(n_chunks):
            i = chunk * n_events + e
            for j in range(found.start[i], found.start[i + 1]):
                out_slots[used] = found.slots[j]
                used += 1
        out_count[e] = used - before
    return used
