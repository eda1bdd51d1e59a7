"""What a GEM-Tree is made of: the flat arrays, and the names of their columns."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.transform import TransformTable

BLOCK, SIZE, ROOM, RESTS, FIRST, BRANCHES, DEPTH, ATTRIBUTE, BRANCH_ROOM, PARENT, CELL, LIMIT = range(12)
"""Columns of `Tree.node`. Matching reads the first eight, 64 bytes."""
NODE_FIELDS: Final = 16
"""Two lines of the cache, of which matching touches one."""
FREE: Final = -1
"""The depth of a node that is not in the tree; its PARENT is then the next free node."""
NODES, TRIANGLES, BRANCHES_USED, WORDS, WASTED, FREE_NODE, FREE_TRIANGLE, LIVE = range(8)
"""Places in `Tree.used`: how much of each array is given out, words lost in it, heads of the free lists, clauses."""

BY_CELL, BY_RANK, BY_ORDER = range(3)
"""How the attribute that leads a clause down is chosen: see `Shape.mode`."""

MOST_RESTS: Final = 8
"""Undecided predicates of a clause that stand in its bucket. Few clauses pass so many; the table has the rest."""
SLOT_BITS: Final = np.uint32((1 << 31) - 1)
LOOKED_UP: Final = np.uint32(1 << 31)
"""Set beside a slot whose bucket does not hold all there is to check."""
STEPS: Final = 127
"""Steps a domain is cut into for checks in buckets. A bound in step j has the code 2 j + 1, -inf 0."""
ABOVE_ALL: Final = 2 * STEPS
"""The code of inf: no value has a greater one, and no predicate a greater width."""
NO_BOUND, ONE_BOUND, SOME_BOUNDS = range(3)
"""What the bounds of all predicates are in one step of an attribute: see `Bounds`."""


class Bounds(NamedTuple):
    """The bounds of all predicates so far, by attribute and step, so that equal codes need not mean a look-up.

    Where a step holds one bound alone, as with whole numbers or few distinct values, an event's value is known to lie
    below, on or above it, and comparing codes is exact.
    """

    kind: NDArray[np.uint8]  # (n_attributes, STEPS): NO_BOUND, ONE_BOUND, or SOME_BOUNDS that differ
    value: NDArray[np.float64]  # (n_attributes, STEPS): the one bound


class Shape(NamedTuple):
    """What does not change between two adjustments."""

    n_cells: int  # lambda: cells per side of a triangle
    mode: int  # BY_CELL: least visited cell of the clause; BY_RANK: the paper's rank; BY_ORDER: global order
    alpha: float
    rate: NDArray[np.float64]  # (n_attributes * cells in a triangle,): share of events that visit the cell
    finer_rate: NDArray[np.float64]  # (cells in a triangle,): share of the events in a cell that visit a finer cell
    priority: NDArray[np.int32]  # (n_attributes,): place in the global order
    transform: TransformTable


class Tree(NamedTuple):
    """An attribute node is a row of `node`; a triangle node is a row of `cell` and of the triangle_ arrays.

    Cell (row, column) of a triangle has the number row * (row + 1) / 2 + column. Node i has the branches
    node[i, FIRST] + 0, 1, ..., each an attribute with its triangle. A node in a cell on the diagonal may have a finer
    triangle of its own attribute, always its first branch; nodes in that have the same depth. A bucket is a block of
    the pool with ROOM places, a multiple of 8, column after column: slots; attribute << 16 | low << 8 | high - low in
    codes, for up to RESTS predicates, the narrowest first; then bytes, the codes of low and high for each attribute on
    the path. Arrays have spare room behind what is in use.
    """

    node: NDArray[np.int64]  # (room, NODE_FIELDS); node 0 is the root
    triangle_attribute: NDArray[np.int32]
    triangle_scale: NDArray[np.int32]  # cells across the domain: see `triangle.py`
    triangle_parent: NDArray[np.int32]  # its attribute node; in a free triangle the next free one
    triangle_count: NDArray[np.int64]  # clauses below
    triangle_cost: NDArray[np.float64]  # expected cost of matching them
    cell: NDArray[np.int32]  # (room, cells in a triangle): node or -1
    columns_in_use: NDArray[np.uint64]  # (room, n_cells): by row, a bit for each column whose cell has a node
    branch_attribute: NDArray[np.int32]
    branch_triangle: NDArray[np.int32]
    word: NDArray[np.uint32]  # the pool of blocks
    byte: NDArray[np.uint8]  # the same memory
    bounds: Bounds
    node_of_slot: NDArray[np.int32]  # -1 where the slot is not filed
    place_of_slot: NDArray[np.int32]
    filed: NDArray[np.int64]  # (n_attributes, cells in a triangle): predicates per cell over the whole index
    used: NDArray[np.int64]


class Marks(NamedTuple):
    """The clause at hand by attribute: its predicate, and the level where it is on the path, -1 where there is none."""

    predicate: NDArray[np.int64]  # (n_attributes,)
    level: NDArray[np.int32]  # (n_attributes,)
    need: NDArray[np.int64]  # (2,): words and nodes there was no room for
    overflow: NDArray[np.int64]  # (1,): a node whose bucket is over its limit, or -1


def cells_of_triangle(n_cells: int) -> int:
    """Return the number of cells of a triangle with this many per side."""
    return n_cells * (n_cells + 1) // 2


def new_marks(n_attributes: int) -> Marks:
    """Return marks for any clause."""
    absent = np.full(n_attributes, -1, np.int64)
    return Marks(absent, absent.astype(np.int32), np.zeros(2, np.int64), np.full(1, -1, np.int64))
