"""The BE-Tree matcher: parameters, the contract, and growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.packed import MOST_ATTRIBUTES, MOST_COLUMNS, SLOT_BITS, Coding, Leaves, whole_apart
from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.be_tree.layout import (
    ATTRIBUTE,
    FREE_NODE,
    LIMIT,
    LIVE,
    N_USED,
    NEXT,
    NODE_FIELDS,
    NODES,
    PARENT,
    PLACES,
    ROOM,
    SIZE,
    START,
    WASTED,
    Rules,
    Tree,
    Work,
    new_known,
    new_work,
)
from eventsieve.matchers.be_tree.search import match, new_scratch
from eventsieve.matchers.be_tree.tree import delete, divide, insert, lay_out, room_for
from eventsieve.matchers.transforms import check_transform, table_arrays, table_for, table_from
from eventsieve.model.columns import EventColumns
from eventsieve.model.transform import TransformChoice

_FEWEST_COLUMNS: Final = 4
"""An index that begins with few clauses has room for those that come."""


class BETree(Matcher):
    name = "be-tree"
    summary = "tree cut by attributes and by halves of their domains"
    capabilities = Capabilities(paper="BE-Tree (Sadoghi and Jacobsen, SIGMOD 2011)", transforms=True)

    def __init__(self, *, capacity: int = 256, smallest: int = 64, transform: TransformChoice = "linear") -> None:
        """Set the parameters.

        capacity: a leaf with more clauses is divided. smallest: clauses that a new node is worth making for.
        transform: where domains are halved, see `model.transform`.
        """
        if capacity < 1 or smallest < 1:
            raise ValueError(f"capacity and smallest are at least 1, not {capacity} and {smallest}")
        self.capacity = capacity
        self.smallest = smallest
        self.transform = check_transform(transform)

    # -- the contract ------------------------------------------------------------------------------------

    def _build(self) -> None:
        if self.n_attributes > MOST_ATTRIBUTES:
            raise MatcherError(
                f"matcher 'be-tree' serves schemas of up to {MOST_ATTRIBUTES} attributes, not {self.n_attributes}"
            )
        lengths = self.clauses.stop - self.clauses.start
        slots = np.flatnonzero(lengths).astype(np.int32)
        table = table_for(self, self.transform)
        longest = int(lengths.max(initial=_FEWEST_COLUMNS))
        self._coding = Coding(table, whole_apart(table), min(longest, MOST_COLUMNS))
        self._tree = Tree(
            np.full((self.n_attributes + 64, NODE_FIELDS), -1, np.int32),
            _made_leaves(room_for(slots.size) + slots.size // 4, self._coding.n_columns),
            np.full(self.n_slots, -1, np.int32),
            np.empty(self.n_slots, np.int32),
            np.zeros(N_USED, np.int64),
        )
        self._tree.node[0, [START, SIZE, ROOM]] = 0
        self._tree.node[0, LIMIT] = self.capacity
        self._tree.used[NODES] = 1
        self._tree.used[FREE_NODE] = -1
        self._tree.used[LIVE] = slots.size
        self._divide(new_work(slots, 0, self.n_attributes))

    def _insert(self, slots: NDArray[np.int32]) -> None:
        slots = slots[self.clauses.stop[slots] > self.clauses.start[slots]]
        if self._tree.node_of_slot.size < self.n_slots:
            self._tree = self._tree._replace(
                node_of_slot=_grown(self._tree.node_of_slot, self.n_slots),
                number_of_slot=_grown(self._tree.number_of_slot, self.n_slots),
            )
        known = new_known(self.n_attributes)
        full = np.empty(2, np.int64)
        done = 0
        while done < slots.size:
            done = insert(self._tree, self._coding, self.clauses, slots, done, known, full)
            if full[1]:
                self._make_places(int(self._tree.used[PLACES] + full[1]))
            if full[0] >= 0:
                self._divide(self._emptied(int(full[0])))

    def _delete(self, slots: NDArray[np.int32]) -> None:
        delete(self._tree, self._coding, slots, self.capacity)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        scratch = new_scratch(self._tree, self.n_attributes)
        return match(self.clauses, self._tree, self._coding, events, first, scratch, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        tree, places = self._tree, int(self._tree.used[PLACES])
        return {
            **table_arrays(self._coding.table),
            "counts": np.array([self._coding.n_columns], np.int64),
            "node": tree.node[: tree.used[NODES]],
            "slot": tree.leaves.slot[:places],
            "attribute": tree.leaves.attribute[: places * self._coding.n_columns],
            "bounds": tree.leaves.bounds[: places * self._coding.n_columns],
            "node_of_slot": tree.node_of_slot[: self.n_slots],
            "number_of_slot": tree.number_of_slot[: self.n_slots],
            "used": tree.used,
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        table = table_from(arrays)
        self._coding = Coding(table, whole_apart(table), int(arrays["counts"][0]))
        leaves = Leaves(arrays["slot"], arrays["attribute"], arrays["bounds"])
        self._tree = Tree(arrays["node"], leaves, arrays["node_of_slot"], arrays["number_of_slot"], arrays["used"])

    def _describe(self) -> dict[str, Any]:
        live = self._live_nodes()
        sizes = live[:, SIZE]
        return {
            "clauses": int(self._tree.used[LIVE]),
            "nodes": len(live),
            "leaves": int(np.count_nonzero(sizes)),
            "largest_leaf": int(sizes.max(initial=0)),
            "at_the_root": int(self._tree.node[0, SIZE]),
            "depth": self._depth(),
            "partitions_at_the_root": int(np.count_nonzero((live[:, PARENT] == 0) & (live[:, ATTRIBUTE] >= 0))),
            "places": int(self._tree.used[PLACES]),
        }

    def _live_nodes(self) -> NDArray[np.int32]:
        nodes = self._tree.node[: self._tree.used[NODES]]
        given_back = np.zeros(len(nodes), np.bool_)
        free = int(self._tree.used[FREE_NODE])
        while free >= 0:
            given_back[free] = True
            free = int(nodes[free, NEXT])
        return nodes[~given_back]

    def _depth(self) -> int:
        """Return the number of nodes on the longest way from the root."""
        nodes = self._tree.node[: self._tree.used[NODES]]
        at = np.flatnonzero(nodes[:, SIZE] > 0)
        depth = 0
        while at.size:
            depth += 1
            at = np.unique(nodes[at, PARENT])
            at = at[at >= 0]
        return depth

    # -- dividing and growing ----------------------------------------------------------------------------

    def _emptied(self, node: int) -> Work:
        """Take all clauses out of a leaf, and return the task of bringing them back to its node."""
        start, size = self._tree.node[node, [START, SIZE]]
        slots = (self._tree.leaves.slot[start : start + size] & SLOT_BITS).astype(np.int32)
        self._tree.node[node, SIZE] = 0
        return new_work(slots, node, self.n_attributes)

    def _divide(self, work: Work) -> None:
        known = new_known(self.n_attributes)
        need = np.zeros(3, np.int64)
        while True:
            rules = Rules(self.capacity, self.smallest)
            divide(self._tree, self._coding, rules, self.clauses, known, work, need)
            if not work.waiting[0]:
                return
            self._tree = self._tree._replace(node=_grown(self._tree.node, int(need[0])))
            self._make_places(int(need[1]))
            tasks = int(need[2])
            work = work._replace(
                node=_grown(work.node, tasks), begin=_grown(work.begin, tasks), end=_grown(work.end, tasks)
            )

    def _make_places(self, needed: int) -> None:
        """Let the pool of leaves have this many places, those of leaves that have gone or moved among them."""
        tree, n_columns = self._tree, self._coding.n_columns
        present = tree.leaves.slot.size
        if needed <= present:
            return
        if tree.used[WASTED] * 2 > tree.used[PLACES]:
            compact = _made_leaves(present, n_columns)
            lay_out(tree, self._coding, compact)
            self._tree = tree._replace(leaves=compact)
            return
        grown = _made_leaves(max(needed, present * 3 // 2 + 16), n_columns)
        grown.slot[:present] = tree.leaves.slot
        grown.attribute[: present * n_columns] = tree.leaves.attribute
        grown.bounds[: present * n_columns] = tree.leaves.bounds
        self._tree = tree._replace(leaves=grown)


def _made_leaves(places: int, n_columns: int) -> Leaves:
    packed = places * n_columns
    return Leaves(np.zeros(places, np.uint32), np.zeros(packed, np.uint16), np.zeros(packed, np.uint32))


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with at least this size; what is new holds -1, which is no node."""
    present = array.shape[0]
    if present >= size:
        return array
    grown = np.full((max(size, present * 3 // 2 + 16), *array.shape[1:]), -1, array.dtype)
    grown[:present] = array
    return grown
