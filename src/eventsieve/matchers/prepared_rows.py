"""Sweeps over bucket lists taken beforehand: rows of bits that say whose predicate a value may satisfy.

REIN marks, for each value, most of the entries of two lists. Which ones depends on the value's cell, and cells can be
taken together in a few groups: for every group, block and attribute a row has a bit for each slot, clear if the
clause's predicate excludes the whole group. An event then reads one row of 4 KB where REIN would mark thousands of
entries one by one. What a row leaves open, the ends within the value's own group, is for `left_out` to decide.

Rows are made once and shared by all plans of a matcher. They know the clauses of that moment; slots that are filled
later have all their bits set, which rules nobody out, so that lists must have such a clause whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import ALL_ONES, clear_bit, set_bit
from eventsieve._kernels.buckets import BLOCK_SLOTS, BucketRule, cell_of_value
from eventsieve._kernels.compiler import kernel
from eventsieve.model.columns import ClauseTable, flat

NO_ROWS: Final = -1

_BYTES: Final = 104
"""For rows, per slot: that decides how many groups there are. With a million subscriptions to ticks it is 16 of them,
which leave 17,000 clauses per event to check, of which 8,000 match; 8 would leave 29,000, and 32 12,000."""
_LEAST_GROUPS: Final = 8
_MOST_GROUPS: Final = 64

_EVEN: Final = 0.01
"""Part of the values that is taken to be spread evenly over all cells, whatever a sample shows."""


class PreparedRows(NamedTuple):
    """A value in cell c of attribute a has row first_row[block, a] + group_of_cell[a, c] of a block."""

    group_of_cell: NDArray[np.uint8]  # (n_attributes, n_cells), rising
    first_row: NDArray[np.int32]  # (n_blocks, n_attributes), or NO_ROWS
    may_hold: NDArray[np.uint64]  # (n_rows, words per block)

    @property
    def n_groups(self) -> int:
        return self.may_hold.shape[0] // max(1, int((self.first_row != NO_ROWS).sum()))

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self)


def no_rows(n_attributes: int, n_cells: int) -> PreparedRows:
    """Return rows for no block at all."""
    return PreparedRows(
        np.zeros((n_attributes, n_cells), np.uint8),
        np.zeros((0, n_attributes), np.int32),
        np.zeros((0, BLOCK_SLOTS // WORD_BITS), np.uint64),
    )


def rows_from(arrays: Mapping[str, NDArray[Any]]) -> PreparedRows:
    """Take up rows that were stored."""
    return PreparedRows(
        flat(arrays["group_of_cell"], np.uint8),
        flat(arrays["first_row"], np.int32),
        flat(arrays["may_hold"], np.uint64),
    )


def groups_for(n_slots: int, n_lists: int) -> int:
    """Return how many groups there is memory for, with rows for this many pairs of a block and an attribute."""
    bytes_of_group = max(1, n_lists) * BLOCK_SLOTS // 8
    return min(max(_BYTES * n_slots // bytes_of_group, _LEAST_GROUPS), _MOST_GROUPS)


def group_cells(values: NDArray[np.float64], ends: NDArray[np.float64], n_groups: int) -> NDArray[np.uint8]:
    """Return the group of each cell, from how many values and how many ends each cell has, by attribute.

    What is left open are pairs of a value and an end in one group. With groups of width d(x) that is the integral of
    values(x) ends(x) d(x), and least, for a number of groups, where d goes with 1 / sqrt(values(x) ends(x)).
    """
    n_cells = values.shape[1]
    spread = values + (_EVEN * values.sum(axis=1, keepdims=True) + 1.0) / n_cells
    weight = np.sqrt(spread * (ends + 1.0 / n_cells))
    middle = np.cumsum(weight, axis=1) - weight / 2
    share = middle / weight.sum(axis=1, keepdims=True)
    return np.minimum(share * n_groups, n_groups - 1).astype(np.uint8)


def left_open(
    group_of_cell: NDArray[np.uint8],
    values: NDArray[np.float64],
    attribute: NDArray[np.int32],
    low_cell: NDArray[np.int64],
    high_cell: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return for each predicate the share of the values whose group it does not exclude."""
    n_attributes, n_cells = values.shape
    share = (values + 1.0 / n_cells) / (values.sum(axis=1, keepdims=True) + 1.0)
    key = np.arange(n_attributes)[:, None] * _MOST_GROUPS + group_of_cell
    of_group = np.bincount(key.ravel(), share.ravel(), n_attributes * _MOST_GROUPS).reshape(n_attributes, -1)
    upto = np.concatenate([np.zeros((n_attributes, 1)), np.cumsum(of_group, axis=1)], axis=1)
    first, last = (group_of_cell[attribute, cell].astype(np.int64) for cell in (low_cell, high_cell))
    found: NDArray[np.float64] = upto[attribute, last + 1] - upto[attribute, first]
    return found


def prepared_rows(
    rule: BucketRule,
    clauses: ClauseTable,
    group_of_cell: NDArray[np.uint8],
    wanted: NDArray[np.bool_],
    n_groups: int,
) -> PreparedRows:
    """Make rows of all clauses, for the blocks and attributes that are wanted."""
    n_lists = int(wanted.sum())
    first_row = np.full(wanted.shape, NO_ROWS, np.int32)
    first_row[wanted] = np.arange(n_lists, dtype=np.int32) * n_groups
    rows = PreparedRows(group_of_cell, first_row, np.full((n_lists * n_groups, BLOCK_SLOTS // WORD_BITS), ALL_ONES))
    _enter(rule, clauses, n_groups, rows)
    return rows


def open_slots(clauses: ClauseTable, slots: NDArray[np.int32], rows: PreparedRows) -> None:
    """Set all bits of clauses that are about to go: who takes their slots must not be ruled out."""
    _open(clauses, slots, rows.n_groups, rows)


@kernel
def _enter(rule: BucketRule, clauses: ClauseTable, n_groups: int, rows: PreparedRows) -> None:
    """Clear the bits of all clauses in the groups that their predicates exclude."""
    for s in range(clauses.start.shape[0]):
        block, place = s // BLOCK_SLOTS, s % BLOCK_SLOTS
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            row = rows.first_row[block, a]
            if row != NO_ROWS:
                first = rows.group_of_cell[a, cell_of_value(rule, a, clauses.low[p])]
                last = rows.group_of_cell[a, cell_of_value(rule, a, clauses.high[p])]
                for group in range(n_groups):
                    if group < first or group > last:
                        clear_bit(rows.may_hold[row + group], place)


@kernel
def _open(clauses: ClauseTable, slots: NDArray[np.int32], n_groups: int, rows: PreparedRows) -> None:
    for s in slots:
        block, place = s // BLOCK_SLOTS, s % BLOCK_SLOTS
        if block < rows.first_row.shape[0]:
            for p in range(clauses.start[s], clauses.stop[s]):
                row = rows.first_row[block, clauses.attribute[p]]
                if row != NO_ROWS:
                    for group in range(n_groups):
                        set_bit(rows.may_hold[row + group], place)


@kernel
def cells_of(
    rule: BucketRule, attribute: NDArray[np.int32], value: NDArray[np.float64], out_cell: NDArray[np.int64]
) -> None:
    """Write the cell of each value."""
    for i in range(attribute.shape[0]):
        out_cell[i] = cell_of_value(rule, attribute[i], value[i])
