"""Kernels that change a BE-Tree: filing and taking out clauses, dividing leaves, laying out.

A leaf is divided in two phases: clustering by halves of its value range, then partitioning by another attribute. Bulk
building is the same work: all clauses in the root's leaf, divided until no leaf is over the capacity.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.packed import LAST_CODE, Coding, Leaves, copy_clause, pack_clause, slot_at
from eventsieve._kernels.positions import CODE_BITS, code_of
from eventsieve.matchers.be_tree.layout import (
    ATTRIBUTE,
    FREE_NODE,
    HIGH,
    LARGEST,
    LEFT,
    LIMIT,
    LIVE,
    LOW,
    NEXT,
    NODES,
    PARENT,
    PARTITION,
    PLACES,
    RIGHT,
    ROOM,
    SIZE,
    START,
    TELLING_DEPTH,
    WASTED,
    Known,
    Rules,
    Tree,
    Work,
)
from eventsieve.model.columns import ClauseTable

_ONE_VALUE: Final = 256
"""A range of so few codes, in which all predicates ask for the very same code, is not halved further."""


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
    used[LARGEST] = max(used[LARGEST], room)
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
            tree.used[LARGEST] = max(tree.used[LARGEST], room)
            end += room
    tree.used[PLACES] = end
    tree.used[WASTED] = 0


# -- dividing --------------------------------------------------------------------------------------------------


@kernel
def divide(
    tree: Tree,
    coding: Coding,
    rules: Rules,
    clauses: ClauseTable,
    known: Known,
    work: Work,
    out_need: NDArray[np.int64],
) -> None:
    """Do all tasks, or stop before one that lacks room: out_need then has nodes, places and tasks wanted."""
    n_attributes = known.low.shape[0]
    while work.waiting[0] > 0:
        top = work.waiting[0] - 1
        node, begin, end = work.node[top], work.begin[top], work.end[top]
        out_need[0] = tree.used[NODES] + n_attributes + 2
        out_need[1] = tree.used[PLACES] + room_for(end - begin)
        out_need[2] = top + n_attributes + 2
        if (
            out_need[0] > tree.node.shape[0]
            or out_need[1] > tree.leaves.slot.shape[0]
            or out_need[2] > work.node.shape[0]
        ):
            return
        work.waiting[0] = top
        learn(tree, node, known)
        if end - begin > rules.capacity:
            end = _cluster(tree, coding, rules, clauses, node, begin, end, work)
        if end - begin > rules.capacity:
            end = _partition(tree, coding, rules, clauses, known, node, begin, end, work)
        if end - begin > tree.node[node, ROOM]:
            move_leaf(tree, coding, node, room_for(end - begin))
        for i in range(begin, end):
            put(tree, coding, clauses, known, node, work.order[i])
        # What could not be divided is not tried again before there is twice as much of it.
        tree.node[node, LIMIT] = rules.capacity if end - begin <= rules.capacity else 2 * (end - begin)
        forget(tree, node, known)


@kernel
def _cluster(
    tree: Tree, coding: Coding, rules: Rules, clauses: ClauseTable, node: int, begin: int, end: int, work: Work
) -> int:
    """Send on what fits a half of the node's range; return the end of what stays."""
    fields = tree.node[node]
    a, low, high = int(np.int64(fields[ATTRIBUTE])), int(np.int64(fields[LOW])), int(np.int64(fields[HIGH]))
    if a < 0 or low == high:
        return end
    middle = (low + high) >> 1
    work.groups[:3] = 0
    lowest, highest = high, low
    for i in range(begin, end):
        s = work.order[i]
        p = clauses.start[s]
        while clauses.attribute[p] != a:
            p += 1
        low_code = code_of(coding.table, a, clauses.low[p])
        high_code = code_of(coding.table, a, clauses.high[p])
        half = 1 if high_code <= middle else 2 if low_code > middle else 0
        if half > 0:
            lowest, highest = min(lowest, low_code), max(highest, high_code)
        work.choice[i] = half
        work.groups[half] += 1
    if lowest == highest and high - low < _ONE_VALUE:
        return end
    for half in range(1, 3):
        if 0 < work.groups[half] < rules.smallest:
            work.groups[0] += work.groups[half]
            work.groups[half] = 0
    kept = _sort_by_choice(begin, end, 3, work)
    for half in range(1, 3):
        size = work.groups[half]
        if size > 0:
            if half == 1:
                child = new_node(tree, a, low, middle, node, rules.capacity)
                tree.node[node, LEFT] = child
            else:
                child = new_node(tree, a, middle + 1, high, node, rules.capacity)
                tree.node[node, RIGHT] = child
            _add_task(child, work.counts[half], size, work)
    return kept


@kernel
def _partition(
    tree: Tree, coding: Coding, rules: Rules, clauses: ClauseTable, known: Known, node: int, begin: int, end: int,
    work: Work,
) -> int:  # fmt: skip
    """Send each clause to a partition on its most telling attribute; return the end of what stays.

    Of two equally telling attributes the more popular one is taken. A partition that fewer than `smallest` clauses
    want is not made, and they take the best there is.
    """
    n_attributes = known.low.shape[0]
    work.counts[:] = 0
    work.groups[:] = 0
    for i in range(begin, end):
        s = work.order[i]
        for p in range(clauses.start[s], clauses.stop[s]):
            work.counts[clauses.attribute[p]] += 1
    for i in range(begin, end):
        chosen = _best_attribute(coding, clauses, known, work.order[i], work.counts, rules.smallest)
        work.choice[i] = chosen + 1
        work.groups[chosen + 1] += 1
    work.counts[:n_attributes] = work.groups[1 : n_attributes + 1]
    for i in range(begin, end):
        chosen = work.choice[i] - 1
        if chosen >= 0 and work.counts[chosen] < rules.smallest:
            work.groups[chosen + 1] -= 1
            chosen = _best_attribute(coding, clauses, known, work.order[i], work.counts, rules.smallest)
            work.choice[i] = chosen + 1
            work.groups[chosen + 1] += 1
    kept = _sort_by_choice(begin, end, n_attributes + 1, work)
    older, before = tree.node[node, PARTITION], -1
    for a in range(n_attributes):
        size = work.groups[a + 1]
        if size > 0:
            child = new_node(tree, a, 0, LAST_CODE, node, rules.capacity)
            tree.node[child, NEXT] = older
            if before < 0:
                tree.node[node, PARTITION] = child
            else:
                tree.node[before, NEXT] = child
            before = child
            _add_task(child, work.counts[a + 1], size, work)
    return kept


@kernel
def _best_attribute(
    coding: Coding,
    clauses: ClauseTable,
    known: Known,
    s: int,
    popularity: NDArray[np.int64],
    smallest: int,
) -> int:
    """Return the most telling attribute of a clause that the way does not use yet and enough clauses have, or -1."""
    best, chosen = np.int64(-1), -1
    for p in range(clauses.start[s], clauses.stop[s]):
        a = clauses.attribute[p]
        if known.used[a] or popularity[a] < smallest:
            continue
        low, high = code_of(coding.table, a, clauses.low[p]), code_of(coding.table, a, clauses.high[p])
        score = (np.int64(telling(low, high)) << 32) + popularity[a]
        if score > best:
            best, chosen = score, a
    return chosen


@kernel
def _sort_by_choice(begin: int, end: int, n_groups: int, work: Work) -> int:
    """Sort a part of the order by group; return the end of group 0, and in `work.counts` the beginnings of all.

    A choice whose group has become empty counts as 0.
    """
    at = begin
    for group in range(n_groups):
        work.counts[group] = at
        at += work.groups[group]
    for i in range(begin, end):
        group = work.choice[i]
        if work.groups[group] == 0:
            group = 0
        work.spare[work.counts[group]] = work.order[i]
        work.counts[group] += 1
    for i in range(begin, end):
        work.order[i] = work.spare[i]
    for group in range(n_groups):
        work.counts[group] -= work.groups[group]
    return int(begin + work.groups[0])


@kernel
def _add_task(node: int, begin: int, size: int, work: Work) -> None:
    top = work.waiting[0]
    work.node[top], work.begin[top], work.end[top] = node, begin, begin + size
    work.waiting[0] = top + 1
