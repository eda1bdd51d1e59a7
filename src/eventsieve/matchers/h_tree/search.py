"""Matching: down the H-Tree level by level, then through the buckets it leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code, code_of
from eventsieve.matchers.h_tree.tree import BUCKETS, NODES, Shape, Tree
from eventsieve.model.columns import ClauseTable, EventColumns


class Scratch(NamedTuple):
    """One event in the three forms it is needed in, and the nodes and buckets it leads to."""

    value: NDArray[np.float64]  # (n_attributes,); NaN where the event has none: no comparison with NaN is true
    rounded: NDArray[np.int32]  # (n_attributes + 1,): the value in 256 steps, -1 where there is none; then a 0
    segment: NDArray[np.int32]  # (n_levels,); -1 where the event has no value
    node: NDArray[np.int32]
    next_node: NDArray[np.int32]
    bucket: NDArray[np.int32]


def new_scratch(tree: Tree, shape: Shape) -> Scratch:
    """Return scratch for one batch, with all attributes absent."""
    n_attributes = shape.level_of_attribute.shape[0]
    n_nodes, n_buckets = int(tree.used[NODES]), int(tree.used[BUCKETS])
    rounded = np.full(n_attributes + 1, -1, np.int32)
    rounded[n_attributes] = 0
    return Scratch(
        np.full(n_attributes, np.nan),
        rounded,
        np.full(shape.n_levels, -1, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_buckets, np.int32),
    )


@inlined
def _take_up(events: EventColumns, e: int, shape: Shape, scratch: Scratch) -> None:
    for i in range(events.start[e], events.start[e + 1]):
        a = events.attribute[i]
        code = code_of(shape.transform, a, events.value[i])
        scratch.value[a] = events.value[i]
        scratch.rounded[a] = code >> 8
        level = shape.level_of_attribute[a]
        if level >= 0:
            scratch.segment[level] = cell_of_code(code, shape.n_cells)


@inlined
def _put_down(events: EventColumns, e: int, shape: Shape, scratch: Scratch) -> None:
    for i in range(events.start[e], events.start[e + 1]):
        a = events.attribute[i]
        scratch.value[a] = np.nan
        scratch.rounded[a] = -1
        level = shape.level_of_attribute[a]
        if level >= 0:
            scratch.segment[level] = -1


@kernel
def _find_buckets(tree: Tree, shape: Shape, scratch: Scratch) -> int:
    """Write the buckets the event opens to `scratch.bucket`; return their number.

    All nodes of a level are taken before the next level: their loads do not wait for each other, as they would going
    down branch by branch.
    """
    n_cells = shape.n_cells
    node, next_node, bucket = scratch.node, scratch.next_node, scratch.bucket
    n_nodes = n_buckets = 0
    if tree.link[0] > 0:
        node[0], n_nodes = tree.link[0], 1
    elif tree.link[0] < 0:
        bucket[0], n_buckets = ~tree.link[0], 1
    for level in range(shape.n_levels):
        if n_nodes == 0:
            break
        segment = scratch.segment[level]
        # Cell j covers the segments j and j + 1, so the segment's cells are these two, where they exist.
        first = n_cells - 1 if segment < 0 else max(segment - 1, 0)
        stop = min(segment + 1, n_cells - 1)
        n_next = 0
        for i in range(n_nodes):
            links = node[i] * n_cells
            for cell in range(first, stop):
                link = tree.link[links + cell]
                if link > 0:
                    next_node[n_next] = link
                    n_next += 1
                elif link < 0:
                    bucket[n_buckets] = ~link
                    n_buckets += 1
            link = tree.link[links + n_cells - 1]
            if link > 0:
                next_node[n_next] = link
                n_next += 1
            elif link < 0:
                bucket[n_buckets] = ~link
                n_buckets += 1
        node, next_node = next_node, node
        n_nodes = n_next
    return n_buckets


@inlined
def _may_hold(rounded: NDArray[np.int32], head: np.uint32) -> bool:
    """Whether a rounded predicate leaves the event in; an absent value, -1, wraps to a number no width reaches."""
    return bool(np.uint32(rounded[head >> 16] - np.int32((head >> 8) & 255)) <= (head & 255))


@kernel
def match(
    clauses: ClauseTable,
    tree: Tree,
    shape: Shape,
    events: EventColumns,
    first: int,
    scratch: Scratch,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on while an event's worst case fits; return the first that was not matched."""
    n_slots = clauses.start.shape[0]
    end = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - end < n_slots:
            return e
        _take_up(events, e, shape, scratch)
        begin = end
        for i in range(_find_buckets(tree, shape, scratch)):
            bucket = scratch.bucket[i]
            start = tree.bucket_start[bucket]
            # Survivors are written where the matches will stand, and the matches among them moved together below. All
            # three checks are made at once: an early exit would be guessed wrong too often to pay.
            for place in range(start, start + tree.bucket_size[bucket]):
                out_slots[end] = tree.entry[place, 0]
                end += (
                    _may_hold(scratch.rounded, tree.entry[place, 1])
                    & _may_hold(scratch.rounded, tree.entry[place, 2])
                    & _may_hold(scratch.rounded, tree.entry[place, 3])
                )
        n_survivors, end_of_matches = end, begin
        for i in range(begin, n_survivors):
            s = out_slots[i]
            holds = True
            for p in range(clauses.start[s], clauses.stop[s]):
                value = scratch.value[clauses.attribute[p]]
                if not (clauses.low[p] <= value <= clauses.high[p]):
                    holds = False
                    break
            out_slots[end_of_matches] = s
            end_of_matches += holds
        end = end_of_matches
        out_count[e] = end - begin
        _put_down(events, e, shape, scratch)
    return int(events.start.shape[0] - 1)
