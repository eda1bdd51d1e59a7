"""Pages of rows, one bit per clause: which clauses a value cell, or the lack of an attribute, does not rule out.

A page is 4,096 slots. For each attribute that enough clauses ask for, and each cell of its domain, a page has a row:
the bit of a slot is clear if its clause cannot hold for a value in that cell. For attributes that an event lacks there
are rows too, one for each subset of four neighbouring attributes. So an event picks some rows, and their AND is what is
left.

Bits of free slots are set in all rows but `alive`: entering a clause clears bits, removing it sets them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import clear_bit, set_bit
from eventsieve._kernels.buckets import BLOCK_BITS, BLOCK_SLOTS, BucketRule, cell_of_value
from eventsieve._kernels.compiler import inlined, kernel

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable

PAGE_WORDS: Final = 64
PAGE: Final = PAGE_WORDS * WORD_BITS
"""Slots per page. All rows of a page fit the second-level cache, where a batch of events finds them."""
GROUP: Final = 4
"""Attributes that share their rows for absent values: 16 rows take the place of 4, and one AND that of up to 4."""
FINE: Final = 8
"""Fine cells per cell. Ends are listed by fine cells, so that hardly any is compared with a value."""
NONE: Final = -1


class Pages(NamedTuple):
    """Row attribute r has the rows r * n_cells to (r + 1) * n_cells - 1; group g of absent attributes has
    2**GROUP rows from n_row_attributes * n_cells + g * 2**GROUP on, numbered by the subset that is absent."""

    alive: NDArray[np.uint64]  # (n_pages, PAGE_WORDS), the slot has a clause
    rows: NDArray[np.uint64]  # (n_pages, n_rows, PAGE_WORDS)


class Attributes(NamedTuple):
    """Which attributes have rows, and what is known of the ends that fall into each cell."""

    n_row_attributes: int
    row_attribute: NDArray[np.int32]  # (n_attributes,), its number among those with rows, or NONE
    rare_attribute: NDArray[np.int32]  # (n_attributes,), its number among those without rows, or NONE
    highest_low: NDArray[np.float64]  # (n_attributes, n_cells), over all low ends in the cell; -inf if there is none
    lowest_high: NDArray[np.float64]  # (n_attributes, n_cells), over all high ends in the cell; inf if there is none


def n_rows(n_row_attributes: int, n_cells: int) -> int:
    """Return how many rows a page has."""
    return n_row_attributes * n_cells + (-(-n_row_attributes // GROUP) << GROUP)


@inlined
def group_row(attributes: Attributes, n_cells: int, r: int) -> int:
    """Return the first row of the group that row attribute r belongs to."""
    return attributes.n_row_attributes * n_cells + ((r // GROUP) << GROUP)


@kernel
def enter_clauses(
    rule: BucketRule, table: ClauseTable, slots: NDArray[np.int32], attributes: Attributes, pages: Pages
) -> None:
    """Write the clauses at `slots` of the table into the rows."""
    n_cells = rule.n_cells // FINE
    for slot in slots:
        page, place = slot // PAGE, slot % PAGE
        if table.stop[slot] > table.start[slot]:
            set_bit(pages.alive[page], place)
        for p in range(table.start[slot], table.stop[slot]):
            a = table.attribute[p]
            first = cell_of_value(rule, a, table.low[p]) // FINE
            last = cell_of_value(rule, a, table.high[p]) // FINE
            attributes.highest_low[a, first] = max(attributes.highest_low[a, first], table.low[p])
            attributes.lowest_high[a, last] = min(attributes.lowest_high[a, last], table.high[p])
            r = attributes.row_attribute[a]
            if r == NONE:
                continue
            for c in range(first):
                clear_bit(pages.rows[page, r * n_cells + c], place)
            for c in range(last + 1, n_cells):
                clear_bit(pages.rows[page, r * n_cells + c], place)
            group = group_row(attributes, n_cells, r)
            for subset in range(1 << GROUP):
                if subset >> (r % GROUP) & 1:
                    clear_bit(pages.rows[page, group + subset], place)


@kernel
def remove_clauses(
    rule: BucketRule, table: ClauseTable, slots: NDArray[np.int32], attributes: Attributes, pages: Pages
) -> None:
    """Set the bits again that `enter_clauses` cleared. What is known of ends stays: it is a bound, not a fact."""
    n_cells = rule.n_cells // FINE
    for slot in slots:
        page, place = slot // PAGE, slot % PAGE
        clear_bit(pages.alive[page], place)
        for p in range(table.start[slot], table.stop[slot]):
            r = attributes.row_attribute[table.attribute[p]]
            if r == NONE:
                continue
            for c in range(n_cells):
                set_bit(pages.rows[page, r * n_cells + c], place)
            group = group_row(attributes, n_cells, r)
            for subset in range(1 << GROUP):
                set_bit(pages.rows[page, group + subset], place)


@kernel
def mark_rare(
    table: ClauseTable, slots: NDArray[np.int32], attributes: Attributes, null: bool, out_null: NDArray[np.uint64]
) -> None:
    """Mark that the clauses at `slots` ask for their rare attributes, or (null) that they do not any more."""
    for slot in slots:
        for p in range(table.start[slot], table.stop[slot]):
            number = attributes.rare_attribute[table.attribute[p]]
            if number == NONE:
                continue
            row = out_null[slot >> BLOCK_BITS, number]
            if null:
                set_bit(row, slot & (BLOCK_SLOTS - 1))
            else:
                clear_bit(row, slot & (BLOCK_SLOTS - 1))
