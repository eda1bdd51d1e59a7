"""Dividing a leaf in two phases: clustering by halves of its value range, then partitioning by another attribute.

Bulk building is the same work: all clauses in the root's leaf, divided until no leaf is over the capacity.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve._kernels.packed import LAST_CODE, Coding
from eventsieve._kernels.positions import code_of
from eventsieve.matchers.be_tree.tree import (
    ATTRIBUTE,
    HIGH,
    LEFT,
    LIMIT,
    LOW,
    NEXT,
    NODES,
    PARTITION,
    PLACES,
    RIGHT,
    ROOM,
    Known,
    Tree,
    forget,
    learn,
    move_leaf,
    new_node,
    put,
    room_for,
    telling,
)
from eventsieve.model.columns import ClauseTable

_ONE_VALUE: Final = 256
"""A range of so few codes, in which all predicates ask for the very same code, is not halved further."""


class Rules(NamedTuple):
    """When to divide."""

    capacity: int
    smallest: int


class Work(NamedTuple):
    """Clauses on their way down. Task t brings order[begin[t]:end[t]] to node[t]."""

    order: NDArray[np.int32]
    spare: NDArray[np.int32]
    choice: NDArray[np.int32]
    node: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    waiting: NDArray[np.int64]  # (1,): how many tasks
    counts: NDArray[np.int64]  # (n_attributes + 1,), or 3 for the halves
    groups: NDArray[np.int64]  # the same: clauses per group; group 0 stays where it is


def new_work(slots: NDArray[np.int32], node: int, n_attributes: int) -> Work:
    """Return the task of bringing all these clauses to one node."""
    tasks = 64 * (n_attributes + 2)
    work = Work(
        slots.copy(),
        np.empty_like(slots),
        np.empty_like(slots),
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.int64),
        np.ones(1, np.int64),
        np.zeros(max(3, n_attributes + 1), np.int64),
        np.zeros(max(3, n_attributes + 1), np.int64),
    )
    work.node[0], work.end[0] = node, slots.size
    return work


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
