"""The growing owner of lists of clause slots on halved cells: what TAMA and TAMA-O keep per attribute.

The arrays and everything that runs over them are in `_kernels.halving`; here they are made, given room and stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.halving import (
    CellLists,
    Entries,
    Filing,
    claim_pages,
    count_entries,
    delete_entries,
    fill_entries,
    give_slack,
    insert_entries,
    lay_out,
    lists_in_page,
    move_entries,
)
from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import ClauseTable, flat
from eventsieve.model.growing import GrowingArray
from eventsieve.model.statistics import QuantileSummary, statistics_of
from eventsieve.model.transform import TransformChoice, TransformTable, choose_distributions, transform_table

MOST_LEVELS = 20
_LEARNED_FROM = 1 << 16
"""Clauses at most that a transform is learned from."""
_SPARE = 16
"""A fresh pool keeps one entry free for so many in use: lists that fill up move there."""


class HalvedCellsMatcher(Matcher):
    """Base of TAMA and TAMA-O: their parameters, and the transform."""

    levels: int
    exact: bool
    transform: TransformChoice
    _table: TransformTable

    def _set_parameters(self, levels: int, exact: bool, transform: TransformChoice) -> None:
        if not 1 <= levels <= MOST_LEVELS:
            raise ValueError(f"levels must be from 1 to {MOST_LEVELS}, not {levels}")
        self.levels = int(levels)
        self.exact = bool(exact)
        self.transform = transform

    def _choose_table(self) -> None:
        learned = _Learned(self)
        try:
            distributions = choose_distributions(self.transform, self.n_attributes, learned.of)
        except ValueError as cause:
            raise MatcherError(f"matcher {self.name!r}: {cause}") from cause
        self._table = transform_table(self.domains, distributions)

    def _table_arrays(self) -> dict[str, NDArray[Any]]:
        return {f"transform_{name}": column for name, column in self._table._asdict().items()}

    def _restore_table(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._table = TransformTable(*(arrays[f"transform_{name}"] for name in TransformTable._fields))


class _Learned:
    """Quantiles of the bounds on each attribute, found when first asked for."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def of(self, a: int) -> NDArray[np.float64]:
        return self._bounds.value[a]

    @cached_property
    def _bounds(self) -> QuantileSummary:
        clauses = self._matcher.clauses
        step = max(1, clauses.start.shape[0] // _LEARNED_FROM)
        sample = clauses._replace(start=clauses.start[::step], stop=clauses.stop[::step])
        return statistics_of(sample, self._matcher.domains).bounds


class HalvedCells:
    """Lists of slots on the cells of every attribute, which take in and give up clauses in place."""

    def __init__(self, filing: Filing, dtype: type[np.uint16] | type[np.uint32]) -> None:
        self.filing = filing
        self._page_lists = lists_in_page(filing)
        self._page_of_key = GrowingArray(np.empty(0, np.int32))
        self._start = GrowingArray(np.empty(0, np.int64))
        self._length = GrowingArray(np.empty(0, np.int32))
        self._capacity = GrowingArray(np.empty(0, np.int32))
        self._entries: Entries = np.empty(0, dtype)
        self._used = np.zeros(1, np.int64)

    @property
    def lists(self) -> CellLists:
        """The arrays as kernels see them, good until the next change."""
        return CellLists(
            self._page_of_key.view,
            self._start.view,
            self._length.view,
            self._capacity.view,
            self._entries,
            self._used,
        )

    @property
    def n_entries(self) -> int:
        return int(self._length.view.sum(dtype=np.int64))

    @property
    def longest_list(self) -> int:
        return int(self._length.view.max(initial=0))

    def build(self, clauses: ClauseTable) -> None:
        """File all clauses, with a little room in each list."""
        self._claim(clauses, np.arange(clauses.start.shape[0], dtype=np.int32))
        count_entries(self.filing, clauses, self._page_lists, self.lists)
        # Without it every first insertion into a list would move the list.
        give_slack(self.lists)
        total = lay_out(self.filing, self._page_lists, self.lists, self._start.view)
        self._entries = np.empty(total + total // _SPARE, self._entries.dtype)
        self._used[0] = total
        fill_entries(self.filing, clauses, self._page_lists, self.lists)

    def insert(self, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
        """File the clauses at `slots`."""
        self._claim(clauses, slots)
        progress = np.zeros(3, np.int64)
        while not insert_entries(self.filing, clauses, slots, self._page_lists, self.lists, progress):
            self._grow()

    def delete(self, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Take out the clauses at `slots`."""
        delete_entries(self.filing, clauses, slots, self._page_lists, self.lists)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return all arrays, under names that begin with `prefix`."""
        in_use = self.lists._replace(entries=self._entries[: self._used[0]])
        return {prefix + name: array for name, array in in_use._asdict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], prefix: str) -> None:
        """Take up what `arrays` gave."""
        self._page_of_key = GrowingArray(flat(arrays[prefix + "page_of_key"], np.int32))
        self._start = GrowingArray(flat(arrays[prefix + "start"], np.int64))
        self._length = GrowingArray(flat(arrays[prefix + "length"], np.int32))
        self._capacity = GrowingArray(flat(arrays[prefix + "capacity"], np.int32))
        self._entries = flat(arrays[prefix + "entries"], self._entries.dtype)
        self._used = flat(arrays[prefix + "used"], np.int64)

    def _claim(self, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Make the pages that `slots` need."""
        n_blocks = -(-clauses.start.shape[0] // (1 << self.filing.block_bits))
        n_keys = n_blocks * ((self.filing.table.start.shape[0] - 1) << self.filing.root)
        if n_keys > len(self._page_of_key):
            self._page_of_key.resize(n_keys, -1)
        n_pages = len(self._start) // self._page_lists
        n_pages = claim_pages(self.filing, clauses, slots, n_pages, self._page_of_key.view)
        for heads in (self._start, self._length, self._capacity):
            heads.resize(n_pages * self._page_lists)

    def _grow(self) -> None:
        """Replace the pool by one at least half as large again, without the room that moved lists left behind."""
        capacity = self._capacity.view
        room = int(capacity.sum(dtype=np.int64))
        # Any one list must be able to move.
        spare = max(room // 2, 2 * int(capacity.max(initial=0)) + 1024)
        entries = np.empty(room + spare, self._entries.dtype)
        start = np.empty_like(self._start.view)
        self._used[0] = lay_out(self.filing, self._page_lists, self.lists, start)
        move_entries(self.lists, start, entries)
        self._entries = entries
