"""Matching: first the leaves that an event leads to, then their clauses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import kernel
from eventsieve._kernels.packed import Coding, EventRow, new_row, put_down, scan_leaf, take_up
from eventsieve.matchers.be_tree.layout import (
    ATTRIBUTE,
    HIGH,
    LARGEST,
    LEFT,
    LOW,
    NEXT,
    NODES,
    PARTITION,
    RIGHT,
    ROOM,
    SIZE,
    START,
    Tree,
)
from eventsieve.model.columns import ClauseTable, EventColumns

_AHEAD = 4
"""Leaves from the scanned one to the one that is fetched."""
_COLUMNS_AHEAD = 3
"""Columns of it that are fetched: few clauses get as far as the next."""


class Scratch(NamedTuple):
    """An event, and nodes on its way."""

    row: EventRow
    pending: NDArray[np.int32]  # (n_nodes,)
    found: NDArray[np.int32]  # (n_nodes,)


def new_scratch(tree: Tree, n_attributes: int) -> Scratch:
    """Return scratch for one batch."""
    n_nodes = int(tree.used[NODES])
    return Scratch(
        new_row(n_attributes, int(tree.used[LARGEST]) + 1), np.empty(n_nodes, np.int32), np.empty(n_nodes, np.int32)
    )


@kernel
def _find_leaves(tree: Tree, scratch: Scratch) -> int:
    """Write the nodes whose leaves may hold a match to `scratch.found`; return their number."""
    code, pending, found = scratch.row.code, scratch.pending, scratch.found
    pending[0] = 0
    n_pending, n_found = 1, 0
    while n_pending > 0:
        n_pending -= 1
        node = pending[n_pending]
        fields = tree.node[node]
        found[n_found] = node
        n_found += fields[SIZE] > 0
        a = fields[ATTRIBUTE]
        if a >= 0:
            child = fields[LEFT] if code[a] <= (fields[LOW] + fields[HIGH]) >> 1 else fields[RIGHT]
            pending[n_pending] = child
            n_pending += child >= 0
        partition = fields[PARTITION]
        while partition >= 0:
            pending[n_pending] = partition
            n_pending += code[tree.node[partition, ATTRIBUTE]] >= 0
            partition = tree.node[partition, NEXT]
    return n_found


@kernel
def match(
    clauses: ClauseTable,
    tree: Tree,
    coding: Coding,
    events: EventColumns,
    first: int,
    scratch: Scratch,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Match events from `first` on while an event's worst case fits; return the first that was not matched."""
    n_slots, n_columns = clauses.start.shape[0], coding.n_columns
    end = 0
    for e in range(first, events.start.shape[0] - 1):
        if out_slots.shape[0] - end < n_slots:
            return e
        all_whole = take_up(coding, events, e, scratch.row)
        begin = end
        n_found = _find_leaves(tree, scratch)
        for i in range(n_found):
            ahead = scratch.found[min(i + _AHEAD, n_found - 1)]
            at, its_room = tree.node[ahead, START] * n_columns, tree.node[ahead, ROOM]
            for j in range(min(n_columns, _COLUMNS_AHEAD)):
                prefetch(tree.leaves.attribute, at + j * its_room)
                prefetch(tree.leaves.bounds, at + j * its_room)
            fields = tree.node[scratch.found[i]]
            start, room, size = np.int64(fields[START]), np.int64(fields[ROOM]), np.int64(fields[SIZE])
            end = scan_leaf(
                tree.leaves,
                clauses,
                n_columns,
                int(start),
                int(room),
                int(size),
                all_whole,
                scratch.row,
                end,
                out_slots,
            )
        out_count[e] = end - begin
        put_down(events, e, scratch.row)
    return int(events.start.shape[0] - 1)
