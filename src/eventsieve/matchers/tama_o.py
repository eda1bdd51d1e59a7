"""TAMA-O: TAMA's cells under the BOP paradigm, with bitsets in the place of counters.

Paper: Liang et al., "BOP: A Bitset-based Optimization Paradigm for Content-based Event Matching Algorithms"
(SEKE 2023), section V-A. Per attribute of the event: copy the bitset of the clauses that do not ask for it, set the
bits of all clauses found in the cells of the value, and AND the outcome into the result. Attributes that the event
lacks contribute their null bitset alone. Set bits in the end are the matches. (The text once says "unmarked".)

Differences from the paper:

* Exact by default. A clause found in a cell that its predicate covers only in part is taken for satisfied first, and
  checked on this one attribute in the end, if it is still in the result. `exact=False` leaves the check out, as the
  paper does.
* One level has *ready bitsets*: for each of its cells the null bitset with all clauses already set that cover the cell
  whole. It is copied in the null bitset's place, and the lists of this and all coarser levels, which are the long
  ones, are not needed at all. `ready_level=0` is the paper's TAMA-O. By default the level is chosen at build, as
  fine as `_READY_BYTES` per predicate allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import ALL_ONES, and_row, clear_bit, copy_row, extract_bits, has_bit, set_bit
from eventsieve._kernels.bop import BlockRows, absent_attributes, start_block
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.halving import (
    CellLists,
    Filing,
    cell_of_value,
    covered_cells,
    is_outside,
    key_of_page,
    list_of_cell,
    list_of_edge,
    lists_in_page,
)
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.bop import NullBitsets
from eventsieve.matchers.halved_cells import HalvedCells, HalvedCellsMatcher
from eventsieve.model.columns import ClauseTable, EventColumns, flat
from eventsieve.model.transform import TransformChoice

_READY_BYTES = 32
"""Memory for ready bitsets per predicate. It is about what the lists they replace would take, twice over."""
_MOST_READY = 8
"""The finest level that ready bitsets are chosen for."""
_LEAST_BLOCK_BITS = 12
_MOST_BLOCK_BITS = 20
"""Slots per block, as powers of two: rows of 128 KB at most, two of which fit the second-level cache."""


class TamaO(HalvedCellsMatcher):
    name = "tama-o"
    summary = "TAMA's cells, attributes joined by AND of bitsets"
    capabilities = Capabilities(
        paper="BOP (Liang et al., SEKE 2023), section V-A",
        approximate="exact=False: a value may miss an interval by less than a finest cell, 1/2**levels of the domain",
        transforms=True,
    )

    def __init__(
        self,
        *,
        levels: int = 12,
        exact: bool = True,
        ready_level: int | None = None,
        transform: TransformChoice = "linear",
    ) -> None:
        self._set_parameters(levels, exact, transform)
        if ready_level is not None and not 0 <= ready_level < levels:
            raise ValueError(f"ready_level must be from 0 to levels - 1 = {levels - 1}, not {ready_level}")
        self.ready_level = ready_level

    def _build(self) -> None:
        self._choose_table()
        bits = max(0, self.n_slots - 1).bit_length()
        block_bits = min(max(bits, _LEAST_BLOCK_BITS), _MOST_BLOCK_BITS)
        self._make_empty(self._choose_level(), block_bits)
        self._add_blocks()
        every_slot = np.arange(self.n_slots, dtype=np.int32)
        self._nulls.insert(self.clauses, every_slot)
        _enter_ready(self._cells.filing, self.clauses, every_slot, self._ready)
        self._cells.build(self.clauses)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        block_bits = self._cells.filing.block_bits
        if self.n_slots > 1 << block_bits and block_bits < _MOST_BLOCK_BITS:
            # Every block has lists of its own, so a large index must not be made of small blocks.
            self._build()
            return
        self._add_blocks()
        self._nulls.insert(self.clauses, slots)
        _enter_ready(self._cells.filing, self.clauses, slots, self._ready)
        self._cells.insert(self.clauses, slots)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._nulls.delete(self.clauses, slots)
        _remove_ready(self._cells.filing, self.clauses, slots, self._ready)
        self._cells.delete(self.clauses, slots)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        index = TamaOIndex(self.clauses, self._cells.filing, self._cells.lists, self._ready, self.exact)
        return _match(index, self._nulls.rows, events, first, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        filing = self._cells.filing
        shape = np.array([filing.root, filing.block_bits], np.int32)
        lists = self._cells.arrays("cells_")
        return {"shape": shape, "ready": self._ready, **self._nulls.arrays(), **lists, **self._table_arrays()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._restore_table(arrays)
        ready_level, block_bits = arrays["shape"].tolist()
        self._make_empty(ready_level, block_bits)
        self._ready = flat(arrays["ready"], np.uint64)
        self._nulls.restore(arrays)
        self._cells.restore(arrays, "cells_")

    def _describe(self) -> dict[str, Any]:
        return {
            "finest_cells": 1 << self.levels,
            "ready_level": self._cells.filing.root,
            "ready_bytes": self._ready.nbytes,
            "entries": self._cells.n_entries,
            "longest_list": self._cells.longest_list,
        }

    def _choose_level(self) -> int:
        """Return the finest level whose ready bitsets are worth their memory, unless one was asked for."""
        if self.ready_level is not None:
            return self.ready_level
        n_predicates = int((self.clauses.stop - self.clauses.start).sum())
        rows = n_predicates * _READY_BYTES * 8 // max(1, self.n_slots * self.n_attributes)
        return min(max(0, rows.bit_length() - 1), self.levels - 1, _MOST_READY)

    def _make_empty(self, ready_level: int, block_bits: int) -> None:
        most = np.iinfo(np.int32).max
        filing = Filing(self._table, self.levels, ready_level, ready_level + 1, self.levels, block_bits, most)
        self._cells = HalvedCells(filing, np.uint32)
        self._nulls = NullBitsets(self.n_attributes, 1 << block_bits)
        words = (1 << block_bits) // WORD_BITS
        self._ready = np.empty((0, self.n_attributes << ready_level, words), np.uint64)

    def _add_blocks(self) -> None:
        """Give every block its bitsets, with all bits set as in the null bitsets."""
        self._nulls.make_room(self.n_slots)
        _, rows, words = self._ready.shape
        more = self._nulls.n_blocks - self._ready.shape[0]
        if more > 0:
            self._ready = np.concatenate([self._ready, np.full((more, rows, words), ALL_ONES)])


class TamaOIndex(NamedTuple):
    """The index as kernels see it."""

    clauses: ClauseTable
    filing: Filing
    lists: CellLists
    ready: NDArray[np.uint64]  # (n_blocks, n_attributes * 2**ready_level, words_per_block)
    exact: bool


@kernel
def _match(
    index: TamaOIndex,
    rows: BlockRows,
    events: EventColumns,
    first: int,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on, as the contract of `Matcher._match_events` says."""
    n_slots = index.clauses.start.shape[0]
    n_attributes = rows.null.shape[1]
    block_slots = 1 << index.filing.block_bits
    result = np.empty(rows.alive.shape[1], np.uint64)
    matched = np.empty(rows.alive.shape[1], np.uint64)
    absent = np.empty(n_attributes, np.int32)
    used = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - used < n_slots:
            return e
        before = used
        n_absent = absent_attributes(events, e, n_attributes, absent)
        present = range(events.start[e], events.start[e + 1])
        for block in range(rows.alive.shape[0]):
            start_block(rows, block, absent, n_absent, result)
            for i in present:
                _narrow(index, block, events.attribute[i], events.value[i], matched, result)
            for i in present:
                _check_edges(index, block, events.attribute[i], events.value[i], result)
            used = extract_bits(result, block * block_slots, used, out_slots)
        out_count[e] = used - before
    return events.start.shape[0] - 1


@kernel
def _narrow(
    index: TamaOIndex, block: int, a: int, value: float, matched: NDArray[np.uint64], out_result: NDArray[np.uint64]
) -> None:
    """AND (null OR match) of one attribute into the result; clauses in edge lists are taken for satisfied."""
    filing, lists = index.filing, index.lists
    cell = cell_of_value(filing, a, value)
    copy_row(index.ready[block, _ready_row(filing, a, cell)], matched)
    page = lists.page_of_key[key_of_page(filing, block, a, cell)]
    if page >= 0:
        first_list = page * lists_in_page(filing)
        for level in range(filing.top, filing.levels + 1):
            _set_bits(lists, first_list + list_of_cell(filing, level, cell >> (filing.levels - level)), matched)
        _set_bits(lists, first_list + list_of_edge(filing, cell), matched)
    # Noting the clauses found that are still in the result, to set them again after an AND without a copy, took
    # half as long again.
    and_row(matched, out_result)


@inlined
def _set_bits(lists: CellLists, i: int, out_words: NDArray[np.uint64]) -> None:
    """Set the bits of all clauses of list i."""
    begin = lists.start[i]
    for entry in lists.entries[begin : begin + lists.length[i]]:
        set_bit(out_words, entry)


@kernel
def _check_edges(index: TamaOIndex, block: int, a: int, value: float, out_result: NDArray[np.uint64]) -> None:
    """Clear the clauses found in the edge list of a value that do not hold for it, of those that are left."""
    filing, lists = index.filing, index.lists
    # Outside the domain an edge cell has no width, so there not even the approximate mode takes its word.
    if not (index.exact or is_outside(filing, a, value)):
        return
    cell = cell_of_value(filing, a, value)
    page = lists.page_of_key[key_of_page(filing, block, a, cell)]
    if page < 0:
        return
    edge = page * lists_in_page(filing) + list_of_edge(filing, cell)
    begin = lists.start[edge]
    for entry in lists.entries[begin : begin + lists.length[edge]]:
        s = (block << filing.block_bits) + int(entry)
        if has_bit(out_result, entry) and not _satisfied(index.clauses, s, a, value):
            clear_bit(out_result, entry)


@inlined
def _ready_row(filing: Filing, a: int, cell: int) -> int:
    """Return the row of the ready bitset for a finest cell."""
    return (a << filing.root) + (cell >> (filing.levels - filing.root))


@inlined
def _satisfied(clauses: ClauseTable, s: int, a: int, value: float) -> bool:
    """Tell whether a value satisfies what slot s asks of attribute a."""
    for p in range(clauses.start[s], clauses.stop[s]):
        if clauses.attribute[p] == a and not clauses.low[p] <= value <= clauses.high[p]:
            return False
    return True


@kernel
def _enter_ready(filing: Filing, clauses: ClauseTable, slots: NDArray[np.int32], ready: NDArray[np.uint64]) -> None:
    """Clear the bits of the clauses at `slots` for all cells that their predicates do not cover whole."""
    ready_cells = 1 << filing.root
    below = filing.levels - filing.root
    for s in slots:
        block, place = s >> filing.block_bits, s & ((1 << filing.block_bits) - 1)
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            first, stop, _, _ = covered_cells(filing, a, clauses.low[p], clauses.high[p])
            first_ready = (first + (1 << below) - 1) >> below
            stop_ready = stop >> below
            for cell in range(ready_cells):
                if not first_ready <= cell < stop_ready:
                    clear_bit(ready[block, a * ready_cells + cell], place)


@kernel
def _remove_ready(filing: Filing, clauses: ClauseTable, slots: NDArray[np.int32], ready: NDArray[np.uint64]) -> None:
    """Set all bits of the clauses at `slots` again."""
    ready_cells = 1 << filing.root
    for s in slots:
        block, place = s >> filing.block_bits, s & ((1 << filing.block_bits) - 1)
        for p in range(clauses.start[s], clauses.stop[s]):
            first_row = clauses.attribute[p] * ready_cells
            for row in range(first_row, first_row + ready_cells):
                set_bit(ready[block, row], place)
