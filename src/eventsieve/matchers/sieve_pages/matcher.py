"""Sieve-pages: rows of bits by attribute and value cell, ANDed in pages that stay in the cache, then made exact.

Ours, for events that match much: all clauses are looked at, in their own order. `layout.py` has the rows, `ends.py` the
ends of predicates, `search.py` the matching. docs/matchers/sieve-pages.md tells more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bitset import ALL_ONES
from eventsieve._kernels.buckets import BLOCK_SLOTS, BucketRule
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.sieve_pages.ends import Ends
from eventsieve.matchers.sieve_pages.layout import (
    FINE,
    NONE,
    PAGE,
    PAGE_WORDS,
    Attributes,
    Pages,
    enter_clauses,
    mark_rare,
    n_rows,
    remove_clauses,
)
from eventsieve.matchers.sieve_pages.search import Found, SieveIndex, gather, match
from eventsieve.matchers.sieve_settings import RARE, SieveMatcher, longer
from eventsieve.matchers.transforms import table_arrays, table_for, table_from
from eventsieve.model.columns import EventColumns, flat
from eventsieve.model.transform import TransformChoice


class SievePages(SieveMatcher):
    name = "sieve-pages"
    summary = "rows of bits by value cell, ANDed in cached pages, for much that matches; ours"
    capabilities = Capabilities(paper="ours", transforms=True, shares_batch=True)

    _rule: BucketRule
    _attributes: Attributes
    _rare_attributes: NDArray[np.int32]
    _pages: Pages
    _null: NDArray[np.uint64]
    """Per chunk and rare attribute, the slots that do not ask for it."""
    _ends: Ends
    _built: int
    """Clauses that the rows were chosen for."""

    def __init__(
        self, *, memory: int = 280, cells: int | None = None, rare: int = RARE, transform: TransformChoice = "linear"
    ) -> None:
        super().__init__(memory=memory, cells=cells, rare=rare, transform=transform)

    # -- building and changing -------------------------------------------------------------------------------

    def _build(self) -> None:
        row_attribute = self._attributes_with_rows()
        n_cells = self._choose_cells(int((row_attribute != NONE).sum()))
        self._rule = BucketRule(table_for(self, self.transform), n_cells * FINE, False, False)
        self._take_attributes(
            row_attribute,
            np.full((self.n_attributes, n_cells), -np.inf),
            np.full((self.n_attributes, n_cells), np.inf),
        )
        self._make_empty()
        self._add_pages()
        everyone = np.arange(self.n_slots, dtype=np.int32)
        enter_clauses(self._rule, self.clauses, everyone, self._attributes, self._pages)
        self._ends.build(self.clauses, self._null.shape[0])
        mark_rare(self.clauses, everyone, self._attributes, False, self._null)
        self._built = self.n_slots

    def _insert(self, slots: NDArray[np.int32]) -> None:
        if self.n_slots > 2 * self._built + PAGE:
            # The rows were chosen for half as many.
            self._build()
            return
        self._add_pages()
        enter_clauses(self._rule, self.clauses, slots, self._attributes, self._pages)
        self._ends.insert(self.clauses, slots)
        mark_rare(self.clauses, slots, self._attributes, False, self._null)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        remove_clauses(self._rule, self.clauses, slots, self._attributes, self._pages)
        self._ends.delete(self.clauses, slots)
        mark_rare(self.clauses, slots, self._attributes, True, self._null)

    # -- matching --------------------------------------------------------------------------------------------

    def _match_together(
        self,
        events: EventColumns,
        first: int,
        together: int,
        out_count: NDArray[np.int64],
        out_slots: NDArray[np.int32],
    ) -> int:
        n_chunks = self._null.shape[0]
        # The matches of one event are found in their order. Those of several are put in order afterwards.
        room = out_slots if together == 1 else np.empty(out_slots.shape[0], np.int32)
        found = Found(room, np.empty(n_chunks * together + 1, np.int64))
        if not match(self._index(), events, first, together, found):
            return -1
        if together == 1:
            out_count[first] = found.start[-1]
            return int(found.start[-1])
        return int(gather(found, together, n_chunks, out_count[first:], out_slots))

    # -- keeping ---------------------------------------------------------------------------------------------

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        attributes = self._attributes
        return {
            "shape": np.array([self._n_cells, self._built], np.int64),
            "row_attribute": attributes.row_attribute,
            "highest_low": attributes.highest_low,
            "lowest_high": attributes.lowest_high,
            "null": self._null,
            **self._pages._asdict(),
            **self._ends.arrays(),
            **table_arrays(self._rule.table),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        n_cells, self._built = arrays["shape"].tolist()
        self._rule = BucketRule(table_from(arrays), n_cells * FINE, False, False)
        self._take_attributes(
            flat(arrays["row_attribute"], np.int32),
            flat(arrays["highest_low"], np.float64),
            flat(arrays["lowest_high"], np.float64),
        )
        self._make_empty()
        self._pages = Pages(flat(arrays["alive"], np.uint64), flat(arrays["rows"], np.uint64))
        self._null = flat(arrays["null"], np.uint64)
        self._ends.restore(arrays)

    def _describe(self) -> dict[str, Any]:
        return {
            "cells": self._n_cells,
            "attributes_with_rows": self._attributes.n_row_attributes,
            "pages": self._pages.alive.shape[0],
            "row_bytes": self._pages.rows.nbytes,
        }

    # -- inside ----------------------------------------------------------------------------------------------

    def _index(self) -> SieveIndex:
        return SieveIndex(
            self._rule,
            self._attributes,
            self._pages,
            self._ends.lists,
            self._rare_attributes,
            self._null,
            self.clauses,
        )

    @property
    def _n_cells(self) -> int:
        return self._rule.n_cells // FINE

    def _attributes_with_rows(self) -> NDArray[np.int32]:
        """Number the attributes that enough clauses ask for."""
        asked = np.bincount(self.clauses.attribute, minlength=self.n_attributes)
        frequent = (asked > 0) & (asked * self.rare >= max(1, int((self.clauses.stop > self.clauses.start).sum())))
        return np.where(frequent, np.cumsum(frequent) - 1, NONE).astype(np.int32)

    def _take_attributes(
        self, row_attribute: NDArray[np.int32], highest_low: NDArray[np.float64], lowest_high: NDArray[np.float64]
    ) -> None:
        self._rare_attributes = np.flatnonzero(row_attribute == NONE).astype(np.int32)
        rare_number = np.full(self.n_attributes, NONE, np.int32)
        rare_number[self._rare_attributes] = np.arange(self._rare_attributes.size)
        n_row_attributes = self.n_attributes - self._rare_attributes.size
        self._attributes = Attributes(n_row_attributes, row_attribute, rare_number, highest_low, lowest_high)

    def _make_empty(self) -> None:
        rows = n_rows(self._attributes.n_row_attributes, self._n_cells)
        self._pages = Pages(
            np.zeros((0, PAGE_WORDS), np.uint64),
            np.zeros((0, rows, PAGE_WORDS), np.uint64),
        )
        self._null = np.zeros((0, self._rare_attributes.size, BLOCK_SLOTS // 64), np.uint64)
        self._ends = Ends(self._rule, self.n_attributes)

    def _add_pages(self) -> None:
        """Have pages for all slots."""
        missing = -(-self.n_slots // PAGE) - self._pages.alive.shape[0]
        if missing > 0:
            alive, rows = self._pages
            self._pages = Pages(longer(alive, missing, 0), longer(rows, missing, ALL_ONES))
        n_chunks = -(-self.n_slots // BLOCK_SLOTS)
        self._null = longer(self._null, n_chunks - self._null.shape[0], ALL_ONES)
        self._ends.add_chunks(n_chunks)
