"""The GEM-Tree's own work: nodes, buckets, insertion, deletion, and the ranks that follow both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.matchers.gem_tree.layout import (
    ATTRIBUTE,
    BLOCK,
    BRANCH_ROOM,
    BRANCHES,
    BRANCHES_USED,
    BY_CELL,
    BY_ORDER,
    CELL,
    DEPTH,
    FIRST,
    FREE,
    FREE_NODE,
    FREE_TRIANGLE,
    LIMIT,
    LIVE,
    LOOKED_UP,
    MOST_RESTS,
    NO_BOUND,
    NODES,
    ONE_BOUND,
    PARENT,
    RESTS,
    ROOM,
    SIZE,
    SLOT_BITS,
    SOME_BOUNDS,
    STEPS,
    TRIANGLES,
    WASTED,
    WORDS,
    Bounds,
    Marks,
    Shape,
    Tree,
)
from eventsieve.model.columns import ClauseTable


@inlined
def _words(room: int, depth: int, rests: int) -> int:
    """Return the words of a block."""
    return room * (1 + rests) + (room >> 1) * depth


@inlined
def _rounded_room(size: int) -> int:
    return (size + 7) & ~7


@inlined
def _cell_of(shape: Shape, a: int, low: float, high: float) -> int:
    """Return the cell of an interval: its low end gives the column, its high end the row."""
    last = shape.n_cells - 1
    column = min(int(position_of(shape.transform, a, low) * shape.n_cells), last)
    row = min(int(position_of(shape.transform, a, high) * shape.n_cells), last)
    return row * (row + 1) // 2 + column


# -- nodes -----------------------------------------------------------------------------------------------------


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
    return int(i)


@kernel
def plant(tree: Tree, i: int, a: int, size_of_cell: NDArray[np.int64], limit: int, out_node: NDArray[np.int64]) -> None:
    """Give node i a triangle of attribute a with a node for each cell that is not empty (Algorithm 1, line 21)."""
    node, used = tree.node, tree.used
    if used[FREE_TRIANGLE] >= 0:
        t = used[FREE_TRIANGLE]
        used[FREE_TRIANGLE] = tree.triangle_parent[t]
    else:
        t = used[TRIANGLES]
        used[TRIANGLES] += 1
    tree.triangle_attribute[t] = a
    tree.triangle_parent[t] = i
    tree.triangle_count[t] = 0
    tree.triangle_cost[t] = 0.0
    if node[i, BRANCHES] == node[i, BRANCH_ROOM]:
        start, room = used[BRANCHES_USED], branch_room(node[i, BRANCHES])
        used[BRANCHES_USED] += room
        for b in range(node[i, BRANCHES]):
            tree.branch_attribute[start + b] = tree.branch_attribute[node[i, FIRST] + b]
            tree.branch_triangle[start + b] = tree.branch_triangle[node[i, FIRST] + b]
        node[i, FIRST], node[i, BRANCH_ROOM] = start, room
    b = node[i, FIRST] + node[i, BRANCHES]
    tree.branch_attribute[b], tree.branch_triangle[b] = a, t
    node[i, BRANCHES] += 1
    for cell in range(size_of_cell.shape[0]):
        out_node[cell] = tree.cell[t, cell] = -1
        if size_of_cell[cell] > 0:
            out_node[cell] = new_node(tree, t, cell, node[i, DEPTH] + 1, limit)


@kernel
def branch_room(size: int) -> int:
    """Return the room of a directory that has outgrown its old one."""
    return size + (size >> 1) + 2


@kernel
def _free_empty(tree: Tree, i: int) -> None:
    """Give back node i if nothing is left in it, and what that leaves empty above it."""
    node, used = tree.node, tree.used
    while i > 0 and node[i, SIZE] == 0 and node[i, BRANCHES] == 0:
        t = node[i, PARENT]
        tree.cell[t, node[i, CELL]] = -1
        used[WASTED] += _words(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
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
def _climb(tree: Tree, shape: Shape, i: int, cost: float, count: int) -> None:
    """Add clauses of some cost at node i to the ranks of all triangles above it (section IV-B-3, cost and num)."""
    while i > 0:
        t = tree.node[i, PARENT]
        cost *= shape.rate[tree.triangle_attribute[t] * tree.cell.shape[1] + tree.node[i, CELL]]
        tree.triangle_cost[t] += cost
        tree.triangle_count[t] += count
        i = tree.triangle_parent[t]


# -- buckets ---------------------------------------------------------------------------------------------------


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
def _write_place(tree: Tree, shape: Shape, clauses: ClauseTable, s: int, i: int, place: int, marks: Marks) -> None:
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
        high = 255 if clauses.high[p] == np.inf else _coded(tree.bounds, shape, a, clauses.high[p])
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
    return int((shape.priority.shape[0] << 16) | 255)


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
        tree.used[WASTED] += _words(tree.node[i, ROOM], tree.node[i, DEPTH], tree.node[i, RESTS])
        longest = 0
        for k in range(begins[n], ends[n]):
            longest = max(longest, clauses.stop[slots[k]] - clauses.start[slots[k]])
        size = ends[n] - begins[n]
        tree.node[i, SIZE] = 0
        tree.node[i, RESTS] = min(max(longest - tree.node[i, DEPTH], 0), MOST_RESTS)
        # A little room, so that the first insertion does not move the block.
        tree.node[i, ROOM] = _rounded_room(size + (size >> 4)) if size else 0
        total += _words(tree.node[i, ROOM], tree.node[i, DEPTH], tree.node[i, RESTS])
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
        tree.used[WORDS] += _words(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
        above = i
        while above > 0:
            marks.level[node[above, ATTRIBUTE]] = node[above, DEPTH] - 1
            above = tree.triangle_parent[node[above, PARENT]]
        cost = moved_cost = 0.0
        for k in range(begins[n], ends[n]):
            s = slots[k]
            _write_place(tree, shape, clauses, s, i, k - begins[n], marks)
            n_predicates = clauses.stop[s] - clauses.start[s]
            cost += shape.alpha + n_predicates - node[i, DEPTH]
            moved_cost += shape.alpha + n_predicates - node[nodes[0], DEPTH]
        node[i, SIZE] = ends[n] - begins[n]
        if n > 0:
            _climb(tree, shape, nodes[0], -moved_cost, begins[n] - ends[n])
            _climb(tree, shape, i, cost, ends[n] - begins[n])
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
def _make_room(tree: Tree, shape: Shape, i: int, rests: int, marks: Marks) -> bool:
    """Move the bucket of node i to the end of the pool, larger; return False if the pool has no room for that."""
    node, used = tree.node, tree.used
    size, depth, old_rests = node[i, SIZE], node[i, DEPTH], node[i, RESTS]
    room = _rounded_room(size + (size >> 1) + 1)
    rests = max(rests, old_rests)
    start, words = used[WORDS], _words(room, depth, rests)
    if start + words > tree.word.shape[0]:
        marks.need[0] = words
        return False
    used[WASTED] += _words(node[i, ROOM], depth, old_rests)
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
            end += _words(node[i, ROOM], node[i, DEPTH], node[i, RESTS])
    return end


# -- changing --------------------------------------------------------------------------------------------------


@kernel
def _leading_branch(tree: Tree, shape: Shape, clauses: ClauseTable, s: int, i: int, marks: Marks) -> int:
    """Return the branch of node i that a clause goes down, or -1 to stay (Algorithm 1, lines 2-9)."""
    triangle_cells = tree.cell.shape[1]
    lowest = np.inf
    if shape.mode == BY_CELL:
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            if marks.predicate[a] >= 0:
                cell = _cell_of(shape, a, clauses.low[p], clauses.high[p])
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
            score = shape.rate[a * triangle_cells + _cell_of(shape, a, clauses.low[p], clauses.high[p])]
            if score > lowest:
                continue
        elif shape.mode == BY_ORDER:
            score = shape.priority[a]
        if score < best_score or (score == best_score and rank < best_rank):
            best, best_score, best_rank = b, score, rank
    return best


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
        i = 0
        branch = _leading_branch(tree, shape, clauses, s, i, marks)
        while branch >= 0:
            a, t = tree.branch_attribute[branch], tree.branch_triangle[branch]
            p = marks.predicate[a]
            marks.predicate[a] = -1
            marks.level[a] = node[i, DEPTH]
            cell = _cell_of(shape, a, clauses.low[p], clauses.high[p])
            if tree.cell[t, cell] < 0:
                i = new_node(tree, t, cell, node[i, DEPTH] + 1, limit)
            else:
                i = tree.cell[t, cell]
            branch = _leading_branch(tree, shape, clauses, s, i, marks)
        rests = min(stop - start - node[i, DEPTH], MOST_RESTS)
        fits = node[i, SIZE] < node[i, ROOM] and rests <= node[i, RESTS]
        if fits or _make_room(tree, shape, i, rests, marks):
            _write_place(tree, shape, clauses, s, i, node[i, SIZE], marks)
            node[i, SIZE] += 1
            used[LIVE] += 1
            _climb(tree, shape, i, shape.alpha + (stop - start) - node[i, DEPTH], 1)
            fits = True
        for p in range(start, stop):
            a = clauses.attribute[p]
            marks.predicate[a] = -1
            marks.level[a] = -1
            if fits:
                tree.filed[a, _cell_of(shape, a, clauses.low[p], clauses.high[p])] += 1
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
        _climb(tree, shape, i, -(shape.alpha + n_predicates - node[i, DEPTH]), -1)
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            tree.filed[a, _cell_of(shape, a, clauses.low[p], clauses.high[p])] -= 1
        _free_empty(tree, i)


@kernel
def record(tree: Tree, shape: Shape, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
    """Count the predicates of clauses by attribute and cell (section IV-D)."""
    for s in slots:
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            tree.filed[a, _cell_of(shape, a, clauses.low[p], clauses.high[p])] += 1
