"""Changing a GEM-Tree: the way of a clause to its bucket, insertion and deletion (Algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.gem_tree.buckets import make_room, write_place
from eventsieve.matchers.gem_tree.layout import (
    BLOCK,
    BRANCHES,
    BY_CELL,
    BY_ORDER,
    DEPTH,
    FIRST,
    FREE_NODE,
    LIMIT,
    LIVE,
    MOST_RESTS,
    NODES,
    RESTS,
    ROOM,
    SIZE,
    SLOT_BITS,
    Marks,
    Shape,
    Tree,
)
from eventsieve.matchers.gem_tree.nodes import climb, depth_below, free_empty, new_node
from eventsieve.matchers.gem_tree.triangle import cell_of_interval
from eventsieve.model.columns import ClauseTable


@kernel
def _leading_branch(tree: Tree, shape: Shape, clauses: ClauseTable, s: int, i: int, marks: Marks) -> int:
    """Return the branch of node i that a clause goes down, or -1 to stay (Algorithm 1, lines 2-9)."""
    triangle_cells = tree.cell.shape[1]
    lowest = np.inf
    if shape.mode == BY_CELL:
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            if marks.level[a] < 0:
                cell = cell_of_interval(shape, a, clauses.low[p], clauses.high[p], shape.n_cells)
                lowest = min(lowest, shape.rate[a * triangle_cells + cell])
    best = -1
    best_score = best_rank = np.inf
    for b in range(tree.node[i, FIRST], tree.node[i, FIRST] + tree.node[i, BRANCHES]):
        a, t = tree.branch_attribute[b], tree.branch_triangle[b]
        p = marks.predicate[a]
        if p < 0:
            continue
        rank = tree.triangle_cost[t] / tree.triangle_count[t]
        score = rank
        if shape.mode == BY_CELL:
            cell = cell_of_interval(shape, a, clauses.low[p], clauses.high[p], int(np.int64(tree.triangle_scale[t])))
            if marks.level[a] < 0:
                score = shape.rate[a * triangle_cells + cell]
            else:
                score = shape.finer_rate[cell]
                lowest = min(lowest, score)
            if score > lowest:
                continue
        elif shape.mode == BY_ORDER:
            score = shape.priority[a]
        if score < best_score or (score == best_score and rank < best_rank):
            best, best_score, best_rank = b, score, rank
    return best


@kernel
def _find_node(tree: Tree, shape: Shape, clauses: ClauseTable, s: int, limit: int, marks: Marks) -> int:
    """Return the node whose bucket a clause belongs to, and note the levels of its path."""
    i = 0
    branch = _leading_branch(tree, shape, clauses, s, i, marks)
    while branch >= 0:
        a, t = tree.branch_attribute[branch], tree.branch_triangle[branch]
        p = marks.predicate[a]
        depth = depth_below(tree, i, a)
        marks.level[a] = depth - 1
        cell = cell_of_interval(shape, a, clauses.low[p], clauses.high[p], int(np.int64(tree.triangle_scale[t])))
        if tree.cell[t, cell] < 0:
            i = new_node(tree, t, cell, depth, limit)
        else:
            i = tree.cell[t, cell]
        branch = _leading_branch(tree, shape, clauses, s, i, marks)
    return i


@kernel
def insert(
    tree: Tree, shape: Shape, clauses: ClauseTable, slots: NDArray[np.int32], first: int, limit: int, marks: Marks
) -> int:
    """File clauses from slots[first] on, until one lacks room or overfills a bucket. Return the first not filed."""
    node, used = tree.node, tree.used
    for k in range(first, slots.shape[0]):
        if used[FREE_NODE] < 0 and used[NODES] == node.shape[0]:
            marks.need[1] = 1
            return k
        s = slots[k]
        start, stop = clauses.start[s], clauses.stop[s]
        for p in range(start, stop):
            marks.predicate[clauses.attribute[p]] = p
        i = _find_node(tree, shape, clauses, s, limit, marks)
        rests = min(stop - start - node[i, DEPTH], MOST_RESTS)
        fits = node[i, SIZE] < node[i, ROOM] and rests <= node[i, RESTS]
        if fits or make_room(tree, shape, i, rests, marks):
            write_place(tree, shape, clauses, s, i, node[i, SIZE], marks)
            node[i, SIZE] += 1
            used[LIVE] += 1
            climb(tree, shape, i, shape.alpha + (stop - start) - node[i, DEPTH], 1)
            fits = True
        for p in range(start, stop):
            a = clauses.attribute[p]
            marks.predicate[a] = -1
            marks.level[a] = -1
            if fits:
                tree.filed[a, cell_of_interval(shape, a, clauses.low[p], clauses.high[p], shape.n_cells)] += 1
        if not fits:
            return k
        if node[i, SIZE] > node[i, LIMIT]:
            marks.overflow[0] = i
            return k + 1
    return int(slots.shape[0])


@kernel
def delete(tree: Tree, shape: Shape, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
    """Take clauses out of their buckets; the last of a bucket fills the gap."""
    node = tree.node
    for s in slots:
        i, place = tree.node_of_slot[s], tree.place_of_slot[s]
        if i < 0:
            continue
        last = node[i, SIZE] - 1
        if place != last:
            for column in range(1 + node[i, RESTS]):
                at = node[i, BLOCK] + column * node[i, ROOM]
                tree.word[at + place] = tree.word[at + last]
            for column in range(2 * node[i, DEPTH]):
                at = 4 * (node[i, BLOCK] + (1 + node[i, RESTS]) * node[i, ROOM]) + column * node[i, ROOM]
                tree.byte[at + place] = tree.byte[at + last]
            tree.place_of_slot[tree.word[node[i, BLOCK] + place] & SLOT_BITS] = place
        node[i, SIZE] = last
        tree.node_of_slot[s] = -1
        tree.used[LIVE] -= 1
        n_predicates = clauses.stop[s] - clauses.start[s]
        climb(tree, shape, i, -(shape.alpha + n_predicates - node[i, DEPTH]), -1)
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            tree.filed[a, cell_of_interval(shape, a, clauses.low[p], clauses.high[p], shape.n_cells)] -= 1
        free_empty(tree, i)


@kernel
def record(tree: Tree, shape: Shape, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
    """Count the predicates of clauses by attribute and cell (section IV-D)."""
    for s in slots:
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            tree.filed[a, cell_of_interval(shape, a, clauses.low[p], clauses.high[p], shape.n_cells)] += 1
