"""The nodes of a BE-Tree in flat arrays: going down, adding to a leaf, taking out, laying out."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.packed import LAST_CODE, Coding, Leaves, copy_clause, pack_clause, slot_at
from eventsieve._kernels.positions import CODE_BITS, code_of
from eventsieve.model.columns import ClauseTable

ATTRIBUTE, LOW, HIGH, LEFT, RIGHT, PARTITION, NEXT, PARENT, START, SIZE, ROOM, LIMIT = range(12)
"""Fields of a node. It stands for the codes LOW to HIGH of ATTRIBUTE (-1: the root, which stands for everything). LEFT
and RIGHT are the halves of that range, PARTITION the first of its partitions, NEXT the next partition beside it. The
leaf of a node is SIZE of ROOM places from START on, and is divided when it has more than LIMIT clauses. -1: none."""
NODE_FIELDS: Final = 16
"""A node is 64 bytes, one line of the cache."""
NODES, PLACES, FREE_NODE, WASTED, LIVE, N_USED = range(6)
"""Places in `Tree.used`: nodes and places of leaves in use, a chain of nodes given back, places of leaves that have
moved or gone, clauses."""
TELLING_DEPTH: Final = 8
"""Halvings that count in the choice of an attribute: an event meets one in 256 of such ranges, and less is as good."""


class Tree(NamedTuple):
    """Nodes and leaves, with spare room behind their ends; node 0 is the root."""

    node: NDArray[np.int32]  # (room, NODE_FIELDS)
    leaves: Leaves
    node_of_slot: NDArray[np.int32]  # -1 where the slot is not filed
    number_of_slot: NDArray[np.int32]  # the clause's number within its leaf
    used: NDArray[np.int64]  # (N_USED,)


class Known(NamedTuple):
    """What the way to a node says of an event's codes, by attribute. All of it is 0 to LAST_CODE between two uses."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    used: NDArray[np.bool_]  # the way has a partition on this attribute


def new_known(n_attributes: int) -> Known:
    """Return what is known at the root: nothing."""
    return Known(
        np.zeros(n_attributes, np.int32), np.full(n_attributes, LAST_CODE, np.int32), np.zeros(n_attributes, np.bool_)
    )


@inlined
def learn(tree: Tree, node: int, known: Known) -> None:
    """Take up what the way to a node says; the deepest range of an attribute comes first and is the narrowest."""
    while node > 0:
        a = tree.node[node, ATTRIBUTE]
        if not known.used[a]:
            known.used[a] = True
            known.low[a], known.high[a] = tree.node[node, LOW], tree.node[node, HIGH]
        node = tree.node[node, PARENT]


@inlined
def forget(tree: Tree, node: int, known: Known) -> None:
    """Put back what `learn` took up."""
    while node > 0:
        a = tree.node[node, ATTRIBUTE]
        known.used[a] = False
        known.low[a], known.high[a] = 0, LAST_CODE
        node = tree.node[node, PARENT]


@inlined
def telling(low: int, high: int) -> int:
    """Return how often the domain can be halved around a predicate with these codes, up to `TELLING_DEPTH` times."""
    depth = 0
    while depth < TELLING_DEPTH and (low ^ high) >> (CODE_BITS - 1 - depth) == 0:
        depth += 1
    return depth


@inlined
def leaf_of(tree: Tree, node: int) -> tuple[int, int, int]:
    """Return start, room and size of a node's leaf, as numbers of one kind: a kernel is compiled once per kind."""
    fields = tree.node[node]
    return int(np.int64(fields[START])), int(np.int64(fields[ROOM])), int(np.int64(fields[SIZE]))


@inlined
def room_for(size: int) -> int:
    """Return the places of a leaf with this many clauses: a little more, so that few insertions move it."""
    return size + (size >> 3) + 2


@kernel
def new_node(tree: Tree, a: int, low: int, high: int, parent: int, capacity: int) -> int:
    """Return a node with an empty leaf; there must be room for it."""
    used = tree.used
    node = used[FREE_NODE]
    if node >= 0:
        used[FREE_NODE] = tree.node[node, NEXT]
    else:
        node = used[NODES]
        used[NODES] += 1
    fields = tree.node[node]
    fields[:] = -1
    fields[ATTRIBUTE], fields[LOW], fields[HIGH], fields[PARENT] = a, low, high, parent
    fields[START] = fields[SIZE] = fields[ROOM] = 0
    fields[LIMIT] = capacity
    return int(node)


@kernel
def move_leaf(tree: Tree, coding: Coding, node: int, room: int) -> None:
    """Give the leaf of a node a larger place at the end of the pool, which must have the room."""
    used = tree.used
    start = used[PLACES]
    used[PLACES] += room
    old_start, old_room, size = leaf_of(tree, node)
    used[WASTED] += old_room
    for i in range(size):
        copy_clause(tree.leaves, coding.n_columns, old_start, old_room, i, start, room, i, tree.leaves)
    tree.node[node, START], tree.node[node, ROOM] = start, room


@kernel
def put(tree: Tree, coding: Coding, clauses: ClauseTable, known: Known, node: int, s: int) -> None:
    """Add the clause at slot s to the leaf of a node, which must have room; `known` must be that of the node."""
    start, room, i = leaf_of(tree, node)
    pack_clause(coding, clauses, s, known.low, known.high, start, room, i, tree.leaves)
    tree.node_of_slot[s] = node
    tree.number_of_slot[s] = i
    tree.node[node, SIZE] = i + 1


@kernel
def _go_down(tree: Tree, low: NDArray[np.int32], high: NDArray[np.int32]) -> int:
    """Return the node whose leaf a clause belongs to; low[a] is -1 where it has no predicate."""
    node = 0
    while True:
        fields = tree.node[node]
        a = fields[ATTRIBUTE]
        child = -1
        if a >= 0:
            middle = (fields[LOW] + fields[HIGH]) >> 1
            if high[a] <= middle:
                child = fields[LEFT]
            elif low[a] > middle:
                child = fields[RIGHT]
        if child < 0:
            best = -1
            partition = fields[PARTITION]
            while partition >= 0:
                a = tree.node[partition, ATTRIBUTE]
                if low[a] >= 0:
                    depth = telling(low[a], high[a])
                    if depth > best:
                        best, child = depth, partition
                partition = tree.node[partition, NEXT]
        if child < 0:
            return node
        node = child


@kernel
def insert(
    tree: Tree,
    coding: Coding,
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    first: int,
    known: Known,
    out_full: NDArray[np.int64],
) -> int:
    """File clauses from slots[first] on, until a leaf is over its limit or there is no room for it to move.

    Return the first that is not filed. out_full[0] is the node whose leaf is over its limit, or -1; out_full[1] the
    places that a leaf needs, or 0.
    """
    n_attributes = known.low.shape[0]
    low = np.full(n_attributes, -1, np.int32)
    high = np.full(n_attributes, -1, np.int32)
    out_full[0], out_full[1] = -1, 0
    for i in range(first, slots.shape[0]):
        s = slots[i]
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low[a] = code_of(coding.table, a, clauses.low[p])
            high[a] = code_of(coding.table, a, clauses.high[p])
        node = _go_down(tree, low, high)
        for p in range(clauses.start[s], clauses.stop[s]):
            low[clauses.attribute[p]] = -1
        _, room, size = leaf_of(tree, node)
        if size == room:
            room = room_for(size + (size >> 1))
            if tree.used[PLACES] + room > tree.leaves.slot.shape[0]:
                out_full[1] = room
                return i
            move_leaf(tree, coding, node, room)
        learn(tree, node, known)
        put(tree, coding, clauses, known, node, s)
        forget(tree, node, known)
        tree.used[LIVE] += 1
        if size + 1 > tree.node[node, LIMIT]:
            out_full[0] = node
            return i + 1
    return int(slots.shape[0])


@kernel
def delete(tree: Tree, coding: Coding, slots: NDArray[np.int32], capacity: int) -> None:
    """Take out the clauses at `slots`; the last clause of a leaf fills the gap, and what is empty is given back."""
    for s in slots:
        node = tree.node_of_slot[s]
        if node < 0:
            continue
        tree.node_of_slot[s] = -1
        tree.used[LIVE] -= 1
        fields = tree.node[node]
        start, room, size = leaf_of(tree, node)
        number, last = int(np.int64(tree.number_of_slot[s])), size - 1
        if number != last:
            copy_clause(tree.leaves, coding.n_columns, start, room, last, start, room, number, tree.leaves)
            tree.number_of_slot[slot_at(tree.leaves, start + number)] = number
        fields[SIZE] = last
        # A leaf that nothing could divide got a higher limit. It has lost most of its clauses: try again when it fills.
        if last < fields[LIMIT] >> 2:
            fields[LIMIT] = max(capacity, fields[LIMIT] >> 1)
        _give_back(tree, node)


@inlined
def _give_back(tree: Tree, node: int) -> None:
    """Give back a node that has nothing left, and then its parents."""
    while (
        node > 0
        and tree.node[node, SIZE] == 0
        and tree.node[node, LEFT] < 0
        and tree.node[node, RIGHT] < 0
        and tree.node[node, PARTITION] < 0
    ):
        parent = tree.node[node, PARENT]
        if tree.node[parent, LEFT] == node:
            tree.node[parent, LEFT] = -1
        elif tree.node[parent, RIGHT] == node:
            tree.node[parent, RIGHT] = -1
        elif tree.node[parent, PARTITION] == node:
            tree.node[parent, PARTITION] = tree.node[node, NEXT]
        else:
            before = tree.node[parent, PARTITION]
            while tree.node[before, NEXT] != node:
                before = tree.node[before, NEXT]
            tree.node[before, NEXT] = tree.node[node, NEXT]
        tree.used[WASTED] += tree.node[node, ROOM]
        tree.node[node, ROOM] = 0
        tree.node[node, NEXT] = tree.used[FREE_NODE]
        tree.used[FREE_NODE] = node
        node = parent


@kernel
def lay_out(tree: Tree, coding: Coding, out_leaves: Leaves) -> None:
    """Copy all leaves to the front of a new pool, in the order of their nodes, and make it the end of waste."""
    end = 0
    for node in range(tree.used[NODES]):
        old_start, old_room, size = leaf_of(tree, node)
        if old_room > 0:
            room = room_for(size)
            for i in range(size):
                copy_clause(tree.leaves, coding.n_columns, old_start, old_room, i, end, room, i, out_leaves)
            tree.node[node, START], tree.node[node, ROOM] = end, room
            end += room
    tree.used[PLACES] = end
    tree.used[WASTED] = 0
