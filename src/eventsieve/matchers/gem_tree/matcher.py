"""The GEM-Tree matcher: parameters, the contract, dividing and growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.gem_tree.buckets import compact, fill, measure
from eventsieve.matchers.gem_tree.layout import (
    ATTRIBUTE,
    BLOCK,
    BRANCHES,
    BRANCHES_USED,
    BY_CELL,
    BY_ORDER,
    BY_RANK,
    DEPTH,
    FIRST,
    FREE,
    LIMIT,
    LIVE,
    NODE_FIELDS,
    NODES,
    PARENT,
    ROOM,
    SIZE,
    SLOT_BITS,
    STEPS,
    TRIANGLES,
    WASTED,
    WORDS,
    Bounds,
    Shape,
    Tree,
    cells_of_triangle,
    new_marks,
)
from eventsieve.matchers.gem_tree.nodes import branch_room, finer_scale, new_node, plant
from eventsieve.matchers.gem_tree.order import global_order, nothing_seen, visiting_rates
from eventsieve.matchers.gem_tree.search import match, new_scratch
from eventsieve.matchers.gem_tree.split import choose, list_candidates, move, new_ballot, refine
from eventsieve.matchers.gem_tree.tree import delete, insert, record
from eventsieve.matchers.transforms import check_transform, table_arrays, table_for, table_from
from eventsieve.model.columns import EventColumns
from eventsieve.model.transform import TransformChoice

_MOST_CELLS: Final = 63
_MOST_ATTRIBUTES: Final = (1 << 16) - 1
_ORDERS: Final = ("cell", "rank", "sum", "normalised")
_ADJUSTED: Final = 0
"""Place in `GemTree._state`: whether the global order is in force though `order` is "rank"."""


class GemTree(Matcher):
    name = "gem-tree"
    summary = "tree of attributes, with triangles of intervals between them"
    capabilities = Capabilities(paper="GEM-Tree (Fan et al., IEEE Access 2019)", transforms=True)

    _shape: Shape
    _tree: Tree
    _seen: NDArray[np.int64]
    """Values of recent events by attribute and cell, then the number of events: see `order.nothing_seen`."""
    _state: NDArray[np.bool_]

    def __init__(
        self,
        *,
        cells: int = 8,
        bucket: int = 1024,
        minimum: int = 1024,
        order: Literal["cell", "rank", "sum", "normalised"] = "cell",
        alpha: float = 1.0,
        events: int = 1000,
        transform: TransformChoice = "linear",
    ) -> None:
        """Set the parameters.

        cells: lambda, per side of a triangle. bucket: a bucket that holds more is divided. minimum: fewest clauses that
        must move for a division. order: what decides which attribute comes first on a path: "cell", the least visited
        cell of the clause itself; "rank", the paper's ranking function; "sum" or "normalised", its global order. alpha:
        cost of a clause beside its predicates, in its ranking function. events: how many recent events the measured
        rates rest on. transform: see `model.transform`.
        """
        if not 1 <= cells <= _MOST_CELLS:
            raise ValueError(f"cells is 1 to {_MOST_CELLS}, not {cells}")
        if bucket < 1 or minimum < 1 or events < 1:
            raise ValueError(f"bucket, minimum and events are at least 1, not {bucket}, {minimum} and {events}")
        if order not in _ORDERS:
            raise ValueError(f"order is one of {', '.join(_ORDERS)}, not {order!r}")
        if not alpha >= 0:
            raise ValueError(f"alpha is at least 0, not {alpha}")
        self.cells = cells
        self.bucket = bucket
        self.minimum = minimum
        self.order = order
        self.alpha = alpha
        self.events = events
        self.transform = check_transform(transform)

    def adjust(self) -> bool:
        """Build the tree anew from the counts and the events recorded since; say whether anything called for it.

        This is the paper's global adjustment for order="rank", "sum" and "normalised". By "cell", the measured
        rates of visits take the place of the assumed ones.
        """
        shape = self._shape
        rate = visiting_rates(self._seen, self.cells)
        priority = shape.priority
        changed = not np.array_equal(rate, shape.rate)
        if self.order != "cell":
            priority = global_order(self._tree.filed, self.order == "normalised")
            changed = changed or shape.mode != BY_ORDER or not np.array_equal(priority, shape.priority)
        if changed:
            self._state[_ADJUSTED] = True
            self._shape = shape._replace(mode=self._mode(), rate=rate, priority=priority)
            self._fill(np.flatnonzero(self._tree.node_of_slot >= 0).astype(np.int32))
        return changed

    # -- the contract ------------------------------------------------------------------------------------

    def _build(self) -> None:
        slots = np.flatnonzero(self.clauses.stop > self.clauses.start).astype(np.int32)
        self._state = np.zeros(1, np.bool_)
        self._seen = nothing_seen(self.n_attributes, self.cells)
        self._shape = Shape(
            self.cells,
            self._mode(),
            float(self.alpha),
            visiting_rates(self._seen, self.cells),
            self._finer_rate(),
            np.zeros(self.n_attributes, np.int32),
            table_for(self, self.transform),
        )
        self._fill(slots)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        slots = slots[self.clauses.stop[slots] > self.clauses.start[slots]]
        tree = self._tree
        if slots.size > 2 * int(tree.used[LIVE]) + self.bucket:
            self._fill(np.concatenate([np.flatnonzero(tree.node_of_slot >= 0).astype(np.int32), slots]))
            return
        if tree.node_of_slot.size < self.n_slots:
            room = _room(tree.node_of_slot.size, self.n_slots)
            self._grow(node_of_slot=room, place_of_slot=room)
        marks = new_marks(self.n_attributes)
        done = 0
        while done < slots.size:
            done = insert(self._tree, self._shape, self.clauses, slots, done, self.bucket, marks)
            if marks.need[0]:
                self._grow_pool(int(marks.need[0]))
            if marks.need[1]:
                self._grow(node=_room(self._tree.node.shape[0], int(self._tree.used[NODES]) + 1))
            if marks.overflow[0] >= 0:
                self._divide_bucket(int(marks.overflow[0]))
            marks.need[:] = 0
            marks.overflow[0] = -1

    def _delete(self, slots: NDArray[np.int32]) -> None:
        delete(self._tree, self._shape, self.clauses, slots)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        scratch = new_scratch(self._tree, self.n_attributes)
        return match(
            self.clauses,
            self._tree,
            self._shape,
            events,
            first,
            scratch,
            self._seen,
            2 * self.events + self.cells,
            out_count,
            out_slots,
        )

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        tree, used = self._tree, self._tree.used
        ends = {
            "node": used[NODES],
            **dict.fromkeys(_OF_TRIANGLES, used[TRIANGLES]),
            **dict.fromkeys(("branch_attribute", "branch_triangle"), used[BRANCHES_USED]),
            "word": used[WORDS],
            **dict.fromkeys(("node_of_slot", "place_of_slot"), self.n_slots),
        }
        return {
            "rate": self._shape.rate,
            "priority": self._shape.priority,
            "seen": self._seen,
            "state": self._state,
            **table_arrays(self._shape.transform),
            **{f"bounds_{name}": array for name, array in tree.bounds._asdict().items()},
            **{name: getattr(tree, name)[: ends.get(name)] for name in _STORED},
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._state, self._seen = arrays["state"], arrays["seen"]
        self._shape = Shape(
            self.cells,
            self._mode(),
            float(self.alpha),
            arrays["rate"],
            self._finer_rate(),
            arrays["priority"],
            table_from(arrays),
        )
        own = {name: arrays[name] for name in _STORED}
        bounds = Bounds(*(arrays[f"bounds_{name}"] for name in Bounds._fields))
        self._tree = Tree(byte=own["word"].view(np.uint8), bounds=bounds, **own)

    def _describe(self) -> dict[str, Any]:
        tree, used = self._tree, self._tree.used
        nodes = np.flatnonzero(tree.node[: used[NODES], DEPTH] != FREE)
        sizes, depths = tree.node[nodes, SIZE], tree.node[nodes, DEPTH]
        buckets = sizes > 0
        triangles = int(tree.node[nodes, BRANCHES].sum())
        return {
            "depth": int(depths.max(initial=0)),
            "nodes": int(nodes.size),
            "triangles": triangles,
            "cells_in_use": round((nodes.size - 1) / max(1, triangles * tree.cell.shape[1]), 4),
            "buckets": int(buckets.sum()),
            "mean_bucket": round(float(sizes[buckets].mean()), 1) if buckets.any() else 0.0,
            "largest_bucket": int(sizes.max(initial=0)),
            "clauses_by_depth": np.bincount(depths, weights=sizes).astype(int).tolist(),
            "places_in_use": round(int(used[LIVE]) / max(1, int(tree.node[nodes, ROOM].sum())), 4),
        }

    # -- filling and dividing ----------------------------------------------------------------------------

    def _finer_rate(self) -> NDArray[np.float64]:
        """Return how often finer cells are visited; within a cell, values are always taken for uniform."""
        return visiting_rates(nothing_seen(1, self.cells), self.cells)

    def _mode(self) -> int:
        if self.order == "cell":
            return BY_CELL
        return BY_RANK if self.order == "rank" and not self._state[_ADJUSTED] else BY_ORDER

    def _fill(self, slots: NDArray[np.int32]) -> None:
        """Put all clauses into the bucket of a root, then divide it as far as the rules ask."""
        triangle_cells = cells_of_triangle(self.cells)
        if self.n_attributes > _MOST_ATTRIBUTES:
            raise MatcherError(
                f"matcher 'gem-tree' serves schemas of up to {_MOST_ATTRIBUTES} attributes, not {self.n_attributes}"
            )
        word = np.empty(0, np.uint32)
        self._tree = Tree(
            node=np.zeros((1, NODE_FIELDS), np.int64),
            triangle_attribute=np.empty(0, np.int32),
            triangle_scale=np.empty(0, np.int32),
            triangle_parent=np.empty(0, np.int32),
            triangle_count=np.empty(0, np.int64),
            triangle_cost=np.empty(0, np.float64),
            cell=np.empty((0, triangle_cells), np.int32),
            columns_in_use=np.empty((0, self.cells), np.uint64),
            branch_attribute=np.empty(0, np.int32),
            branch_triangle=np.empty(0, np.int32),
            word=word,
            byte=word.view(np.uint8),
            bounds=Bounds(np.zeros((self.n_attributes, STEPS), np.uint8), np.zeros((self.n_attributes, STEPS))),
            node_of_slot=np.full(self.n_slots, -1, np.int32),
            place_of_slot=np.full(self.n_slots, -1, np.int32),
            filed=np.zeros((self.n_attributes, triangle_cells), np.int64),
            used=np.array([0, 0, 0, 0, 0, -1, -1, slots.size], np.int64),
        )
        new_node(self._tree, -1, -1, 0, self.bucket)
        record(self._tree, self._shape, self.clauses, slots)
        if self._shape.mode == BY_ORDER and not self._shape.priority.any():
            priority = global_order(self._tree.filed, self.order == "normalised")
            self._shape = self._shape._replace(priority=priority)
        self._divide(0, slots)

    def _divide_bucket(self, node: int) -> None:
        """Divide the bucket of one node that has come over its limit."""
        block, size = self._tree.node[node, BLOCK], self._tree.node[node, SIZE]
        self._divide(node, (self._tree.word[block : block + size] & SLOT_BITS).astype(np.int32))

    def _divide(self, top: int, slots: NDArray[np.int32]) -> None:
        """Give these clauses, all there are in the bucket of `top`, to it and to new nodes below it."""
        candidates = list_candidates(self.clauses, self._shape, slots)
        ballot = new_ballot(slots.size, self.n_attributes)
        order = np.arange(slots.size, dtype=np.int32)
        sizes = np.zeros(self._tree.cell.shape[1], np.int64)
        children = np.empty(sizes.size, np.int64)
        closed = np.zeros(self.n_attributes, np.bool_)
        waiting = [(top, 0, slots.size)]
        nodes, begins, ends = [], [], []
        while waiting:
            node, begin, end = waiting.pop()
            self._close(node, closed)
            scale = finer_scale(self._tree, self._shape, node) if end - begin > self.bucket else 0
            refined = -1
            if scale:
                own = int(self._tree.node[node, ATTRIBUTE])
                if refine(candidates, self.clauses, self._shape, slots, order[begin:end], own, scale):
                    refined = own
                    closed[own] = False
            while end - begin > self.bucket:
                part = order[begin:end]
                attribute = choose(candidates, self._shape, part, closed, refined, self.minimum, ballot)
                if attribute < 0:
                    break
                closed[attribute] = True
                end = begin + move(candidates, part, attribute, ballot, sizes)
                self._make_room_to_plant(node)
                at_scale = scale if attribute == refined else self.cells
                plant(self._tree, node, attribute, at_scale, sizes, self.bucket, children)
                at = end
                for cell in np.flatnonzero(sizes):
                    waiting.append((int(children[cell]), at, at + int(sizes[cell])))
                    at += int(sizes[cell])
            # A bucket that no attribute can divide grows, and is tried again when it has doubled.
            self._tree.node[node, LIMIT] = max(self.bucket, 2 * (end - begin) if end - begin > self.bucket else 0)
            nodes.append(node)
            begins.append(begin)
            ends.append(end)
        self._write(slots[order], np.array(nodes), np.array(begins), np.array(ends))

    def _close(self, node: int, out_closed: NDArray[np.bool_]) -> None:
        """Mark the attributes on the path to a node and in its directory."""
        tree = self._tree
        out_closed[:] = False
        first, branches = tree.node[node, FIRST], tree.node[node, BRANCHES]
        out_closed[tree.branch_attribute[first : first + branches]] = True
        while node > 0:
            out_closed[tree.node[node, ATTRIBUTE]] = True
            node = int(tree.triangle_parent[tree.node[node, PARENT]])

    def _write(
        self,
        slots: NDArray[np.int32],
        nodes: NDArray[np.int64],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> None:
        """Write the buckets of nodes, each a range of `slots`; the first of them is where all clauses were before."""
        # In the order the nodes were made, those of one triangle lie side by side: an event visits them together.
        rest = 1 + np.argsort(nodes[1:], kind="stable")
        for array in (nodes, begins, ends):
            array[1:] = array[rest]
        words = measure(self._tree, self.clauses, slots, nodes, begins, ends)
        self._grow_pool(words)
        fill(self._tree, self._shape, self.clauses, slots, nodes, begins, ends, new_marks(self.n_attributes))

    # -- growing -----------------------------------------------------------------------------------------

    def _make_room_to_plant(self, node: int) -> None:
        """Make room for one more triangle with all its nodes, and for the directory that gets it."""
        tree, used = self._tree, self._tree.used
        branches = int(used[BRANCHES_USED]) + branch_room(int(tree.node[node, BRANCHES]))
        self._grow(
            node=_room(tree.node.shape[0], int(used[NODES]) + tree.cell.shape[1]),
            branch_attribute=_room(tree.branch_attribute.size, branches),
            branch_triangle=_room(tree.branch_triangle.size, branches),
            **dict.fromkeys(_OF_TRIANGLES, _room(tree.triangle_parent.size, int(used[TRIANGLES]) + 1)),
        )

    def _grow_pool(self, words: int) -> None:
        """Make room for so many words more; a pool that is half lost is packed first."""
        tree, used = self._tree, self._tree.used
        if used[WASTED] * 2 > used[WORDS] and used[WORDS] + words > tree.word.size:
            packed = np.empty(int(used[WORDS] - used[WASTED]) + words, np.uint32)
            used[WORDS] = compact(tree, packed, packed.view(np.uint8))
            used[WASTED] = 0
            self._tree = tree._replace(word=packed, byte=packed.view(np.uint8))
        self._grow(word=_room(self._tree.word.size, int(used[WORDS]) + words))

    def _grow(self, **sizes: int) -> None:
        grown: dict[str, Any] = {name: _grown(getattr(self._tree, name), size) for name, size in sizes.items()}
        tree = self._tree._replace(**grown)
        self._tree = tree._replace(byte=tree.word.view(np.uint8))


_STORED: Final = tuple(name for name in Tree._fields if name not in ("byte", "bounds"))
_OF_TRIANGLES: Final = (
    "triangle_attribute",
    "triangle_scale",
    "triangle_parent",
    "triangle_count",
    "triangle_cost",
    "cell",
    "columns_in_use",
)


def _room(present: int, needed: int) -> int:
    """Return how large to make arrays of this size, so that growing one by one stays cheap."""
    return present if needed <= present else max(needed, present * 3 // 2 + 16)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with at least this size; what is new holds -1, which is no node."""
    present = array.shape[0]
    if present >= size:
        return array
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[:present] = array
    if grown.dtype == np.int32:
        grown[present:] = -1
    return grown
