"""Simple: an exact scan over all clauses, with no index.

The baseline of every paper, written to be as fast as a scan can be. The predicates of a clause stand in columns of
single precision, the narrowest predicate in the first. A column is read front to back; what passes goes on to the
next. Rounding is monotone: a predicate that fails in single precision fails, and one that holds with room to spare on
both sides holds. Only where a value meets a rounded bound is the clause looked up in its table, and checked exactly.

Differences from the papers: they scan clause by clause and stop at the first predicate that fails, a branch that the
processor guesses wrong for every third clause or so. Comparing a column at a time has no such branch and fills the
vector registers; survivors are then picked out of a bit mask. Looking every survivor up in the table instead, after
two columns, made the scan three times slower: each is a walk through main memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import trailing_zeros
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

_BLOCK = 2048
"""Clauses per block, a multiple of 64: what is known of them stays in the first-level cache."""
_MOST_COLUMNS = 8
"""Predicates of a clause that stand in columns. Few clauses pass so many; they are checked in the table."""
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_GATHER_BITS = np.uint64(0x0102_0408_1020_4080)
"""Times a word whose bytes are 0 or 1, this puts byte i of the word to bit i of the highest byte."""


class Columns(NamedTuple):
    """Predicate number j of the clause at slot s asks low[j, s] <= value of attribute[j, s] <= high[j, s].

    A clause with fewer predicates than columns asks for nothing in the rest. A free slot has low = NaN in its first
    column, which no value is at or above.
    """

    attribute: NDArray[np.uint32]  # (n_columns, room)
    low: NDArray[np.float32]  # (n_columns, room)
    high: NDArray[np.float32]  # (n_columns, room)
    looked_up: NDArray[np.bool_]  # (room,) single precision or the columns do not hold all of the clause


class Scratch(NamedTuple):
    """One event at a time, and what is known of one block of clauses."""

    row: NDArray[np.float64]  # (n_attributes,) the event's values, NaN where it has none: no comparison with NaN holds
    rounded: NDArray[np.float32]  # (n_attributes + 1,) in single precision; the last is what a clause asks nothing of
    passes: NDArray[np.uint8]  # (_BLOCK,) 1 where a clause passes its first predicate
    passes_as_words: NDArray[np.uint64]  # the same memory, eight at a time
    survivors: NDArray[np.int32]  # (_BLOCK,)


class Simple(Matcher):
    name = "simple"
    summary = "scan of all clauses, no index"
    capabilities = Capabilities(paper="the baseline of all five papers")

    def _build(self) -> None:
        longest = int((self.clauses.stop - self.clauses.start).max(initial=1))
        self._columns = _made_columns(min(longest, _MOST_COLUMNS), self.n_slots)
        self._insert(np.arange(self.n_slots, dtype=np.int32))

    def _insert(self, slots: NDArray[np.int32]) -> None:
        room = self._columns.looked_up.shape[0]
        if self.n_slots > room:
            grown = _made_columns(self._columns.low.shape[0], max(self.n_slots, room * 3 // 2))
            for old, new in zip(self._columns, grown, strict=True):
                new[..., :room] = old
            self._columns = grown
        _write_columns(self.clauses, self.domains, slots, self._columns)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._columns.low[0, slots] = np.nan

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        passes = np.zeros(_BLOCK, np.uint8)
        rounded = np.full(self.n_attributes + 1, np.nan, np.float32)
        rounded[-1] = 0
        survivors = np.empty(_BLOCK, np.int32)
        scratch = Scratch(np.full(self.n_attributes, np.nan), rounded, passes, passes.view(np.uint64), survivors)
        return _scan(self.clauses, self._columns, events, first, scratch, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        return self._columns._asdict()

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._columns = Columns(**arrays)

    def _describe(self) -> dict[str, Any]:
        return {"columns": self._columns.low.shape[0]}


def _made_columns(n_columns: int, room: int) -> Columns:
    low = np.full((n_columns, room), np.nan, np.float32)
    return Columns(np.zeros(low.shape, np.uint32), low, low.copy(), np.zeros(room, np.bool_))


@kernel
def _write_columns(clauses: ClauseTable, domains: Domains, slots: NDArray[np.int32], out_columns: Columns) -> None:
    """Put each clause's predicates to the columns, the narrowest first."""
    n_columns = out_columns.low.shape[0]
    n_attributes = domains.low.shape[0]
    share = np.empty(n_columns)
    for s in slots:
        n_filled = 0
        needs_table = clauses.stop[s] - clauses.start[s] > n_columns
        for p in range(clauses.start[s], clauses.stop[s]):
            a, low, high = clauses.attribute[p], clauses.low[p], clauses.high[p]
            inside = min(high, domains.high[a]) - max(low, domains.low[a])
            width = inside / (domains.high[a] - domains.low[a])
            needs_table |= np.float64(np.float32(low)) != low or np.float64(np.float32(high)) != high
            at = n_filled
            while at > 0 and width < share[at - 1]:
                at -= 1
            if at == n_columns:
                continue
            n_filled = min(n_filled + 1, n_columns)
            for j in range(n_filled - 1, at, -1):
                share[j] = share[j - 1]
                out_columns.attribute[j, s] = out_columns.attribute[j - 1, s]
                out_columns.low[j, s] = out_columns.low[j - 1, s]
                out_columns.high[j, s] = out_columns.high[j - 1, s]
            share[at] = width
            out_columns.attribute[at, s] = a
            out_columns.low[at, s] = low
            out_columns.high[at, s] = high
        for j in range(n_filled, n_columns):
            out_columns.attribute[j, s] = n_attributes
            out_columns.low[j, s] = -np.inf if n_filled else np.nan
            out_columns.high[j, s] = np.inf
        out_columns.looked_up[s] = needs_table


@kernel
def _scan(
    clauses: ClauseTable,
    columns: Columns,
    events: EventColumns,
    first: int,
    scratch: Scratch,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    n_slots = min(clauses.start.shape[0], columns.looked_up.shape[0])
    used = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - used < n_slots:
            return e
        rounded_away = False
        for i in range(events.start[e], events.start[e + 1]):
            a, value = events.attribute[i], events.value[i]
            scratch.row[a] = value
            scratch.rounded[a] = value
            rounded_away |= np.float64(np.float32(value)) != value
        before = used
        for block in range(0, n_slots, _BLOCK):
            _compare_first_column(columns, block, min(block + _BLOCK, n_slots), scratch)
            n_survivors = _list_survivors(block, scratch)
            for j in range(1, columns.low.shape[0]):
                n_survivors = _compare_column(columns, j, n_survivors, scratch)
            for i in range(n_survivors):
                s = scratch.survivors[i]
                out_slots[used] = s
                if rounded_away or columns.looked_up[s]:
                    used += _certain(columns, s, clauses.stop[s] - clauses.start[s], scratch.rounded) or clause_holds(
                        clauses, s, scratch.row
                    )
                else:
                    used += 1
        out_count[e] = used - before
        for i in range(events.start[e], events.start[e + 1]):
            scratch.row[events.attribute[i]] = np.nan
            scratch.rounded[events.attribute[i]] = np.nan
    return events.start.shape[0] - 1


@kernel
def _compare_first_column(columns: Columns, block: int, stop: int, scratch: Scratch) -> None:
    """Compare one predicate per clause. Nothing depends on an outcome, so this runs in vector registers."""
    attribute, low, high = columns.attribute[0, block:stop], columns.low[0, block:stop], columns.high[0, block:stop]
    rounded, passes = scratch.rounded, scratch.passes
    for i in range(attribute.shape[0]):
        value = rounded[attribute[i]]
        passes[i] = (low[i] <= value) & (value <= high[i])
    for i in range(attribute.shape[0], _BLOCK):
        passes[i] = 0


@kernel
def _list_survivors(block: int, scratch: Scratch) -> int:
    """List the clauses of a block that pass; return how many."""
    n_survivors = 0
    for w in range(0, _BLOCK // 8, 8):
        survivors = _NONE
        for byte in range(8):
            # Eight bytes of 0 or 1 to eight bits, in one multiplication.
            bits = (scratch.passes_as_words[w + byte] * _GATHER_BITS) >> np.uint64(56)
            survivors |= bits << np.uint64(8 * byte)
        while survivors != _NONE:
            scratch.survivors[n_survivors] = block + 8 * w + trailing_zeros(survivors)
            survivors &= survivors - _ONE
            n_survivors += 1
    return n_survivors


@kernel
def _compare_column(columns: Columns, j: int, n_survivors: int, scratch: Scratch) -> int:
    """Keep the survivors that pass column j; return how many."""
    attribute, low, high = columns.attribute[j], columns.low[j], columns.high[j]
    rounded, survivors = scratch.rounded, scratch.survivors
    n_kept = 0
    for i in range(n_survivors):
        s = survivors[i]
        value = rounded[attribute[s]]
        survivors[n_kept] = s
        n_kept += (low[s] <= value) & (value <= high[s])
    return n_kept


@kernel
def _certain(columns: Columns, s: int, n_predicates: int, rounded: NDArray[np.float32]) -> bool:
    """Say whether a survivor holds whatever was rounded away: its columns hold it all, with room on both sides."""
    if n_predicates > columns.low.shape[0]:
        return False
    for j in range(n_predicates):
        value = rounded[columns.attribute[j, s]]
        if not (columns.low[j, s] < value < columns.high[j, s]):
            return False
    return True
