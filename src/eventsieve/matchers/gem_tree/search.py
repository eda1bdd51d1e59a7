"""Matching: down the tree from the root, through the buckets on the way (Algorithms 3 and 4)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.matchers.gem_tree.layout import (
    ATTRIBUTE,
    BLOCK,
    BRANCHES,
    DEPTH,
    FIRST,
    LOOKED_UP,
    NODES,
    ONE_BOUND,
    RESTS,
    ROOM,
    SIZE,
    SLOT_BITS,
    SOME_BOUNDS,
    STEPS,
    Bounds,
    Shape,
    Tree,
)
from eventsieve.model.columns import ClauseTable, EventColumns

CHUNK: Final = 1024
"""Clauses looked at together: what is known of them stays in the first-level cache."""
_CHECK_LOW: Final = 1
_CHECK_HIGH: Final = 2


class Scratch(NamedTuple):
    """One event, the branch of the tree at hand, and what is known of a chunk of clauses."""

    row: NDArray[np.float64]  # (n_attributes,); NaN where the event has none: no comparison with NaN is true
    code: NDArray[np.int32]  # (n_attributes + 1,), -1 where there is none; then one for places without a predicate
    unsure: NDArray[np.bool_]  # (n_attributes + 1,): a bound of the same code may lie on either side of the value
    cell: NDArray[np.int32]  # (n_attributes,): the value's cell, -1 where there is none
    pending: NDArray[np.int64]  # nodes to visit, times 4, plus what their cell leaves to check
    path_attribute: NDArray[np.int64]  # (n_attributes,) by level
    path_check: NDArray[np.int64]  # (n_attributes,) by level: what the cells of this branch leave to check
    passes: NDArray[np.uint8]  # (CHUNK,)
    survivors: NDArray[np.int32]  # (CHUNK,)


def new_scratch(tree: Tree, n_attributes: int) -> Scratch:
    """Return scratch for one batch, with all attributes absent."""
    code = np.full(n_attributes + 1, -1, np.int32)
    code[-1] = 1
    return Scratch(
        np.full(n_attributes, np.nan),
        code,
        np.zeros(n_attributes + 1, np.bool_),
        np.full(n_attributes, -1, np.int32),
        np.empty(int(tree.used[NODES]) + 1, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.zeros(CHUNK, np.uint8),
        np.empty(CHUNK, np.int32),
    )


@kernel
def match(
    clauses: ClauseTable,
    tree: Tree,
    shape: Shape,
    events: EventColumns,
    first: int,
    scratch: Scratch,
    seen: NDArray[np.int64],
    most_seen: int,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on while an event's worst case fits; return the first that was not matched."""
    n_slots = clauses.start.shape[0]
    used = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - used < n_slots:
            return e
        sure = _take_up(events, e, tree.bounds, shape, scratch, seen, most_seen)
        out_count[e] = _walk(clauses, tree, shape.n_cells, sure, scratch, out_slots[used:])
        used += out_count[e]
        for i in range(events.start[e], events.start[e + 1]):
            a = events.attribute[i]
            scratch.row[a] = np.nan
            scratch.code[a] = scratch.cell[a] = -1
    return int(events.start.shape[0] - 1)


@kernel
def _take_up(
    events: EventColumns,
    e: int,
    bounds: Bounds,
    shape: Shape,
    scratch: Scratch,
    seen: NDArray[np.int64],
    most_seen: int,
) -> bool:
    """Lay out an event by attribute and count its cells; tell whether comparing codes is exact for all its values.

    Threads that count at once may lose a count, which only makes a later estimate coarser.
    """
    sure = True
    n_cells = shape.n_cells
    for i in range(events.start[e], events.start[e + 1]):
        a, value = events.attribute[i], events.value[i]
        position = position_of(shape.transform, a, value)
        cell = min(int(position * n_cells), n_cells - 1)
        step = min(int(position * STEPS), STEPS - 1)
        kind, bound = bounds.kind[a, step], bounds.value[a, step]
        scratch.row[a] = value
        scratch.cell[a] = cell
        scratch.code[a] = 2 * step + 1 + (kind == ONE_BOUND) * (int(value > bound) - int(value < bound))
        scratch.unsure[a] = kind == SOME_BOUNDS
        sure &= kind != SOME_BOUNDS
        seen[a * n_cells + cell] += 1
    seen[-1] += 1
    if seen[-1] >= most_seen:
        # What was seen long ago counts half as much as what is seen now.
        for i in range(seen.shape[0]):
            seen[i] -= seen[i] >> 1
    return sure


@kernel
def _walk(
    clauses: ClauseTable, tree: Tree, n_cells: int, sure: bool, scratch: Scratch, out_slots: NDArray[np.int32]
) -> int:
    """Walk the tree from the root for one event (Algorithm 3); return the number of matches.

    Arrays are taken out of their bundles once: done inside the loop, that alone cost half a microsecond per node.
    """
    node, cell, branch_attribute, branch_triangle = tree.node, tree.cell, tree.branch_attribute, tree.branch_triangle
    word, byte = tree.word, tree.byte
    code, value_cell, pending = scratch.code, scratch.cell, scratch.pending
    path_attribute, path_check = scratch.path_attribute, scratch.path_check
    passes, survivors = scratch.passes, scratch.survivors
    used = 0
    pending[0] = 0
    n_pending = 1
    while n_pending > 0:
        n_pending -= 1
        i, check = pending[n_pending] >> 2, pending[n_pending] & 3
        if n_pending > 0:
            # The block of the node after this one is fetched while this one is checked.
            following = pending[n_pending - 1] >> 2
            start, places = node[following, BLOCK], node[following, ROOM]
            prefetch(word, start + places)
            prefetch(word, start + (1 + node[following, RESTS]) * places)
            prefetch(word, start)
        size, room, rests, depth = node[i, SIZE], node[i, ROOM], node[i, RESTS], node[i, DEPTH]
        if depth > 0:
            # Nodes are taken last in, first out, so the levels above still hold this node's own branch.
            path_attribute[depth - 1] = node[i, ATTRIBUTE]
            path_check[depth - 1] = check
        for begin in range(0, size, CHUNK):
            n = min(CHUNK, size - begin)
            block = node[i, BLOCK] + begin
            path = 4 * (node[i, BLOCK] + (1 + rests) * room) + begin
            # What the path leaves to check is cheapest: all clauses of the bucket ask it of the same attribute.
            checked = False
            for level in range(depth):
                if path_check[level]:
                    own = code[path_attribute[level]]
                    at = path + 2 * level * room
                    _compare_path(byte, at, at + room, n, path_check[level], own, checked, passes)
                    checked = True
            next_rest = 0
            if not checked:
                _compare_first(word, block + room, n if rests > 0 else 0, n, code, passes)
                next_rest = 1
            n_survivors = _list_survivors(n, passes, survivors)
            for j in range(next_rest, rests):
                if n_survivors == 0:
                    break
                n_survivors = _compare_next(word, block + (1 + j) * room, n_survivors, code, survivors)
            for k in range(n_survivors):
                place = survivors[k]
                slot = word[block + place]
                out_slots[used] = slot & SLOT_BITS
                holds = sure and slot < LOOKED_UP
                if not holds and slot < LOOKED_UP:
                    holds = _certain(tree, block + place, path + place, room, depth, rests, scratch)
                used += holds or _satisfied(clauses, out_slots[used], scratch.row)
        for b in range(node[i, FIRST], node[i, FIRST] + node[i, BRANCHES]):
            own = value_cell[branch_attribute[b]]
            if own < 0:
                continue
            t = branch_triangle[b]
            for row in range(own, n_cells):
                in_row = row * (row + 1) // 2
                for column in range(own + 1):
                    child = cell[t, in_row + column]
                    if child >= 0:
                        # Beyond the value's own row and column, the cell alone proves that the value lies inside.
                        to_check = _CHECK_LOW * (column == own) + _CHECK_HIGH * (row == own)
                        pending[n_pending] = 4 * np.int64(child) + to_check
                        n_pending += 1
    return used


@kernel
def _compare_path(
    byte: NDArray[np.uint8],
    low: int,
    high: int,
    n: int,
    check: int,
    code: int,
    checked: bool,
    passes: NDArray[np.uint8],
) -> None:
    """Compare the ends that a cell leaves to check, 32 clauses at a time in vector registers."""
    own = np.uint8(code)
    if not checked:
        for k in range(n):
            passes[k] = 1
    if check & _CHECK_LOW:
        lows = byte[low : low + n]
        for k in range(n):
            passes[k] &= np.uint8(lows[k] <= own)
    if check & _CHECK_HIGH:
        highs = byte[high : high + n]
        for k in range(n):
            passes[k] &= np.uint8(own <= highs[k])


@inlined
def _may_hold(code: NDArray[np.int32], predicate: np.uint32) -> bool:
    """Whether the codes leave the event in; an absent value, -1, wraps to a number that no width reaches."""
    return bool(np.uint32(code[predicate >> 16] - np.int32((predicate >> 8) & 255)) <= (predicate & 255))


@kernel
def _compare_first(
    word: NDArray[np.uint32], column: int, n_predicates: int, n: int, code: NDArray[np.int32], passes: NDArray[np.uint8]
) -> None:
    """Compare the narrowest predicate of each clause, where they have one; no outcome is waited for."""
    predicate = word[column : column + n_predicates]
    for k in range(n_predicates):
        passes[k] = _may_hold(code, predicate[k])
    for k in range(n_predicates, n):
        passes[k] = 1


@kernel
def _list_survivors(n: int, passes: NDArray[np.uint8], survivors: NDArray[np.int32]) -> int:
    """List the places whose byte is 1; return how many. So many pass that a branch would be guessed wrong too often."""
    n_survivors = 0
    for k in range(n):
        survivors[n_survivors] = k
        n_survivors += passes[k]
    return n_survivors


@kernel
def _compare_next(
    word: NDArray[np.uint32], column: int, n_survivors: int, code: NDArray[np.int32], survivors: NDArray[np.int32]
) -> int:
    """Keep the survivors that pass one more predicate; return how many."""
    n_kept = 0
    for k in range(n_survivors):
        place = survivors[k]
        survivors[n_kept] = place
        n_kept += _may_hold(code, word[column + place])
    return n_kept


@kernel
def _certain(tree: Tree, at: int, path: int, room: int, depth: int, rests: int, scratch: Scratch) -> bool:
    """Say whether a survivor holds wherever in their step its bounds lie."""
    for level in range(depth):
        a, check = scratch.path_attribute[level], scratch.path_check[level]
        if scratch.unsure[a] and (
            (check & _CHECK_LOW and tree.byte[path + 2 * level * room] == scratch.code[a])
            or (check & _CHECK_HIGH and tree.byte[path + (2 * level + 1) * room] == scratch.code[a])
        ):
            return False
    for j in range(rests):
        predicate = tree.word[at + (1 + j) * room]
        a, low = predicate >> 16, np.int32((predicate >> 8) & 255)
        own = scratch.code[a]
        if scratch.unsure[a] and (own == low or own == low + np.int32(predicate & 255)):
            return False
    return True


@kernel
def _satisfied(clauses: ClauseTable, s: np.int32, row: NDArray[np.float64]) -> bool:
    for p in range(clauses.start[s], clauses.stop[s]):
        value = row[clauses.attribute[p]]
        if not (clauses.low[p] <= value <= clauses.high[p]):
            return False
    return True
