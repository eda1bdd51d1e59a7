"""TAMA: cells halved level by level, and a counter per clause.

Described in the BOP paper, section III-B, and as a counterpart in the papers on H-Tree, HEM and GEM-Tree: a table by
attribute and discretisation level. A predicate is stored in at most two cells per level, all covered by it; an event
value visits one cell per level and counts up every clause it finds. A clause matches when it was counted once for
each of its predicates.

Differences from the paper:

* Exact by default. A predicate covers the finest cells at its two ends only in part. A clause counted there is
  marked as doubtful, and is checked in full if its count is complete; all others are matches without any check.
  With `exact=False` nothing is marked: the paper's TAMA, with false positives and no lost match.
* Counters count down from the number of predicates, so that a match is a zero byte and eight are tested at once.
* Lists of the coarse levels, which hold nearly all entries a value visits, are cut by blocks of slots: their counters
  then fit the first-level cache and an entry takes two bytes.
* A cell's list is found by its number, not in a hash map: with 4096 finest cells nearly every cell is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import trailing_zeros
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.halving import (
    CellLists,
    Entries,
    Filing,
    cell_of_value,
    is_outside,
    key_of_page,
    list_of_cell,
    list_of_edge,
    lists_in_page,
)
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.halved_cells import HalvedCells, HalvedCellsMatcher
from eventsieve.model.columns import ClauseTable, EventColumns, flat
from eventsieve.model.growing import GrowingArray
from eventsieve.model.transform import TransformChoice

_BLOCK_BITS = 16
"""Slots per block, as a power of two: 64 KB of counters."""
_SEGMENT_BITS = 20
"""Slots per segment, as a power of two. The fine levels have short lists, cut by segment only: 1 MB of counters."""
_COARSE_LEVELS = 6
"""The finest level with lists by block. Beyond it they would be too short to pay for a list per block."""
_MOST_COUNTED = 127
"""Predicates that a counter can count. A longer clause is counted by its first ones, and always in doubt."""
_GROUP = 32
"""Words of eight counters that are looked through for a match at once."""
_DOUBT = np.uint8(128)
_FREE = np.uint8(127)
"""The counter of a slot without a clause: never zero, since nothing counts it down."""


class Tama(HalvedCellsMatcher):
    name = "tama"
    summary = "cells halved level by level, a counter per clause"
    capabilities = Capabilities(
        paper="TAMA, as the BOP, H-Tree and HEM papers describe it",
        approximate="exact=False: a value may miss an interval by less than a finest cell, 1/2**levels of the domain",
        transforms=True,
    )

    def __init__(self, *, levels: int = 12, exact: bool = True, transform: TransformChoice = "linear") -> None:
        self._set_parameters(levels, exact, transform)

    def _build(self) -> None:
        self._choose_table()
        self._make_empty()
        self._coarse.build(self.clauses)
        self._fine.build(self.clauses)
        self._required = GrowingArray(_counters(self.clauses.stop - self.clauses.start))

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._coarse.insert(self.clauses, slots)
        self._fine.insert(self.clauses, slots)
        self._required.resize(self.n_slots, _FREE)
        self._required.view[slots] = _counters(self.clauses.stop[slots] - self.clauses.start[slots])

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._coarse.delete(self.clauses, slots)
        self._fine.delete(self.clauses, slots)
        self._required.view[slots] = _FREE

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        index = TamaIndex(
            self._coarse.filing,
            self._coarse.lists,
            self._fine.filing,
            self._fine.lists,
            self._required.view,
            self.exact,
        )
        return _match(self.clauses, index, events, first, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        lists = {**self._coarse.arrays("coarse_"), **self._fine.arrays("fine_")}
        return {"required": self._required.view, **lists, **self._table_arrays()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._restore_table(arrays)
        self._make_empty()
        self._required = GrowingArray(flat(arrays["required"], np.uint8))
        self._coarse.restore(arrays, "coarse_")
        self._fine.restore(arrays, "fine_")

    def _describe(self) -> dict[str, Any]:
        return {
            "finest_cells": 1 << self.levels,
            "entries": self._coarse.n_entries + self._fine.n_entries,
            "longest_list": max(self._coarse.longest_list, self._fine.longest_list),
        }

    def _make_empty(self) -> None:
        split = min(_COARSE_LEVELS, self.levels - 1)
        coarse = Filing(self._table, self.levels, 0, 0, split, _BLOCK_BITS, _MOST_COUNTED)
        fine = Filing(self._table, self.levels, split, split + 1, self.levels, _SEGMENT_BITS, _MOST_COUNTED)
        self._coarse = HalvedCells(coarse, np.uint16)
        self._fine = HalvedCells(fine, np.uint32)


class TamaIndex(NamedTuple):
    """The index as kernels see it."""

    coarse_filing: Filing
    coarse: CellLists
    fine_filing: Filing
    fine: CellLists
    required: NDArray[np.uint8]  # (n_slots,), where each counter begins
    exact: bool


class Visit(NamedTuple):
    """An event on its way through the cells, and scratch to look lists up in."""

    attributes: NDArray[np.int32]
    values: NDArray[np.float64]
    cells: NDArray[np.int32]
    list_start: NDArray[np.int64]
    list_length: NDArray[np.int32]


def _counters(n_predicates: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return where the counter of a clause begins, by its number of predicates; none means a free slot."""
    counters = np.minimum(n_predicates, _MOST_COUNTED).astype(np.uint8)
    counters[n_predicates > _MOST_COUNTED] |= _DOUBT
    counters[n_predicates == 0] = _FREE
    return counters


@kernel
def _match(
    clauses: ClauseTable,
    index: TamaIndex,
    events: EventColumns,
    first: int,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on, as the contract of `Matcher._match_events` says."""
    n_slots = clauses.start.shape[0]
    segment_slots = 1 << _SEGMENT_BITS
    block_slots = 1 << _BLOCK_BITS
    counter_words = np.empty((min(n_slots, segment_slots) + 7) >> 3, np.uint64)
    counters = counter_words.view(np.uint8)
    value_of_attribute = np.full(index.fine_filing.table.start.shape[0] - 1, np.nan)
    used = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - used < n_slots:
            return e
        before = used
        visit = _visit(index, events, e)
        value_of_attribute[:] = np.nan
        for i in range(visit.values.shape[0]):
            value_of_attribute[visit.attributes[i]] = visit.values[i]
        for segment in range(0, n_slots, segment_slots):
            segment_stop = min(segment + segment_slots, n_slots)
            _start_counters(index.required[segment:segment_stop], counters)
            _count_fine(index, visit, segment >> _SEGMENT_BITS, counters)
            for block in range(segment, segment_stop, block_slots):
                begin = block - segment
                end = min(block + block_slots, segment_stop) - segment
                _count_coarse(index, visit, block >> _BLOCK_BITS, counters[begin:end])
                words = counter_words[begin >> 3 : (end + 7) >> 3]
                used = _collect(clauses, words, block, value_of_attribute, used, out_slots)
        out_count[e] = used - before
    return events.start.shape[0] - 1


@kernel
def _visit(index: TamaIndex, events: EventColumns, e: int) -> Visit:
    """Find the finest cells of an event's values."""
    attributes = events.attribute[events.start[e] : events.start[e + 1]]
    values = events.value[events.start[e] : events.start[e + 1]]
    cells = np.empty(values.shape[0], np.int32)
    for i in range(values.shape[0]):
        cells[i] = cell_of_value(index.fine_filing, attributes[i], values[i])
    most_lists = values.shape[0] * (index.fine_filing.levels + 1)
    return Visit(attributes, values, cells, np.empty(most_lists, np.int64), np.empty(most_lists, np.int32))


@kernel
def _start_counters(required: NDArray[np.uint8], counters: NDArray[np.uint8]) -> None:
    """Set the counters of one segment to their first values."""
    # A loop, because a slice assignment copies byte by byte: 0.4 ms for a million.
    for i in range(required.shape[0]):
        counters[i] = required[i]
    # The last word may reach past the last slot.
    for i in range(required.shape[0], counters.shape[0]):
        counters[i] = _FREE


@kernel
def _count_fine(index: TamaIndex, visit: Visit, segment: int, counters: NDArray[np.uint8]) -> None:
    """Count down what each value finds on the fine levels; clauses in edge lists become doubtful."""
    filing, lists = index.fine_filing, index.fine
    _count_down(lists.entries, visit, _look_up(filing, lists, visit, segment), counters)
    page_lists = lists_in_page(filing)
    for i in range(visit.cells.shape[0]):
        a, cell = visit.attributes[i], visit.cells[i]
        page = lists.page_of_key[key_of_page(filing, segment, a, cell)]
        if page < 0:
            continue
        edge = page * page_lists + list_of_edge(filing, cell)
        # Outside the domain an edge cell has no width, so there not even the approximate mode takes its word.
        doubt = _DOUBT if index.exact or is_outside(filing, a, visit.values[i]) else np.uint8(0)
        begin = lists.start[edge]
        for entry in lists.entries[begin : begin + lists.length[edge]]:
            counters[entry] = (counters[entry] - np.uint8(1)) | doubt


@kernel
def _count_coarse(index: TamaIndex, visit: Visit, block: int, counters: NDArray[np.uint8]) -> None:
    """Count down what each value finds on the coarse levels, in one block of slots."""
    n_lists = _look_up(index.coarse_filing, index.coarse, visit, block)
    _count_down(index.coarse.entries, visit, n_lists, counters)


@inlined
def _look_up(filing: Filing, lists: CellLists, visit: Visit, block: int) -> int:
    """Write down all lists that the event visits in a block; return how many.

    All are looked up before the first is read: the waits for memory then overlap.
    """
    page_lists = lists_in_page(filing)
    n_lists = 0
    for i in range(visit.cells.shape[0]):
        cell = visit.cells[i]
        page = lists.page_of_key[key_of_page(filing, block, visit.attributes[i], cell)]
        if page < 0:
            continue
        for level in range(filing.top, filing.bottom + 1):
            found = page * page_lists + list_of_cell(filing, level, cell >> (filing.levels - level))
            visit.list_start[n_lists] = lists.start[found]
            visit.list_length[n_lists] = lists.length[found]
            n_lists += 1
    return n_lists


@inlined
def _count_down(entries: Entries, visit: Visit, n_lists: int, counters: NDArray[np.uint8]) -> None:
    """Count down the clauses of the lists looked up."""
    for i in range(n_lists):
        begin = visit.list_start[i]
        for entry in entries[begin : begin + visit.list_length[i]]:
            counters[entry] -= np.uint8(1)


@kernel
def _collect(
    clauses: ClauseTable,
    words: NDArray[np.uint64],
    first_slot: int,
    value_of_attribute: NDArray[np.float64],
    used: int,
    out_slots: NDArray[np.int32],
) -> int:
    """Write the slots whose counter is zero, doubtful ones only after a check; return the places used."""
    n_words = words.shape[0]
    for group in range(0, n_words, _GROUP):
        stop = min(group + _GROUP, n_words)
        # Most groups hold no match. This loop has no branch, so it runs in wide registers.
        any_zero = np.uint64(0)
        for w in range(group, stop):
            any_zero |= _zero_counters(words[w])
        if not any_zero:
            continue
        for w in range(group, stop):
            zeros = _zero_counters(words[w])
            while zeros:
                byte = trailing_zeros(zeros) >> 3
                s = first_slot + w * 8 + byte
                doubtful = (words[w] >> np.uint64(8 * byte + 7)) & np.uint64(1)
                if not doubtful or clause_holds(clauses, s, value_of_attribute):
                    out_slots[used] = s
                    used += 1
                zeros &= zeros - np.uint64(1)
    return used


@inlined
def _zero_counters(word: np.uint64) -> np.uint64:
    """Return the top bit of each byte of which the lower seven bits are zero."""
    low_bits = np.uint64(0x7F7F7F7F7F7F7F7F)
    # Adding 127 carries into the top bit of every byte that is not zero, and never beyond.
    return ~((word & low_bits) + low_bits) & np.uint64(0x8080808080808080)
