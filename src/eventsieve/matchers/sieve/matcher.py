"""Sieve: similar clauses in blocks that are passed over by their bounds, or in chunks where events match much.

Ours. `order.py` has the order of clauses, `positions.py` where they stand, `layout.py` the rows of blocks, `chunks.py`
those of chunks, `predicates.py` what makes survivors exact, `events.py` and `masks.py` events as they are matched.
`search.py` chooses among the three ways: `by_rows.py`, `by_chunks.py` and `by_masks.py`; `together.py` says how many
events go at a time, and what threads do. docs/matchers/sieve.md tells the idea, the cost model, and what was tried.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.handle import Handle, held
from eventsieve._kernels.packed import whole_apart
from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.sieve.cells import MOST_CELLS, affordable_cells, fastest_cells
from eventsieve.matchers.sieve.chunks import CHUNK, Chunks, no_chunks, remove_from_chunks, with_more
from eventsieve.matchers.sieve.found import Found
from eventsieve.matchers.sieve.layout import (
    NONE,
    Attributes,
    GrowingRows,
    Rows,
    enter_clauses,
    note_ends,
    note_hulls,
    open_hull,
    remove_clauses,
    share_passed,
)
from eventsieve.matchers.sieve.order import BLOCK, match_rate, put_in_order
from eventsieve.matchers.sieve.positions import Positions
from eventsieve.matchers.sieve.predicates import PredicatePool
from eventsieve.matchers.sieve.search import SieveIndex, match
from eventsieve.matchers.sieve.together import TogetherMatcher
from eventsieve.matchers.transforms import check_transform, table_arrays, table_for, table_from
from eventsieve.model.columns import ClauseTable, EventColumns, flat
from eventsieve.model.growing import GrowingArray
from eventsieve.model.transform import TransformChoice, TransformTable

_RARE: Final = 100
"""An attribute that fewer than one in so many clauses ask for has no rows."""
_MOST_VALUES: Final = 64
"""Whole numbers up to so many have a cell each, whatever the memory."""
_MOST_ATTRIBUTES: Final = (1 << 16) - 2
_MANY_MATCHES: Final = 0.006
"""The share of clauses that events match, above which chunks are better than blocks."""
_CHUNK_CELLS: Final = 3
"""Times as many cells as blocks would have: what a cell leaves open takes longest there."""
_SAMPLE: Final = 1 << 14
_LONGEST_TAIL: Final = 64 * BLOCK
"""Clauses that stand in the order they came, before they are arranged too."""


class _OfThread(threading.local):
    """What each thread keeps: kernels count references to the arrays of a handle, and would wait for each other."""

    clauses: ClauseTable | None = None
    handle: Handle[SieveIndex]


class Sieve(TogetherMatcher):
    name = "sieve"
    summary = "similar clauses in blocks, rows of bits by value cell; ours"
    capabilities = Capabilities(paper="ours", transforms=True, shares_batch=True)

    _transform_table: TransformTable
    _apart: NDArray[np.bool_]
    """Per attribute, different whole numbers have different codes."""
    _positions: Positions
    _attributes: Attributes
    _rows: GrowingRows
    _in_chunks: bool
    """Arranged clauses are in chunks, and not in blocks with rows."""
    _chunks: Chunks
    _predicates: PredicatePool
    _built: int
    """Clauses that the rows were chosen for."""
    _of_thread: _OfThread
    """Another one after each change: no thread goes on with old arrays, or keeps them."""

    def __init__(
        self, *, memory: int = 100, cells: int | None = None, rare: int = _RARE, transform: TransformChoice = "linear"
    ) -> None:
        if memory < 1:
            raise ValueError(f"memory is a number of bytes per clause from 1 on, not {memory}")
        if cells is not None and not 1 <= cells <= 1024:
            raise ValueError(f"cells must be from 1 to 1024, not {cells}")
        if rare < 1:
            raise ValueError(f"rare must be at least 1, not {rare}")
        self.memory = int(memory)
        self.cells = cells
        self.rare = int(rare)
        self.transform = check_transform(transform)

    # -- building and changing -------------------------------------------------------------------------------

    def _build(self) -> None:
        self._of_thread = _OfThread()
        if self.n_attributes > _MOST_ATTRIBUTES:
            raise MatcherError(
                f"sieve takes up to {_MOST_ATTRIBUTES} attributes, not {self.n_attributes}; use 'simple'"
            )
        self._take_table(table_for(self, self.transform))
        used = np.flatnonzero(self.clauses.stop > self.clauses.start).astype(np.int32)
        pool = PredicatePool.of(self._transform_table, self.clauses, used)
        self._choose_rows(used, pool)
        order = self._arranged(pool, np.arange(used.size, dtype=np.int32))
        self._predicates = pool.in_order(order)
        self._positions = Positions(used[order], self.n_slots, n_arranged=used.size // BLOCK * BLOCK)
        self._enter_from(0)
        self._built = used.size

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._of_thread = _OfThread()
        if 2 * (len(self._positions) + slots.size) > 3 * self._built + 2 * BLOCK:
            # Attributes and cells were chosen for fewer clauses, and removed ones have left gaps.
            self._build()
            return
        positions = self._positions.give(slots, self.n_slots)
        self._add_blocks()
        self._predicates.insert(self._transform_table, self.clauses, slots, positions)
        note_ends(self._transform_table, self.clauses, slots, self._apart, self._attributes)
        enter_clauses(self._predicates.arrays, positions, self._attributes, self._rows.arrays)
        self._rows.arrays.hull[positions // BLOCK] = open_hull(self.n_attributes)
        if self._positions.n_tail > _LONGEST_TAIL:
            self._arrange_tail()

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._of_thread = _OfThread()
        positions = self._positions.take_back(slots)
        remove_clauses(self._predicates.arrays, positions, self._attributes, self._rows.arrays)
        remove_from_chunks(self._chunks, slots, positions)
        self._predicates.delete(positions)

    def _arrange_tail(self) -> None:
        """Arrange the clauses of the tail as others are."""
        first = self._positions.n_arranged
        order = self._arranged(self._predicates, self._positions.tail())
        self._predicates.arrange(order, first)
        self._positions.arrange(order, (first + order.size) // BLOCK * BLOCK)
        self._enter_from(first)

    def _arranged(self, pool: PredicatePool, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return positions with similar clauses side by side, all in all or within each chunk."""
        together = CHUNK if self._in_chunks else max(1, positions.size)
        for first in range(0, positions.size, together):
            put_in_order(pool.arrays, self.n_attributes, positions[first : first + together])
        return positions

    def _enter_from(self, first: int) -> None:
        """Write the clauses from the first position of a block on into chunks or rows that know nothing of them."""
        predicates, stop = self._predicates.arrays, self._positions.n_arranged
        self._rows.keep(first // BLOCK)
        if self._in_chunks:
            slots = self._positions.slot_of_position[first:stop]
            self._chunks = with_more(self._chunks, predicates, self._attributes, slots, first)
            self._rows.add_chunked(stop // BLOCK)
        self._add_blocks()
        everyone = np.arange(first, len(self._positions), dtype=np.int32)
        enter_clauses(predicates, everyone, self._attributes, self._rows.arrays)
        if not self._in_chunks:
            note_hulls(predicates, first // BLOCK, self.n_attributes, self._rows.arrays.hull)

    # -- matching --------------------------------------------------------------------------------------------

    def _find(self, events: EventColumns, first: int, together: int, part: int, n_parts: int, out: Found) -> int:
        return int(match(self._handle(), events, first, together, part, n_parts, out))

    # -- keeping ---------------------------------------------------------------------------------------------

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        attributes, rows = self._attributes._asdict(), self._rows.arrays._asdict()
        return {
            "shape": np.array([attributes.pop("n_cells"), self._built, self._in_chunks, rows.pop("first")], np.int64),
            **attributes,
            **rows,
            **{f"chunk_{name}": array for name, array in self._chunks._asdict().items()},
            **self._predicates.arrays._asdict(),
            **self._positions.arrays(),
            **table_arrays(self._transform_table),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._of_thread = _OfThread()
        n_cells, self._built, self._in_chunks, first_with_rows = arrays["shape"].tolist()
        self._take_table(table_from(arrays))
        self._attributes = Attributes(
            n_cells,
            flat(arrays["row_attribute"], np.int32),
            flat(arrays["attribute_of_row"], np.int32),
            flat(arrays["highest_low"], np.float64),
            flat(arrays["lowest_high"], np.float64),
            flat(arrays["whole"], np.bool_),
        )
        rows = Rows(
            first_with_rows,
            flat(arrays["bits"], np.uint64),
            flat(arrays["alive"], np.uint64),
            flat(arrays["hull"], np.uint16),
        )
        self._rows = GrowingRows(rows, self.n_attributes)
        chunks = (arrays[f"chunk_{name}"] for name in Chunks._fields)
        self._chunks = Chunks(*(flat(array, array.dtype) for array in chunks))
        self._positions = Positions.restored(arrays, self.n_slots)
        code, span = flat(arrays["code"], np.uint16), flat(arrays["span"], np.int32)
        self._predicates = PredicatePool(GrowingArray(code), GrowingArray(span))

    def _describe(self) -> dict[str, Any]:
        rows = self._rows.arrays
        return {
            "cells": self._attributes.n_cells,
            "attributes_with_rows": self._attributes.attribute_of_row.size,
            "blocks": rows.hull.shape[0],
            "blocks_looked_into": round(share_passed(rows.hull[rows.first :]), 4),
            "chunks": self._chunks.stop.size,
            "row_bytes": rows.bits.nbytes + self._chunks.rows.nbytes,
        }

    # -- inside ----------------------------------------------------------------------------------------------

    def _index(self) -> SieveIndex:
        return SieveIndex(
            self._transform_table,
            self._apart,
            self._attributes,
            self._rows.arrays,
            self._chunks,
            self._predicates.arrays,
            self._positions.slot_of_position,
            self.clauses,
        )

    def _handle(self) -> Handle[SieveIndex]:
        """Return the index as `match` takes it, kept until the next change."""
        kept = self._of_thread
        if kept.clauses is not self.clauses:
            kept.clauses, kept.handle = self.clauses, held(self._index())
        return kept.handle

    def _take_table(self, table: TransformTable) -> None:
        self._transform_table = table
        self._apart = whole_apart(table)

    def _choose_rows(self, used: NDArray[np.int32], pool: PredicatePool) -> None:
        """Give rows to the attributes that enough clauses ask for, the most popular first, and choose the layout."""
        asked = np.bincount(self.clauses.attribute, minlength=self.n_attributes)
        frequent = (asked > 0) & (asked * self.rare >= used.size)
        attribute_of_row = np.argsort(-asked, kind="stable")[: int(frequent.sum())].astype(np.int32)
        cells = self.cells or affordable_cells(self.memory, attribute_of_row.size)
        self._learn_attributes(used, attribute_of_row, cells)
        if self.cells is None and self._n_values() <= _MOST_VALUES and not self._rows_decide():
            # A few more rows, and they leave no doubt.
            cells = int(self._n_values())
            self._learn_attributes(used, attribute_of_row, cells)
        self._in_chunks = self._matches_many(used) and not self._rows_decide()
        if self.cells is None and not self._rows_decide():
            sample = np.arange(0, used.size, max(1, used.size // _SAMPLE), dtype=np.int32)
            better = (
                min(_CHUNK_CELLS * cells, MOST_CELLS)
                if self._in_chunks
                else fastest_cells(pool.arrays, sample, self._attributes.row_attribute, cells)
            )
            if better != cells:
                self._learn_attributes(used, attribute_of_row, better)
        self._chunks = no_chunks(self._attributes)
        self._rows = GrowingRows.of_no_blocks(self._attributes)

    def _learn_attributes(self, used: NDArray[np.int32], attribute_of_row: NDArray[np.int32], cells: int) -> None:
        row_attribute = np.full(self.n_attributes, NONE, np.int32)
        row_attribute[attribute_of_row] = np.arange(attribute_of_row.size)
        self._attributes = Attributes(
            cells,
            row_attribute,
            attribute_of_row,
            np.full((self.n_attributes, cells), -np.inf),
            np.full((self.n_attributes, cells), np.inf),
            np.ones(self.n_attributes, np.bool_),
        )
        note_ends(self._transform_table, self.clauses, used, self._apart, self._attributes)

    def _rows_decide(self) -> bool:
        """Say whether rows leave no doubt: every attribute has them, and whole numbers with a cell each."""
        return self._n_values() <= self._attributes.n_cells and NONE not in self._attributes.row_attribute

    def _n_values(self) -> float:
        """Return how many values an attribute has at most; there is no end to them if one is not of whole numbers."""
        if not self._attributes.whole.all():
            return np.inf
        return int((self.domains.high - self.domains.low).max(initial=0)) + 1

    def _matches_many(self, used: NDArray[np.int32]) -> bool:
        sample = used[:: max(1, used.size // _SAMPLE)]
        return match_rate(self.clauses, self.domains, sample) > _MANY_MATCHES

    def _add_blocks(self) -> None:
        """Have blocks for all positions."""
        self._rows.add(-(-len(self._positions) // BLOCK))
