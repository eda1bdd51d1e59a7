"""Buckets of a GEM-Tree: blocks of a pool with the clauses of a node and codes of their predicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.matchers.gem_tree.layout import (
    ABOVE_ALL,
    ATTRIBUTE,
    BLOCK,
    DEPTH,
    LOOKED_UP,
    MOST_RESTS,
    NO_BOUND,
    NODES,
    ONE_BOUND,
    PARENT,
    RESTS,
    ROOM,
    SIZE,
    SOME_BOUNDS,
    STEPS,
    WASTED,
    WORDS,
    Bounds,
    Marks,
    Shape,
    Tree,
)
from eventsieve.matchers.gem_tree.nodes import climb, words_of
from eventsieve.model.columns import ClauseTable


@inlined
def _rounded_room(size: int) -> int:
    return (size + 7) & ~7


@kernel
def _coded(bounds: Bounds, shape: Shape, a: int, bound: float) -> int:
    """Return the code of a finite bound, and remember the bound."""
    step = min(int(position_of(shape.transform, a, bound) * STEPS), STEPS - 1)
    if bounds.kind[a, step] == NO_BOUND:
        bounds.kind[a, step] = ONE_BOUND
        bounds.value[a, step] = bound
    elif bounds.value[a, step] != bound:
        bounds.kind[a, step] = SOME_BOUNDS
    return 2 * step + 1


@kernel
def write_place(tree: Tree, shape: Shape, clauses: ClauseTable, s: int, i: int, place: int, marks: Marks) -> None:
    """Write a clause to its place in the bucket of node i; `marks.level` tells which predicates are on the path."""
    node, word = tree.node, tree.word
    room, rests = node[i, ROOM], node[i, RESTS]
    at = node[i, BLOCK] + place
    path = 4 * (node[i, BLOCK] + (1 + rests) * room) + place
    flag = np.uint32(0)
    n_filled = 0
    for p in range(clauses.start[s], clauses.stop[s]):
        a = clauses.attribute[p]
        low = 0 if clauses.low[p] == -np.inf else _coded(tree.bounds, shape, a, clauses.low[p])
        high = ABOVE_ALL if clauses.high[p] == np.inf else _coded(tree.bounds, shape, a, clauses.high[p])
        if clauses.low[p] > clauses.high[p]:
            flag, high = LOOKED_UP, low
        level = marks.level[a]
        if level >= 0:
            tree.byte[path + 2 * level * room] = low
            tree.byte[path + (2 * level + 1) * room] = high
            continue
        width = high - low
        rank = n_filled
        while rank > 0 and width < word[at + rank * room] & 255:
            rank -= 1
        if n_filled == rests:
            flag = LOOKED_UP
            if rank == rests:
                continue
        n_filled = min(n_filled + 1, rests)
        for j in range(n_filled, rank + 1, -1):
            word[at + j * room] = word[at + (j - 1) * room]
        word[at + (rank + 1) * room] = (a << 16) | (low << 8) | width
    for j in range(n_filled, rests):
        word[at + (j + 1) * room] = _no_check(shape)
    word[at] = np.uint32(s) | flag
    tree.node_of_slot[s] = i
    tree.place_of_slot[s] = place


@inlined
def _no_check(shape: Shape) -> int:
    """Return a predicate that holds: any code of an attribute past the last, which every event has a value of."""
    return int((shape.priority.shape[0] << 16) | ABOVE_ALL)


@kernel
def measure(
    tree: Tree,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    nodes: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Return the words of new blocks for nodes that are to hold these ranges of `slots`; note their columns."""
    total = 0
    for n in range(nodes.shape[0]):
        i = nodes[n]
        tree.used[WASTED] += words_of(tree.node[i, ROOM], tree.node[i, DEPTH], tree.node[i, RESTS])
        longest = 0
        for k in range(begins[n], ends[n]):
            longest = max(longest, clauses.stop[slots[k]] - clauses.start[slots[k]])
        size = ends[n] - begins[n]
        tree.node[i, SIZE] = 0
        tree.node[i, RESTS] = min(max(longest - tree.node[i, DEPTH], 0), MOST_RESTS)
        # A little room, so that the first insertion does not move the block.
        tree.node[i, ROOM] = _rounded_room(size + (size >> 4)) if size else 0
        total += words_of(tree.node[i, ROOM], tree.node[i, DEPTH], tree.node[i, RESTS])
    return int(total)


@kernel
def fill(
    tree: Tree,
    shape: Shape,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    nodes: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    marks: Marks,
) -> None:
    """Write the blocks that `measure` noted. All clauses came from nodes[0], and the ranks follow them down."""
    node = tree.node
    for n in range(nodes.shape[0]):
        i = nodes[n]
        node[i, BLOCK] = tree.used[WORDS]
        tree.used[WORDS] += words_of(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
        above = i
        while above > 0:
            marks.level[node[above, ATTRIBUTE]] = node[above, DEPTH] - 1
            above = tree.triangle_parent[node[above, PARENT]]
        cost = moved_cost = 0.0
        for k in range(begins[n], ends[n]):
            s = slots[k]
            write_place(tree, shape, clauses, s, i, k - begins[n], marks)
            n_predicates = clauses.stop[s] - clauses.start[s]
            cost += shape.alpha + n_predicates - node[i, DEPTH]
            moved_cost += shape.alpha + n_predicates - node[nodes[0], DEPTH]
        node[i, SIZE] = ends[n] - begins[n]
        if n > 0:
            climb(tree, shape, nodes[0], -moved_cost, begins[n] - ends[n])
            climb(tree, shape, i, cost, ends[n] - begins[n])
        above = i
        while above > 0:
            marks.level[node[above, ATTRIBUTE]] = -1
            above = tree.triangle_parent[node[above, PARENT]]


@kernel
def _move_block(
    tree: Tree, i: int, room: int, rests: int, start: int, out_word: NDArray[np.uint32], out_byte: NDArray[np.uint8]
) -> None:
    """Copy the bucket of node i to a block of another shape that begins at `start`."""
    node = tree.node
    old_room, old_rests, size = node[i, ROOM], node[i, RESTS], node[i, SIZE]
    for column in range(1 + old_rests):
        old, new = node[i, BLOCK] + column * old_room, start + column * room
        for place in range(size):
            out_word[new + place] = tree.word[old + place]
    for column in range(2 * node[i, DEPTH]):
        old = 4 * (node[i, BLOCK] + (1 + old_rests) * old_room) + column * old_room
        new = 4 * (start + (1 + rests) * room) + column * room
        for place in range(size):
            out_byte[new + place] = tree.byte[old + place]
    node[i, BLOCK], node[i, ROOM], node[i, RESTS] = start, room, rests


@kernel
def make_room(tree: Tree, shape: Shape, i: int, rests: int, marks: Marks) -> bool:
    """Move the bucket of node i to the end of the pool, larger; return False if the pool has no room for that."""
    node, used = tree.node, tree.used
    size, depth, old_rests = node[i, SIZE], node[i, DEPTH], node[i, RESTS]
    room = _rounded_room(size + (size >> 1) + 1)
    rests = max(rests, old_rests)
    start, words = used[WORDS], words_of(room, depth, rests)
    if start + words > tree.word.shape[0]:
        marks.need[0] = words
        return False
    used[WASTED] += words_of(node[i, ROOM], depth, old_rests)
    used[WORDS] += words
    _move_block(tree, i, room, rests, start, tree.word, tree.byte)
    for j in range(old_rests, rests):
        for place in range(size):
            tree.word[start + (1 + j) * room + place] = _no_check(shape)
    return True


@kernel
def compact(tree: Tree, out_word: NDArray[np.uint32], out_byte: NDArray[np.uint8]) -> int:
    """Copy all buckets into another pool, without what was lost between them; return the words in use."""
    node = tree.node
    end = 0
    for i in range(tree.used[NODES]):
        if node[i, ROOM] > 0:
            _move_block(tree, i, node[i, ROOM], node[i, RESTS], end, out_word, out_byte)
            end += words_of(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
    return end
