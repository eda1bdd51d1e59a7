"""What a sieve is made of: pages of rows, one bit per clause, and the order of clauses that lets blocks be skipped.

Clauses stand at positions of the sieve's own choosing, sorted by the attributes they ask for. A page is 4,096
positions. For each attribute that enough clauses ask for, and each cell of its domain, a page has a row: the bit of a
position is clear if its clause cannot hold for a value in that cell. For attributes that an event lacks there are rows
too, one for each subset of four neighbouring attributes. So an event picks some rows, and their AND is what is left.

Bits of free positions are set in all rows but `alive`: entering a clause clears bits, removing it sets them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import clear_bit, set_bit
from eventsieve._kernels.buckets import BLOCK_BITS, BLOCK_SLOTS, BucketRule, cell_of_value
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.sieve.lines import LINE_WORDS

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable, Domains

PAGE_WORDS: Final = 64
PAGE: Final = PAGE_WORDS * WORD_BITS
"""Positions per page. All rows of a page fit the second-level cache, where a batch of events finds them."""
BLOCK_WORDS: Final = LINE_WORDS
"""Words per block, the part of a page that is skipped as a whole: one line of the cache in each row."""
PAGE_BLOCKS: Final = PAGE_WORDS // BLOCK_WORDS
ALL_BLOCKS: Final = (1 << PAGE_BLOCKS) - 1
GROUP: Final = 4
"""Attributes that share their rows for absent values: 16 rows take the place of 4, and one AND that of up to 4."""
FINE: Final = 8
"""Fine cells per cell. Ends are listed by fine cells, so that hardly any is compared with a value."""
SHARED: Final = 4
"""Attributes noted per block that all of its clauses ask for."""
NONE: Final = -1


_SAMPLE: Final = 1 << 14
_MANY_MATCHES: Final = 0.006
"""The share of clauses that an event with all attributes matches, above which clauses stay in order."""


class Pages(NamedTuple):
    """The rows. Row attribute r has the rows r * n_cells to (r + 1) * n_cells - 1; group g of absent attributes has
    2**GROUP rows from n_row_attributes * n_cells + g * 2**GROUP on, numbered by the subset that is absent."""

    alive: NDArray[np.uint64]  # (n_pages, PAGE_WORDS), the position has a clause
    rows: NDArray[np.uint64]  # (n_pages, n_rows, PAGE_WORDS)
    shared: NDArray[np.int16]  # (n_pages, PAGE_BLOCKS, SHARED), attributes that all clauses of a block ask for, or NONE


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


def matches_many(clauses: ClauseTable, domains: Domains) -> bool:
    """Tell whether events match so many clauses that it costs more to list them than to find them."""
    used = np.flatnonzero(clauses.stop > clauses.start)
    sample = used[:: max(1, used.size // _SAMPLE)]
    return bool(sample.size) and _match_rate(clauses, domains, sample) > _MANY_MATCHES


def sorted_by_attributes(clauses: ClauseTable, n_attributes: int) -> NDArray[np.int32]:
    """Return the slots of all clauses that ask for something, by the attributes they ask for, common ones first.

    Neighbours then share attributes, so an event that lacks one of these passes over all of them at once.
    """
    used = np.flatnonzero(clauses.stop > clauses.start)
    frequency = np.bincount(clauses.attribute, minlength=n_attributes)
    rank = np.empty(n_attributes, np.int64)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(n_attributes)
    key = np.empty(used.size, np.uint64)
    _sort_keys(clauses, used, rank, key)
    return used[np.argsort(key, kind="stable")].astype(np.int32)


@kernel
def _match_rate(clauses: ClauseTable, domains: Domains, slots: NDArray[np.int64]) -> float:
    """Return the share of clauses that an event with all attributes and uniform values would match."""
    total = 0.0
    for s in slots:
        rate = 1.0
        for p in range(clauses.start[s], clauses.stop[s]):
            low, high = domains.low[clauses.attribute[p]], domains.high[clauses.attribute[p]]
            inside = min(clauses.high[p], high) - max(clauses.low[p], low)
            rate *= max(inside / (high - low), 0.0)
        total += rate
    return float(total / slots.shape[0])


@kernel
def _sort_keys(
    clauses: ClauseTable, slots: NDArray[np.int64], rank: NDArray[np.int64], out_key: NDArray[np.uint64]
) -> None:
    """Write the ranks of each clause's four most common attributes, as one number."""
    best = np.empty(4, np.int64)
    for i in range(slots.shape[0]):
        best[:] = 0xFFFF
        for p in range(clauses.start[slots[i]], clauses.stop[slots[i]]):
            r = min(rank[clauses.attribute[p]], 0xFFFF)
            for j in range(4):
                if r < best[j]:
                    r, best[j] = best[j], r
        out_key[i] = (best[0] << 48) | (best[1] << 32) | (best[2] << 16) | best[3]


@kernel
def copy_in_order(table: ClauseTable, out_table: ClauseTable) -> None:
    """Copy the predicates of a table one clause after the other: passes over all of them then read straight on."""
    p = 0
    for position in range(table.start.shape[0]):
        out_table.start[position] = p
        for source in range(table.start[position], table.stop[position]):
            out_table.attribute[p] = table.attribute[source]
            out_table.low[p] = table.low[source]
            out_table.high[p] = table.high[source]
            p += 1
        out_table.stop[position] = p


@inlined
def group_row(attributes: Attributes, n_cells: int, r: int) -> int:
    """Return the first row of the group that row attribute r belongs to."""
    return attributes.n_row_attributes * n_cells + ((r // GROUP) << GROUP)


@kernel
def enter_clauses(
    rule: BucketRule, table: ClauseTable, positions: NDArray[np.int32], attributes: Attributes, pages: Pages
) -> None:
    """Write the clauses at `positions` of the table into the rows."""
    n_cells = rule.n_cells // FINE
    for position in positions:
        page, place = position // PAGE, position % PAGE
        if table.stop[position] > table.start[position]:
            set_bit(pages.alive[page], place)
        for p in range(table.start[position], table.stop[position]):
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
    rule: BucketRule, table: ClauseTable, positions: NDArray[np.int32], attributes: Attributes, pages: Pages
) -> None:
    """Set the bits again that `enter_clauses` cleared. What is known of ends stays: it is a bound, not a fact."""
    n_cells = rule.n_cells // FINE
    for position in positions:
        page, place = position // PAGE, position % PAGE
        clear_bit(pages.alive[page], place)
        for p in range(table.start[position], table.stop[position]):
            r = attributes.row_attribute[table.attribute[p]]
            if r == NONE:
                continue
            for c in range(n_cells):
                set_bit(pages.rows[page, r * n_cells + c], place)
            group = group_row(attributes, n_cells, r)
            for subset in range(1 << GROUP):
                set_bit(pages.rows[page, group + subset], place)


@kernel
def note_shared(table: ClauseTable, pages: Pages) -> None:
    """Find out, for every block, attributes that all of its clauses ask for."""
    block_size = BLOCK_WORDS * WORD_BITS
    for first in range(0, table.start.shape[0], block_size):
        stop = min(first + block_size, table.start.shape[0])
        shared = pages.shared[first // PAGE, first % PAGE // block_size]
        n_shared = 0
        for p in range(table.start[first], table.stop[first]):
            a = table.attribute[p]
            everyone = n_shared < SHARED
            position = first + 1
            while everyone and position < stop:
                everyone = asks_for(table, position, a)
                position += 1
            if everyone:
                shared[n_shared] = a
                n_shared += 1


@kernel
def keep_shared(table: ClauseTable, positions: NDArray[np.int32], pages: Pages) -> None:
    """Strike out the attributes that a clause new at a position does not share with its block."""
    block_size = BLOCK_WORDS * WORD_BITS
    for position in positions:
        shared = pages.shared[position // PAGE, position % PAGE // block_size]
        for j in range(SHARED):
            if shared[j] != NONE and not asks_for(table, position, shared[j]):
                shared[j] = NONE


@inlined
def asks_for(table: ClauseTable, position: int, a: int) -> bool:
    """Tell whether the clause at a position asks for attribute a."""
    found = False
    for p in range(table.start[position], table.stop[position]):
        found |= table.attribute[p] == a
    return found


@kernel
def mark_rare(
    table: ClauseTable, positions: NDArray[np.int32], attributes: Attributes, null: bool, out_null: NDArray[np.uint64]
) -> None:
    """Mark that the clauses at `positions` ask for their rare attributes, or (null) that they do not any more."""
    for position in positions:
        for p in range(table.start[position], table.stop[position]):
            number = attributes.rare_attribute[table.attribute[p]]
            if number == NONE:
                continue
            row = out_null[position >> BLOCK_BITS, number]
            if null:
                set_bit(row, position & (BLOCK_SLOTS - 1))
            else:
                clear_bit(row, position & (BLOCK_SLOTS - 1))
