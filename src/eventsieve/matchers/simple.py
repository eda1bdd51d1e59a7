"""Simple: an exact scan over all clauses, with no index.

The baseline of every paper, written to be as fast as a scan can be. Two predicates of each clause, the narrowest,
stand in columns of single precision that are read front to back. Rounding is monotone, so a clause that fails there
fails for certain; the few that pass both are checked exactly in the clause table.

Differences from the papers: they scan clause by clause and stop at the first predicate that fails. Going
predicate by predicate over columns, with a list of survivors, has no branch that the processor could guess wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.model.growing import GrowingArray

_BLOCK = 2048
"""Clauses per block: the survivors of one column stay in the first-level cache for the next."""


class Head(NamedTuple):
    """A column of one predicate per clause. A free slot has low = NaN, which nothing is at or above."""

    attribute: NDArray[np.uint32]  # (n_slots,)
    low: NDArray[np.float32]  # (n_slots,)
    high: NDArray[np.float32]  # (n_slots,)


class Simple(Matcher):
    name = "simple"
    summary = "scan of all clauses, no index"
    capabilities = Capabilities(paper="the baseline of all five papers")

    def _build(self) -> None:
        self._columns = [GrowingArray(np.empty(0, dtype)) for dtype in (np.uint32, np.float32, np.float32) * 2]
        self._insert(np.arange(self.n_slots, dtype=np.int32))

    def _insert(self, slots: NDArray[np.int32]) -> None:
        for column in self._columns:
            column.resize(self.n_slots, np.nan if column.view.dtype == np.float32 else 0)
        self._heads = self._views()
        _write_heads(self.clauses, self.domains, slots, *self._heads)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._heads[0].low[slots] = np.nan

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        row = np.full(self.n_attributes, np.nan)
        survivors = np.empty(_BLOCK, np.int32)
        return _scan(self.clauses, *self._heads, events, first, row, row.astype(np.float32), survivors, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            f"{field}{rank}": array for rank, head in enumerate(self._heads) for field, array in head._asdict().items()
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._columns = [GrowingArray(arrays[f"{field}{rank}"]) for rank in (0, 1) for field in Head._fields]
        self._heads = self._views()

    def _views(self) -> tuple[Head, Head]:
        views = [column.view for column in self._columns]
        return Head(*views[:3]), Head(*views[3:])


@kernel
def _write_heads(
    clauses: ClauseTable, domains: Domains, slots: NDArray[np.int32], out_first: Head, out_second: Head
) -> None:
    """Put the two narrowest predicates of each clause at the head; a clause with one has it twice."""
    for s in slots:
        narrowest = second = -1
        width = second_width = np.inf
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low, high = domains.low[a], domains.high[a]
            share = (min(clauses.high[p], high) - max(clauses.low[p], low)) / (high - low)
            if narrowest < 0 or share < width:
                second, second_width = narrowest, width
                narrowest, width = p, share
            elif second < 0 or share < second_width:
                second, second_width = p, share
        if narrowest < 0:
            out_first.low[s] = np.nan
            continue
        if second < 0:
            second = narrowest
        out_first.attribute[s] = clauses.attribute[narrowest]
        out_first.low[s] = clauses.low[narrowest]
        out_first.high[s] = clauses.high[narrowest]
        out_second.attribute[s] = clauses.attribute[second]
        out_second.low[s] = clauses.low[second]
        out_second.high[s] = clauses.high[second]


@kernel
def _scan(
    clauses: ClauseTable,
    head: Head,
    second: Head,
    events: EventColumns,
    first: int,
    row: NDArray[np.float64],
    rounded: NDArray[np.float32],
    survivors: NDArray[np.int32],
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """`row` holds the event's value per attribute, NaN where it has none: no comparison with NaN is true."""
    n_slots = head.low.shape[0]
    used = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - used < n_slots:
            return e
        for i in range(events.start[e], events.start[e + 1]):
            row[events.attribute[i]] = events.value[i]
            rounded[events.attribute[i]] = events.value[i]
        before = used
        for block in range(0, n_slots, survivors.shape[0]):
            n_survivors = 0
            for s in range(block, min(block + survivors.shape[0], n_slots)):
                value = rounded[head.attribute[s]]
                survivors[n_survivors] = s
                n_survivors += (head.low[s] <= value) & (value <= head.high[s])
            n_candidates = 0
            for i in range(n_survivors):
                s = survivors[i]
                value = rounded[second.attribute[s]]
                survivors[n_candidates] = s
                n_candidates += (second.low[s] <= value) & (value <= second.high[s])
            for i in range(n_candidates):
                s = survivors[i]
                matched = True
                for p in range(clauses.start[s], clauses.stop[s]):
                    value64 = row[clauses.attribute[p]]
                    if not (clauses.low[p] <= value64 <= clauses.high[p]):
                        matched = False
                        break
                out_slots[used] = s
                used += matched
        out_count[e] = used - before
        for i in range(events.start[e], events.start[e + 1]):
            row[events.attribute[i]] = np.nan
            rounded[events.attribute[i]] = np.nan
    return events.start.shape[0] - 1
