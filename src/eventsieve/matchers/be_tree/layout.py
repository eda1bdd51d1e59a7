"""What a BE-Tree is made of: nodes and leaves in flat arrays, and the tasks of dividing."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.packed import LAST_CODE, Leaves

ATTRIBUTE, LOW, HIGH, LEFT, RIGHT, PARTITION, NEXT, PARENT, START, SIZE, ROOM, LIMIT = range(12)
"""Fields of a node. It stands for the codes LOW to HIGH of ATTRIBUTE (-1: the root, which stands for everything). LEFT
and RIGHT are the halves of that range, PARTITION the first of its partitions, NEXT the next partition beside it. The
leaf of a node is SIZE of ROOM places from START on, and is divided when it has more than LIMIT clauses. -1: none."""
NODE_FIELDS: Final = 16
"""A node is 64 bytes, one line of the cache."""
NODES, PLACES, FREE_NODE, WASTED, LIVE, LARGEST, N_USED = range(7)
"""Places in `Tree.used`: nodes and places of leaves in use, a chain of nodes given back, places of leaves that have
moved or gone, clauses, the most that a leaf ever had room for."""
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
