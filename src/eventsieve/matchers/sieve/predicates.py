"""All predicates as 16-bit codes, clause by clause in the order of positions: what survivors are held against.

A predicate takes six bytes: its attribute and the codes of its ends (`positions.code_of`). Codes keep order, so a value
whose code lies outside fails, and one whose code lies strictly inside holds. Only where codes are equal, a tie, does
the clause table have to tell, and not even there for whole numbers that all have codes of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS, code_of
from eventsieve.model.growing import GrowingArray

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable
    from eventsieve.model.transform import TransformTable

FIELDS: Final = 3
_NARROWEST: Final = 4
"""Predicates of a clause that stand before the others, the narrowest first: a check seldom gets farther."""
_AHEAD: Final = 8
LAST_CODE: Final = (1 << CODE_BITS) - 1
ABSENT: Final = -1
"""The code of a value that is not there: below every low end."""


class Predicates(NamedTuple):
    """The clause at a position has predicates span[2 * position] to span[2 * position + 1] - 1, four narrow ones first.

    Predicate p has its attribute at code[3 * p], then the codes of its low and its high end.
    """

    code: NDArray[np.uint16]  # (3 * n_pool,)
    span: NDArray[np.int32]  # (2 * n_positions,), both ends side by side: one line of the cache has them


class PredicatePool:
    """The growing owner. New clauses are written behind all others; what removed ones leave is packed now and then."""

    def __init__(self, code: GrowingArray, span: GrowingArray) -> None:
        self._code = code
        self._span = span
        self._n_alive = int((span.view[1::2].astype(np.int64) - span.view[::2]).sum())

    @property
    def arrays(self) -> Predicates:
        return Predicates(self._code.view, self._span.view)

    @classmethod
    def of(cls, table: TransformTable, clauses: ClauseTable, slots: NDArray[np.int32]) -> PredicatePool:
        """Return the predicates of the clauses at `slots`, at positions 0, 1, 2, ..."""
        pool = cls._empty(int((clauses.stop[slots] - clauses.start[slots]).sum()), slots.size)
        encode(table, clauses, slots, np.arange(slots.size, dtype=np.int32), 0, pool.arrays)
        return pool

    def in_order(self, order: NDArray[np.int32]) -> PredicatePool:
        """Return a pool that has the clauses in another order."""
        pool = self._empty(self._n_alive, order.size)
        copy_clauses(self.arrays, order, pool.arrays)
        return pool

    def arrange(self, order: NDArray[np.int32], first: int) -> None:
        """Let the clauses at positions `order` stand at `first` and behind it; there are no others from there on."""
        moved = self._span.view.reshape(-1, 2)[order].copy()
        self._span.resize(2 * first + moved.size)
        self._span.view[2 * first :] = moved.reshape(-1)

    def insert(
        self, table: TransformTable, clauses: ClauseTable, slots: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> None:
        """Take in clauses at positions that are new or free."""
        more = int((clauses.stop[slots] - clauses.start[slots]).sum())
        if len(self._code) // FIELDS + more > 2 * (self._n_alive + more):
            packed = self.in_order(np.arange(len(self._span) // 2, dtype=np.int32))
            self._code, self._span = packed._code, packed._span
        end = len(self._code) // FIELDS
        self._code.resize(FIELDS * (end + more))
        self._span.resize(max(len(self._span), 2 * (int(positions.max()) + 1)))
        encode(table, clauses, slots, positions, end, self.arrays)
        self._n_alive += more

    def delete(self, positions: NDArray[np.int32]) -> None:
        """Forget the clauses at `positions`."""
        span = self._span.view.reshape(-1, 2)
        self._n_alive -= int((span[positions, 1] - span[positions, 0]).sum())
        span[positions] = 0

    @classmethod
    def _empty(cls, n_predicates: int, n_positions: int) -> PredicatePool:
        span = GrowingArray(np.empty(0, np.int32))
        span.resize(2 * n_positions)
        pool = cls(GrowingArray.of_size(FIELDS * n_predicates, np.uint16), span)
        pool._n_alive = n_predicates
        return pool


@kernel
def encode(
    table: TransformTable,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    positions: NDArray[np.int32],
    end: int,
    out: Predicates,
) -> None:
    """Write the clauses at `slots` to `positions`, their predicates from place `end` of the pool on."""
    for i in range(slots.shape[0]):
        first = end
        for p in range(clauses.start[slots[i]], clauses.stop[slots[i]]):
            a = clauses.attribute[p]
            low, high = code_of(table, a, clauses.low[p]), code_of(table, a, clauses.high[p])
            at = end
            if at - first >= _NARROWEST and high - low < _width(out.code, first + _NARROWEST - 1):
                at = first + _NARROWEST - 1
                _move(out.code, at, end)
            if at - first < _NARROWEST:
                while at > first and high - low < _width(out.code, at - 1):
                    _move(out.code, at - 1, at)
                    at -= 1
            out.code[FIELDS * at] = a
            out.code[FIELDS * at + 1] = low
            out.code[FIELDS * at + 2] = high
            end += 1
        out.span[2 * positions[i]] = first
        out.span[2 * positions[i] + 1] = end


@inlined
def _width(code: NDArray[np.uint16], p: int) -> int:
    return int(np.int64(code[FIELDS * p + 2]) - np.int64(code[FIELDS * p + 1]))


@inlined
def _move(code: NDArray[np.uint16], source: int, target: int) -> None:
    for j in range(FIELDS):
        code[FIELDS * target + j] = code[FIELDS * source + j]


@kernel
def copy_clauses(predicates: Predicates, order: NDArray[np.int32], out: Predicates) -> None:
    """Copy the clauses in another order, without what is between them."""
    code, span, out_code, out_span = predicates.code, predicates.span, out.code, out.span
    end = 0
    for i in range(order.shape[0]):
        if i + 2 * _AHEAD < order.shape[0]:
            prefetch(span, 2 * order[i + 2 * _AHEAD])
            prefetch(code, FIELDS * span[2 * order[i + _AHEAD]])
            prefetch(code, FIELDS * span[2 * order[i + _AHEAD] + 1] - 1)
        out_span[2 * i] = end
        first, stop = span[2 * order[i]], span[2 * order[i] + 1]
        for j in range(FIELDS * (stop - first)):
            out_code[FIELDS * end + j] = code[FIELDS * first + j]
        end += stop - first
        out_span[2 * i + 1] = end


@inlined
def fields(predicates: Predicates, p: int) -> tuple[int, int, int]:
    """Return attribute, low and high code of a predicate, as signed numbers."""
    code = predicates.code
    return int(np.int64(code[FIELDS * p])), int(np.int64(code[FIELDS * p + 1])), int(np.int64(code[FIELDS * p + 2]))
