"""Nodes and triangles of a GEM-Tree: making, giving back, and the ranks along a path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS
from eventsieve.matchers.gem_tree.layout import (
    ATTRIBUTE,
    BLOCK,
    BRANCH_ROOM,
    BRANCHES,
    BRANCHES_USED,
    BY_CELL,
    CELL,
    DEPTH,
    FIRST,
    FREE,
    FREE_NODE,
    FREE_TRIANGLE,
    LIMIT,
    NODES,
    PARENT,
    RESTS,
    ROOM,
    SIZE,
    TRIANGLES,
    WASTED,
    Shape,
    Tree,
)
from eventsieve.matchers.gem_tree.triangle import column_of, row_of


@inlined
def words_of(room: int, depth: int, rests: int) -> int:
    """Return the words of a bucket's block."""
    return room * (1 + rests) + (room >> 1) * depth


@kernel
def new_node(tree: Tree, parent: int, cell: int, depth: int, limit: int) -> int:
    """Make an empty attribute node for a cell of a triangle, out of a freed one where there is one."""
    node, used = tree.node, tree.used
    if used[FREE_NODE] >= 0:
        i = used[FREE_NODE]
        used[FREE_NODE] = node[i, PARENT]
    else:
        i = used[NODES]
        used[NODES] += 1
        node[i, FIRST] = node[i, BRANCH_ROOM] = 0
    node[i, BLOCK] = node[i, SIZE] = node[i, ROOM] = node[i, RESTS] = node[i, BRANCHES] = 0
    node[i, DEPTH] = depth
    node[i, ATTRIBUTE] = -1
    node[i, PARENT] = parent
    node[i, CELL] = cell
    node[i, LIMIT] = limit
    if parent >= 0:
        node[i, ATTRIBUTE] = tree.triangle_attribute[parent]
        tree.cell[parent, cell] = i
        tree.columns_in_use[parent, row_of(cell)] |= np.uint64(1) << np.uint64(column_of(cell))
    return int(i)


@kernel
def plant(
    tree: Tree, i: int, a: int, scale: int, size_of_cell: NDArray[np.int64], limit: int, out_node: NDArray[np.int64]
) -> None:
    """Give node i a triangle of attribute a with a node for each cell that is not empty (Algorithm 1, line 21)."""
    used = tree.used
    if used[FREE_TRIANGLE] >= 0:
        t = used[FREE_TRIANGLE]
        used[FREE_TRIANGLE] = tree.triangle_parent[t]
    else:
        t = used[TRIANGLES]
        used[TRIANGLES] += 1
    tree.triangle_attribute[t] = a
    tree.triangle_scale[t] = scale
    tree.triangle_parent[t] = i
    tree.triangle_count[t] = 0
    tree.triangle_cost[t] = 0.0
    _add_branch(tree, i, a, t)
    tree.columns_in_use[t] = 0
    for cell in range(size_of_cell.shape[0]):
        out_node[cell] = tree.cell[t, cell] = -1
        if size_of_cell[cell] > 0:
            out_node[cell] = new_node(tree, t, cell, depth_below(tree, i, a), limit)


@kernel
def _add_branch(tree: Tree, i: int, a: int, t: int) -> None:
    """Enter a triangle in the directory of node i; a finer one of the node's own attribute comes first."""
    node, used = tree.node, tree.used
    if node[i, BRANCHES] == node[i, BRANCH_ROOM]:
        start, room = used[BRANCHES_USED], branch_room(node[i, BRANCHES])
        used[BRANCHES_USED] += room
        for b in range(node[i, BRANCHES]):
            tree.branch_attribute[start + b] = tree.branch_attribute[node[i, FIRST] + b]
            tree.branch_triangle[start + b] = tree.branch_triangle[node[i, FIRST] + b]
        node[i, FIRST], node[i, BRANCH_ROOM] = start, room
    first, last = node[i, FIRST], node[i, FIRST] + node[i, BRANCHES]
    node[i, BRANCHES] += 1
    if a == node[i, ATTRIBUTE]:
        tree.branch_attribute[last], tree.branch_triangle[last] = (
            tree.branch_attribute[first],
            tree.branch_triangle[first],
        )
        last = first
    tree.branch_attribute[last], tree.branch_triangle[last] = a, t


@inlined
def depth_below(tree: Tree, i: int, a: int) -> int:
    """Return the depth of a node below node i by attribute a; a finer triangle of its own attribute adds nothing."""
    return tree.node[i, DEPTH] + (a != tree.node[i, ATTRIBUTE])


@kernel
def branch_room(size: int) -> int:
    """Return the room of a directory that has outgrown its old one."""
    return size + (size >> 1) + 2


@kernel
def finer_scale(tree: Tree, shape: Shape, i: int) -> int:
    """Return the scale of a finer triangle that may divide the bucket of node i, 0 where there can be none.

    Only intervals in a cell on the diagonal lie within one cell. In the paper's orders an attribute leads down once.
    """
    t, cell = tree.node[i, PARENT], tree.node[i, CELL]
    if shape.mode != BY_CELL or t < 0 or row_of(cell) != column_of(cell):
        return 0
    if tree.node[i, BRANCHES] > 0 and tree.branch_attribute[tree.node[i, FIRST]] == tree.node[i, ATTRIBUTE]:
        return 0
    scale = np.int64(tree.triangle_scale[t]) * shape.n_cells
    return int(scale) if scale <= 1 << CODE_BITS else 0


@kernel
def free_empty(tree: Tree, i: int) -> None:
    """Give back node i if nothing is left in it, and what that leaves empty above it."""
    node, used = tree.node, tree.used
    while i > 0 and node[i, SIZE] == 0 and node[i, BRANCHES] == 0:
        t = node[i, PARENT]
        tree.cell[t, node[i, CELL]] = -1
        tree.columns_in_use[t, row_of(node[i, CELL])] &= ~(np.uint64(1) << np.uint64(column_of(node[i, CELL])))
        used[WASTED] += words_of(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
        node[i, ROOM] = 0
        node[i, DEPTH] = FREE
        node[i, PARENT] = used[FREE_NODE]
        used[FREE_NODE] = i
        if tree.triangle_count[t] > 0:
            return
        i = tree.triangle_parent[t]
        b, last = node[i, FIRST], node[i, FIRST] + node[i, BRANCHES] - 1
        while tree.branch_triangle[b] != t:
            b += 1
        tree.branch_attribute[b] = tree.branch_attribute[last]
        tree.branch_triangle[b] = tree.branch_triangle[last]
        node[i, BRANCHES] -= 1
        tree.triangle_parent[t] = used[FREE_TRIANGLE]
        used[FREE_TRIANGLE] = t


@kernel
def climb(tree: Tree, shape: Shape, i: int, cost: float, count: int) -> None:
    """Add clauses of some cost at node i to the ranks of all triangles above it (section IV-B-3, cost and num)."""
    while i > 0:
        t = tree.node[i, PARENT]
        if tree.triangle_scale[t] > shape.n_cells:
            cost *= shape.finer_rate[tree.node[i, CELL]]
        else:
            cost *= shape.rate[tree.triangle_attribute[t] * tree.cell.shape[1] + tree.node[i, CELL]]
        tree.triangle_cost[t] += cost
        tree.triangle_count[t] += count
        i = tree.triangle_parent[t]
