"""Rows of bits, one bit per clause: which clauses a value cell, or the lack of an attribute, does not rule out.

512 positions are a block, and a row of a block is one line of the cache. For each attribute that enough clauses ask
for, and each cell of its domain, a block has a row: the bit of a position is clear if its clause cannot hold for a
value in that cell. For attributes that an event lacks there are rows too, one for each subset of four attributes. So an
event picks some rows, and their AND is what is possible.

Who is in the rows of both neighbouring cells has no end in the cell between them, and holds for every value there. So
that the outermost cells have neighbours too, each attribute has a row before its first cell and one behind its last:
there, clauses are in that have no end on that side, or at the very border of the domain.

Bits of free positions are set in all rows; entering a clause clears bits, removing it sets them again. `alive` is what
every AND starts with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import ALL_ONES
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS
from eventsieve._kernels.positions import CODE_BITS, cell_of_code, code_of
from eventsieve.matchers.sieve.order import BLOCK, SHARED
from eventsieve.matchers.sieve.predicates import LAST_CODE, fields
from eventsieve.model.growing import GrowingArray

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.predicates import Predicates
    from eventsieve.model.columns import ClauseTable
    from eventsieve.model.transform import TransformTable

GROUP: Final = 4
"""Attributes that share their rows for absent values: 16 rows take the place of 4, and one AND that of up to 4."""
NONE: Final = -1
_BORDERS: Final = 2
"""Rows per attribute beside those of its cells."""
_ATTRIBUTE, _LOW, _HIGH = 0, 1, 2
_ONE: Final = np.uint64(1)


class Rows(NamedTuple):
    """Row attribute r has n_cells rows from `first_row` on, one before them and one behind them; group g of absent
    attributes has 2**GROUP rows from `group_row` on, numbered by the subset that is absent."""

    first: int  # the first block that has rows; those before are in chunks
    bits: NDArray[np.uint64]  # (n_blocks - first, n_rows, 8)
    alive: NDArray[np.uint64]  # (n_blocks, 16): the position has a clause; it has one without rare attributes
    hull: NDArray[np.uint16]  # (n_blocks, 3, SHARED): shared attributes, or n_attributes; lowest code, highest code


class Attributes(NamedTuple):
    """Which attributes have rows, and what is known of the ends that fall into each cell."""

    n_cells: int
    row_attribute: NDArray[np.int32]  # (n_attributes,), its number among those with rows, or NONE
    attribute_of_row: NDArray[np.int32]  # (n_row_attributes,), by falling number of clauses that ask for it
    highest_low: NDArray[np.float64]  # (n_attributes, n_cells), over all low ends in the cell; -inf if there is none,
    # and inf where ends are not whole numbers
    lowest_high: NDArray[np.float64]  # (n_attributes, n_cells), over all high ends in the cell; inf if there is none
    whole: NDArray[np.bool_]  # (n_attributes,), all ends are open, or whole numbers with codes of their own


class GrowingRows:
    """The owner of the rows. Blocks come and go at their end."""

    def __init__(self, rows: Rows, n_attributes: int) -> None:
        self._first = rows.first
        self._bits = GrowingArray(rows.bits)
        self._alive = GrowingArray(rows.alive)
        self._hull = GrowingArray(rows.hull)
        self._n_attributes = n_attributes

    @classmethod
    def of_no_blocks(cls, attributes: Attributes) -> GrowingRows:
        """Return rows for these attributes."""
        n_attributes = attributes.row_attribute.size
        rows = Rows(
            0,
            np.zeros((0, n_rows(attributes.attribute_of_row.size, attributes.n_cells), LINE_WORDS), np.uint64),
            np.zeros((0, 2 * LINE_WORDS), np.uint64),
            np.zeros((0, 3, SHARED), np.uint16),
        )
        return cls(rows, n_attributes)

    @property
    def arrays(self) -> Rows:
        return Rows(self._first, self._bits.view, self._alive.view, self._hull.view)

    def keep(self, n_blocks: int) -> None:
        """Keep the first blocks only."""
        self._bits.resize(max(0, n_blocks - self._first))
        self._alive.resize(n_blocks)
        self._hull.resize(n_blocks)

    def add_chunked(self, n_blocks: int) -> None:
        """Have this many blocks, all of them in chunks: they have no rows, and visits begin behind them."""
        self._first = n_blocks
        self._alive.resize(n_blocks)
        self._hull.resize(n_blocks)

    def add(self, n_blocks: int) -> None:
        """Have this many blocks if there are fewer; the new ones have rows that know of nobody."""
        if n_blocks > len(self._alive):
            self._bits.resize(n_blocks - self._first, ALL_ONES)
            self._alive.resize(n_blocks, 0)
            self._hull.resize(n_blocks, open_hull(self._n_attributes))


def n_rows(n_row_attributes: int, n_cells: int) -> int:
    """Return how many rows a block has: at least one, so that there is something to AND."""
    return max(1, n_row_attributes * (n_cells + _BORDERS) + (-(-n_row_attributes // GROUP) << GROUP))


@inlined
def first_row(attributes: Attributes, r: int) -> int:
    """Return the row of the first cell of row attribute r."""
    return r * (attributes.n_cells + _BORDERS) + 1


@inlined
def group_row(attributes: Attributes, r: int) -> int:
    """Return the first row of the group that row attribute r belongs to."""
    return attributes.attribute_of_row.shape[0] * (attributes.n_cells + _BORDERS) + ((r // GROUP) << GROUP)


@kernel
def enter_clauses(predicates: Predicates, positions: NDArray[np.int32], attributes: Attributes, rows: Rows) -> None:
    """Write those of the clauses at `positions` that are in no chunk into the rows."""
    n_cells, row_attribute = attributes.n_cells, attributes.row_attribute
    bits, alive = rows.bits, rows.alive
    for position in positions:
        block, word = position // BLOCK - rows.first, position % BLOCK // WORD_BITS
        if block < 0:
            continue
        bit = _ONE << np.uint64(position % WORD_BITS)
        alive[rows.first + block, word] |= bit
        alive[rows.first + block, LINE_WORDS + word] |= bit
        for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
            a, low, high = fields(predicates, p)
            r = row_attribute[a]
            if r == NONE:
                alive[rows.first + block, LINE_WORDS + word] &= ~bit
                continue
            first, last = cell_of_code(low, n_cells), cell_of_code(high, n_cells)
            row_of_cell = first_row(attributes, r)
            for row in range(row_of_cell - (low > 0), row_of_cell + first):
                bits[block, row, word] &= ~bit
            for row in range(row_of_cell + last + 1, row_of_cell + n_cells + (high < LAST_CODE)):
                bits[block, row, word] &= ~bit
            group = group_row(attributes, r)
            for subset in range(1 << GROUP):
                if subset >> (r % GROUP) & 1:
                    bits[block, group + subset, word] &= ~bit


@kernel
def remove_clauses(predicates: Predicates, positions: NDArray[np.int32], attributes: Attributes, rows: Rows) -> None:
    """Set the bits again that `enter_clauses` cleared. What is known of ends stays: it is a bound, not a fact."""
    n_cells, row_attribute = attributes.n_cells, attributes.row_attribute
    bits, alive = rows.bits, rows.alive
    for position in positions:
        block, word = position // BLOCK - rows.first, position % BLOCK // WORD_BITS
        if block < 0:
            continue
        bit = _ONE << np.uint64(position % WORD_BITS)
        alive[rows.first + block, word] &= ~bit
        alive[rows.first + block, LINE_WORDS + word] &= ~bit
        for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
            a, _, _ = fields(predicates, p)
            r = row_attribute[a]
            if r == NONE:
                continue
            group = group_row(attributes, r)
            row_of_cell = first_row(attributes, r)
            for row in range(row_of_cell - 1, row_of_cell + n_cells + 1):
                bits[block, row, word] |= bit
            for row in range(group, group + (1 << GROUP)):
                bits[block, row, word] |= bit


@kernel
def note_ends(
    table: TransformTable,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    apart: NDArray[np.bool_],
    attributes: Attributes,
) -> None:
    """Learn of the ends of clauses: whether all of an attribute's are whole numbers, and if so the extremes per cell.

    Other ends lie anywhere in their cells: hardly a value would be above or below all of them.
    """
    n_cells, whole = attributes.n_cells, attributes.whole
    for s in slots:
        for p in range(clauses.start[s], clauses.stop[s]):
            a, low, high = clauses.attribute[p], clauses.low[p], clauses.high[p]
            if not whole[a]:
                continue
            if (low > -np.inf and not is_whole(table, apart, a, low)) or (
                high < np.inf and not is_whole(table, apart, a, high)
            ):
                whole[a] = False
                attributes.highest_low[a, :] = np.inf
                continue
            first = cell_of_code(code_of(table, a, low), n_cells)
            last = cell_of_code(code_of(table, a, high), n_cells)
            attributes.highest_low[a, first] = max(attributes.highest_low[a, first], low)
            attributes.lowest_high[a, last] = min(attributes.lowest_high[a, last], high)


@inlined
def is_whole(table: TransformTable, apart: NDArray[np.bool_], a: int, value: float) -> bool:
    """Say whether no other whole number of the domain shares the code of this one."""
    inside = table.value[table.start[a]] <= value <= table.value[table.start[a + 1] - 1]
    return bool(apart[a] and inside and value == np.floor(value))


@kernel
def note_hulls(predicates: Predicates, first_block: int, n_attributes: int, hull: NDArray[np.uint16]) -> None:
    """Find, for every block from `first_block` on, the shared attributes with the narrowest hulls."""
    count = np.zeros(n_attributes, np.int32)
    least, most = np.zeros(n_attributes, np.int32), np.zeros(n_attributes, np.int32)
    for block in range(first_block, hull.shape[0]):
        first = block * BLOCK
        stop = min(first + BLOCK, predicates.span.shape[0] // 2)
        count[:] = 0
        for position in range(first, stop):
            for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
                a, low, high = fields(predicates, p)
                least[a] = min(least[a], low) if count[a] else low
                most[a] = max(most[a], high) if count[a] else high
                count[a] += 1
        for j in range(SHARED):
            best = NONE
            for p in range(predicates.span[2 * first], predicates.span[2 * first + 1]):
                a, _, _ = fields(predicates, p)
                if count[a] == stop - first and (best == NONE or most[a] - least[a] < most[best] - least[best]):
                    best = a
            hull[block, _ATTRIBUTE, j] = n_attributes if best == NONE else best
            hull[block, _LOW, j] = 0 if best == NONE else least[best]
            hull[block, _HIGH, j] = LAST_CODE if best == NONE else most[best]
            if best != NONE:
                count[best] = 0


def open_hull(n_attributes: int) -> NDArray[np.uint16]:
    """Return the hull of a block whose clauses share nothing: every event has to look into it."""
    hull = np.zeros((3, SHARED), np.uint16)
    hull[_ATTRIBUTE] = n_attributes
    hull[_HIGH] = LAST_CODE
    return hull


def share_passed(hull: NDArray[np.uint16]) -> float:
    """Return the share of blocks that an event with all attributes and uniform values has to look into."""
    if not hull.size:
        return 1.0
    widths = (hull[:, _HIGH].astype(np.float64) - hull[:, _LOW] + 1) / (1 << CODE_BITS)
    return float(widths.prod(axis=1).mean())
