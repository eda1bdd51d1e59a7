"""The H-Tree matcher: parameters, the contract, and growing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.h_tree.choice import cells_for, share_ruled_out
from eventsieve.matchers.h_tree.search import match, new_scratch
from eventsieve.matchers.h_tree.tree import (
    BUCKETS,
    CHOSEN_FOR,
    ENTRIES,
    HEADS,
    LIVE,
    NODES,
    Shape,
    Tree,
    Work,
    delete,
    divide,
    insert,
    lay_out,
    new_work,
    write_paths,
)
from eventsieve.model.columns import EventColumns
from eventsieve.model.statistics import Statistics, statistics_of
from eventsieve.model.transform import (
    TransformChoice,
    TransformTable,
    choose_distributions,
    parse_distribution,
    transform_table,
)

_LEAST_CELLS: Final = 3  # two that overlap
_MOST_CELLS: Final = 255
_MOST_ATTRIBUTES: Final = (1 << 16) - 1
_STATISTICS_SAMPLE: Final = 1 << 16
_REGROWTH: Final = 4
"""The attributes are chosen anew when there are this many times the clauses they were chosen for."""
_FEWEST_TO_CHOOSE: Final = 1024


class HTree(Matcher):
    name = "h-tree"
    summary = "hash tree over overlapping cells of a few attributes"
    capabilities = Capabilities(paper="H-Tree (Qian et al., IEEE TPDS 2015)", transforms=True)

    def __init__(
        self,
        *,
        cells: int | Literal["auto"] = 8,
        attributes: int | Sequence[int] = 8,
        copies: int = 4,
        bucket: int = 64,
        transform: TransformChoice = "linear",
        weight: float = 0.5,
    ) -> None:
        """Set the parameters.

        cells: segments per domain; "auto" takes formula (8). attributes: how many to index, or which. copies: most
        entries of one clause. bucket: a bucket that holds more is divided. transform: see `model.transform`. weight: of
        matching time against memory in formula (8).
        """
        if cells != "auto" and not (isinstance(cells, int) and _LEAST_CELLS <= cells <= _MOST_CELLS):
            raise ValueError(f"cells is {_LEAST_CELLS} to {_MOST_CELLS} or 'auto', not {cells!r}")
        if isinstance(attributes, int) and attributes < 1:
            raise ValueError(f"attributes is at least 1, or a list of attributes, not {attributes}")
        if copies < 1 or bucket < 0:
            raise ValueError(f"copies is at least 1 and bucket at least 0, not {copies} and {bucket}")
        if not 0 < weight < 1:
            raise ValueError(f"weight lies between 0 and 1, not {weight}")
        for text in [transform] if isinstance(transform, str) else transform.values():
            parse_distribution(text)
        self.cells = cells
        self.attributes = attributes if isinstance(attributes, int) else [int(a) for a in attributes]
        self.copies = copies
        self.bucket = bucket
        self.transform = transform
        self.weight = weight

    def adjust(self, statistics: Statistics | None = None) -> bool:
        """Choose attributes, cells and transform anew, from these statistics or from the clauses at hand.

        Rebuild if the choice has changed, and say whether it has.
        """
        shape = self._choose(self._live_slots(), statistics)
        same = _same_shape(shape, self._shape)
        if not same:
            self._fill(shape, self._live_slots())
        return not same

    # -- the contract ------------------------------------------------------------------------------------

    def _build(self) -> None:
        slots = np.flatnonzero(self.clauses.stop > self.clauses.start).astype(np.int32)
        self._fill(self._choose(slots), slots)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        slots = slots[self.clauses.stop[slots] > self.clauses.start[slots]]
        live, chosen_for = int(self._tree.used[LIVE]), int(self._tree.used[CHOSEN_FOR])
        if live + slots.size > _REGROWTH * max(chosen_for, _FEWEST_TO_CHOOSE):
            everything = np.concatenate([self._live_slots(), slots])
            self._fill(self._choose(everything), everything)
            return
        if self._tree.first_copy.size < self.n_slots:
            self._grow(slots=_room(self._tree.first_copy.size, self.n_slots))
        heads = self._describe_clauses(slots)
        done = 0
        while done < slots.size:
            work = new_work(self._shape)
            done = insert(self._tree, self._shape, slots, heads, done, work)
            if work.need[0]:
                self._make_room(work)
            self._divide(work)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        delete(self._tree, slots)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        scratch = new_scratch(self._tree, self._shape)
        return match(self.clauses, self._tree, self._shape, events, first, scratch, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        shape, tree = self._shape, self._tree
        ends = self._ends(int(tree.used[NODES]), int(tree.used[BUCKETS]), int(tree.used[ENTRIES]), self.n_slots)
        return {
            "level_of_attribute": shape.level_of_attribute,
            "counts": np.array([shape.n_levels, shape.n_cells], np.int64),
            **{f"transform_{name}": array for name, array in shape.transform._asdict().items()},
            **{name: array[: ends.get(name)] for name, array in tree._asdict().items()},
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        n_levels, n_cells = (int(n) for n in arrays["counts"])
        table = TransformTable(*(arrays[f"transform_{name}"] for name in TransformTable._fields))
        self._shape = Shape(arrays["level_of_attribute"], n_levels, n_cells, self.copies, self.bucket, table)
        self._tree = Tree(*(arrays[name] for name in Tree._fields))

    def _describe(self) -> dict[str, Any]:
        levels = self._shape.level_of_attribute
        nodes, buckets, entries, live, _ = (int(n) for n in self._tree.used)
        sizes = self._tree.bucket_size[:buckets]
        return {
            "indexed_attributes": np.argsort(levels)[levels.size - self._shape.n_levels :].tolist(),
            "cells": self._shape.n_cells,
            "nodes": nodes - 1,
            "buckets": buckets,
            "clauses": live,
            "entries": int(sizes.sum()),
            "places": entries,
            "largest_bucket": int(sizes.max(initial=0)),
        }

    # -- choice of attributes and cells ------------------------------------------------------------------

    def _choose(self, slots: NDArray[np.int32], statistics: Statistics | None = None) -> Shape:
        if self.n_attributes > _MOST_ATTRIBUTES:
            raise MatcherError(
                f"matcher 'h-tree' serves schemas of up to {_MOST_ATTRIBUTES} attributes, not {self.n_attributes}"
            )
        if statistics is None:
            sample = slots[:: max(1, slots.size // _STATISTICS_SAMPLE)]
            part = self.clauses._replace(start=self.clauses.start[sample], stop=self.clauses.stop[sample])
            statistics = statistics_of(part, self.domains)
        chosen = self._attributes_for(statistics)
        n_cells = cells_for(statistics, chosen, self.weight) if self.cells == "auto" else int(self.cells)
        level_of_attribute = np.full(self.n_attributes, -1, np.int32)
        level_of_attribute[chosen] = np.arange(len(chosen), dtype=np.int32)
        try:
            learned = choose_distributions(self.transform, self.n_attributes, lambda a: statistics.bounds.value[a])
        except ValueError as cause:
            raise MatcherError(f"matcher 'h-tree': {cause}") from cause
        table = transform_table(self.domains, learned)
        return Shape(level_of_attribute, len(chosen), n_cells, self.copies, self.bucket, table)

    def _attributes_for(self, statistics: Statistics) -> list[int]:
        if isinstance(self.attributes, int):
            ruled_out = share_ruled_out(statistics, 8 if self.cells == "auto" else int(self.cells))
            ranked = np.argsort(-ruled_out, kind="stable")[: self.attributes]
            return [int(a) for a in ranked if ruled_out[a] > 0]
        wrong = [a for a in self.attributes if not 0 <= a < self.n_attributes]
        if wrong or len(set(self.attributes)) < len(self.attributes):
            raise MatcherError(
                f"matcher 'h-tree': attributes={self.attributes} must name each attribute once, "
                f"by numbers from 0 to {self.n_attributes - 1}"
            )
        return self.attributes

    # -- filling and growing -----------------------------------------------------------------------------

    def _live_slots(self) -> NDArray[np.int32]:
        return np.flatnonzero(self._tree.first_copy >= 0).astype(np.int32)

    def _fill(self, shape: Shape, slots: NDArray[np.int32]) -> None:
        """Put all clauses into one bucket, then divide it as far as the rules ask."""
        n = slots.size
        self._shape = shape
        self._tree = Tree(
            link=np.zeros(shape.n_cells, np.int32),
            bucket_start=np.zeros(1, np.int32),
            bucket_size=np.full(1, n, np.int32),
            bucket_room=np.full(1, n, np.int32),
            entry=np.empty((n, 1 + HEADS), np.uint32),
            bucket_of_entry=np.zeros(n, np.int32),
            next_copy=np.full(n, -1, np.int32),
            first_copy=np.full(self.n_slots, -1, np.int32),
            path=np.zeros(self.n_slots * shape.n_levels, np.uint16),
            used=np.array([1, 1, n, n, n], np.int64),
        )
        self._tree.link[0] = ~0
        self._tree.first_copy[slots] = np.arange(n, dtype=np.int32)
        self._tree.entry[:, 0] = slots
        self._tree.entry[:, 1:] = self._describe_clauses(slots)
        work = new_work(shape)
        if shape.n_levels and n > shape.bucket:
            work.waiting[0] = 1
        self._divide(work)
        self._compact(slack=0)

    def _describe_clauses(self, slots: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Write the paths of these clauses into the tree, and return their rounded predicates."""
        heads = np.empty((slots.size, HEADS), np.uint32)
        write_paths(self.clauses, self._shape, slots, self._tree.path, heads)
        return heads

    def _divide(self, work: Work) -> None:
        while work.waiting[0]:
            divide(self._tree, self._shape, work)
            if work.need[0]:
                self._make_room(work)

    def _ends(self, nodes: int, buckets: int, entries: int, slots: int) -> dict[str, int]:
        """Return the sizes of the growing arrays for these many nodes, buckets, entries and slots."""
        return {
            "link": nodes * self._shape.n_cells,
            **dict.fromkeys(("bucket_start", "bucket_size", "bucket_room"), buckets),
            **dict.fromkeys(("entry", "bucket_of_entry", "next_copy"), entries),
            "first_copy": slots,
            "path": slots * self._shape.n_levels,
        }

    def _make_room(self, work: Work) -> None:
        """Make room for the entries that were needed, and for a node with its buckets or a clause's copies."""
        if int(self._tree.bucket_size[: self._tree.used[BUCKETS]].sum()) * 2 < self._tree.used[ENTRIES]:
            self._compact(slack=4)
        tree, used = self._tree, self._tree.used
        self._grow(
            nodes=_room(tree.link.size // self._shape.n_cells, int(used[NODES]) + 1),
            buckets=_room(tree.bucket_start.size, int(used[BUCKETS]) + max(self._shape.n_cells, self.copies)),
            entries=_room(tree.next_copy.size, int(used[ENTRIES] + work.need[0])),
        )
        work.need[0] = 0

    def _grow(self, nodes: int = 0, buckets: int = 0, entries: int = 0, slots: int = 0) -> None:
        ends = self._ends(nodes, buckets, entries, slots)
        self._tree = self._tree._replace(**{name: _grown(getattr(self._tree, name), end) for name, end in ends.items()})

    def _compact(self, slack: int) -> None:
        """Lay the buckets out anew in tree order, each with 1/slack of spare room (none for 0)."""
        tree = self._tree
        sizes = tree.bucket_size[: tree.used[BUCKETS]]
        room = int(sizes.sum() + (sizes // slack + 1).sum()) if slack else int(sizes.sum())
        fresh = tree._replace(
            entry=np.empty((room, 1 + HEADS), np.uint32),
            bucket_of_entry=np.empty(room, np.int32),
            next_copy=np.empty(room, np.int32),
        )
        moved = np.empty(int(tree.used[ENTRIES]), np.int32)
        lay_out(tree, self._shape, slack, moved, fresh)
        self._tree = fresh


def _room(present: int, needed: int) -> int:
    """Return how large to make arrays of this size, so that growing one by one stays cheap."""
    return present if needed <= present else max(needed, present * 3 // 2 + 16)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with at least this size; what is new holds -1, which is no entry."""
    present = array.shape[0]
    if present >= size:
        return array
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[:present] = array
    if grown.dtype == np.int32:
        grown[present:] = -1
    return grown


def _same_shape(one: Shape, other: Shape) -> bool:
    return (
        one.n_cells == other.n_cells
        and np.array_equal(one.level_of_attribute, other.level_of_attribute)
        and np.array_equal(one.transform.value, other.transform.value)
        and np.array_equal(one.transform.position, other.transform.position)
    )
