"""Matching: down the tree from the root, through the buckets on the way (Algorithms 3 and 4)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch, trailing_zeros
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS, position_of
from eventsieve.matchers.gem_tree.layout import (
    ABOVE_ALL,
    ATTRIBUTE,
    BLOCK,
    BRANCHES,
    DEPTH,
    FIRST,
    LOOKED_UP,
    NODE_FIELDS,
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
from eventsieve.matchers.gem_tree.triangle import cell_of_value
from eventsieve.model.columns import ClauseTable, EventColumns

CHUNK: Final = 1024
"""Clauses looked at together: what is known of them stays in the first-level cache."""
_CHECK_LOW: Final = 1
_CHECK_HIGH: Final = 2
_CODES: Final = 256
_NO_MARGIN: Final = ABOVE_ALL + 1
"""Of a low end above the value, or of an absent value: more than any width."""


class Scratch(NamedTuple):
    """One event, the branch of the tree at hand, and what is known of a chunk of clauses."""

    row: NDArray[np.float64]  # (n_attributes,); NaN where the event has none: no comparison with NaN is true
    code: NDArray[np.int32]  # (n_attributes + 1,), -1 where there is none; then one for places without a predicate
    unsure: NDArray[np.bool_]  # (n_attributes + 1,): a bound of the same code may lie on either side of the value
    cell: NDArray[np.int32]  # (n_attributes,): the value's cell, -1 where there is none
    fine: NDArray[np.int64]  # (n_attributes,): the value's code of CODE_BITS, for finer triangles
    pending: NDArray[np.int64]  # nodes to visit, times 4, plus what their cell leaves to check
    path_attribute: NDArray[np.int64]  # (n_attributes,) by level
    path_check: NDArray[np.int64]  # (n_attributes,) by level: what the cells of this branch leave to check
    passes: NDArray[np.uint8]  # (CHUNK,)
    survivors: NDArray[np.uint32]  # (CHUNK,)
    margin: NDArray[np.uint8]  # ((n_attributes + 1) * 256,): by attribute and low end, how far the value lies above it


def new_scratch(tree: Tree, n_attributes: int) -> Scratch:
    """Return scratch for one batch, with all attributes absent."""
    code = np.full(n_attributes + 1, -1, np.int32)
    code[-1] = 1
    return Scratch(
        np.full(n_attributes, np.nan),
        code,
        np.zeros(n_attributes + 1, np.bool_),
        np.full(n_attributes, -1, np.int32),
        np.zeros(n_attributes, np.int64),
        np.empty(int(tree.used[NODES]) + 1, np.int64),
        np.empty(n_attributes, np.int64),
        np.empty(n_attributes, np.int64),
        np.zeros(CHUNK, np.uint8),
        np.empty(CHUNK, np.uint32),
        _new_margin(n_attributes),
    )


def _new_margin(n_attributes: int) -> NDArray[np.uint8]:
    """Return margins without a value, all beyond every width, and of places without a predicate."""
    margin = np.full((n_attributes + 1) * _CODES, _NO_MARGIN, np.uint8)
    margin[n_attributes * _CODES] = 0
    return margin


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
            scratch.margin[_CODES * a : _CODES * (a + 1)] = _NO_MARGIN
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
        fine = min(int(position * (1 << CODE_BITS)), (1 << CODE_BITS) - 1)
        cell = cell_of_value(fine, n_cells, n_cells)
        step = min(int(position * STEPS), STEPS - 1)
        kind, bound = bounds.kind[a, step], bounds.value[a, step]
        scratch.row[a] = value
        scratch.cell[a] = cell
        scratch.fine[a] = fine
        scratch.code[a] = 2 * step + 1 + (kind == ONE_BOUND) * (int(value > bound) - int(value < bound))
        own = scratch.code[a]
        for low in range(own + 1):
            scratch.margin[_CODES * a + low] = own - low
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
    columns_in_use, triangle_scale, fine = tree.columns_in_use, tree.triangle_scale, scratch.fine
    word, byte = tree.word, tree.byte
    code, value_cell, pending = scratch.code, scratch.cell, scratch.pending
    path_attribute, path_check = scratch.path_attribute, scratch.path_check
    passes, survivors, margin = scratch.passes, scratch.survivors, scratch.margin
    used = 0
    pending[0] = 0
    n_pending = 1
    while n_pending > 0:
        n_pending -= 1
        i, check = pending[n_pending] >> 2, pending[n_pending] & 3
        if n_pending > 0:
            # The columns of the node after this one are fetched while this one is checked.
            following = pending[n_pending - 1] >> 2
            start, places = node[following, BLOCK], node[following, ROOM]
            for j in range(1 + node[following, RESTS]):
                prefetch(word, start + j * places)
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
            if checked:
                n_survivors, next_rest = _list_survivors(n, passes, survivors), 0
            elif rests > 0:
                n_survivors, next_rest = _compare_first(word[block + room : block + room + n], margin, survivors), 1
            else:
                n_survivors, next_rest = _list_all(n, survivors), 0
            for j in range(next_rest, rests):
                if n_survivors == 0:
                    break
                at = block + (1 + j) * room
                n_survivors = _compare_next(word[at : at + n], n_survivors, margin, survivors)
            for k in range(n_survivors):
                place = survivors[k]
                slot = word[block + place]
                out_slots[used] = slot & SLOT_BITS
                holds = sure and slot < LOOKED_UP
                if not holds and slot < LOOKED_UP:
                    holds = _certain(tree, block + place, path + place, room, depth, rests, scratch)
                used += holds or clause_holds(clauses, out_slots[used], scratch.row)
        for b in range(node[i, FIRST], node[i, FIRST] + node[i, BRANCHES]):
            own = value_cell[branch_attribute[b]]
            if own < 0:
                continue
            t = branch_triangle[b]
            if branch_attribute[b] == node[i, ATTRIBUTE]:
                own = cell_of_value(fine[branch_attribute[b]], int(np.int64(triangle_scale[t])), n_cells)
            up_to = np.uint64(2) << np.uint64(own)
            for row in range(own, n_cells):
                in_row = row * (row + 1) // 2
                columns = columns_in_use[t, row] & (up_to - np.uint64(1))
                while columns:
                    column = trailing_zeros(columns)
                    columns &= columns - np.uint64(1)
                    child = int(np.int64(cell[t, in_row + column]))
                    prefetch(node, child * NODE_FIELDS)
                    # Beyond the value's own row and column, the cell alone proves that the value lies inside.
                    to_check = _CHECK_LOW * (column == own) + _CHECK_HIGH * (row == own)
                    pending[n_pending] = 4 * child + to_check
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
def _may_hold(margin: NDArray[np.uint8], predicate: np.uint32) -> np.uint64:
    """Return 1 if the codes leave the event in. All is unsigned, so that no index is asked for its sign."""
    return np.uint64(np.uint32(margin[np.uint64(predicate >> np.uint32(8))]) <= (predicate & np.uint32(255)))


@kernel
def _compare_first(predicate: NDArray[np.uint32], margin: NDArray[np.uint8], survivors: NDArray[np.uint32]) -> int:
    """List the places whose narrowest predicate may hold; return how many. No outcome is waited for."""
    n_kept = np.uint64(0)
    for k in range(predicate.shape[0]):
        survivors[n_kept] = k
        n_kept += _may_hold(margin, predicate[k])
    return int(n_kept)


@kernel
def _list_all(n: int, survivors: NDArray[np.uint32]) -> int:
    for k in range(n):
        survivors[k] = k
    return n


@kernel
def _list_survivors(n: int, passes: NDArray[np.uint8], survivors: NDArray[np.uint32]) -> int:
    """List the places whose byte is 1; return how many. So many pass that a branch would be guessed wrong too often."""
    n_survivors = np.uint64(0)
    for k in range(n):
        survivors[n_survivors] = k
        n_survivors += np.uint64(passes[k])
    return int(n_survivors)


@kernel
def _compare_next(
    predicate: NDArray[np.uint32], n_survivors: int, margin: NDArray[np.uint8], survivors: NDArray[np.uint32]
) -> int:
    """Keep the survivors that pass one more predicate; return how many."""
    n_kept = np.uint64(0)
    for k in range(np.uint64(n_survivors)):
        place = survivors[k]
        survivors[n_kept] = place
        n_kept += _may_hold(margin, predicate[np.uint64(place)])
    return int(n_kept)


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
