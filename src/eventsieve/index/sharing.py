"""Equal clauses are indexed once: the matcher sees classes of clauses with the same intervals, the index their members.

Whether it pays is decided when an index is built: a sixteenth of the hashes, chosen by their low bits so that equal
clauses are chosen together, tells how many clauses are repetitions. With few of them every clause is indexed by itself
and nothing here costs anything. Residual checks belong to clauses, not to classes, and run on the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.index.equal_clauses import (
    EMPTY,
    Rows,
    Runs,
    count_members,
    enter_classes,
    find_classes,
    forget_classes,
    hash_clauses,
    join,
    lay_out,
    leave,
    list_members,
)
from eventsieve.model.columns import ClauseTable
from eventsieve.model.growing import GrowingArray
from eventsieve.subscriptions import Subscriptions

_LEAST_SHARE: Final = 1 / 4
"""Repetitions among the clauses from which on sharing saves memory with every matcher: a class takes 32 bytes, a member
12, a clause that is not there 60 (in `simple`, at three predicates) to 600."""
_LEAST_CLAUSES: Final = 1024
_SAMPLED: Final = 16
_ARRAYS: Final = ("class_start", "class_stop", "class_of_clause", "place", "start", "length", "room", "member", "used")


class Sharing:
    """The classes of equal clauses of one collection. Class numbers are dense and reused: they are matcher slots."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        columns = {name: GrowingArray(arrays[name]) for name in _ARRAYS if name not in ("member", "used")}
        self._class_start, self._class_stop = columns["class_start"], columns["class_stop"]
        self._class_of_clause, self._place = columns["class_of_clause"], columns["place"]
        self._run_start, self._run_length, self._run_room = columns["start"], columns["length"], columns["room"]
        self._member, self._used = arrays["member"], arrays["used"]
        self._free = np.flatnonzero(self._class_start.view == self._class_stop.view).tolist()[::-1]
        # Needed for changes only, so it is made when the first one comes.
        self._buckets: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, subscriptions: Subscriptions, wanted: bool | None) -> Sharing | None:
        """Return the classes of a collection, whose equal clauses share their predicates from now on.

        With `wanted` left open, return None where too few clauses are repetitions.
        """
        table = subscriptions.table()
        slots = np.flatnonzero(table.stop > table.start).astype(np.int32)
        if wanted is None and repeated_share(table, slots) < _LEAST_SHARE:
            return None
        class_start, class_stop = np.zeros(slots.size, np.int64), np.zeros(slots.size, np.int64)
        found = np.empty(slots.size, np.int32)
        fresh = np.arange(slots.size, dtype=np.int32)
        start, stop = table.start[slots], table.stop[slots]
        n = find_classes(_rows(table), start, stop, fresh, class_start, class_stop, _empty_buckets(slots.size), found)
        class_of_clause = np.full(table.start.shape[0], EMPTY, np.int32)
        class_of_clause[slots] = found
        subscriptions.share_predicates(slots, class_start[found], class_stop[found])
        length = np.bincount(found, minlength=n).astype(np.int32)
        arrays: dict[str, NDArray[Any]] = {
            "class_start": class_start[:n],
            "class_stop": class_stop[:n],
            "class_of_clause": class_of_clause,
        }
        arrays |= {"place": np.zeros(class_of_clause.size, np.int32), "length": length, "room": length.copy()}
        arrays |= {"start": np.cumsum(length, dtype=np.int64) - length, "member": np.empty(slots.size, np.int32)}
        sharing = cls(arrays | {"used": np.array([slots.size], np.int64)})
        lay_out(class_of_clause, sharing._runs(), sharing._place.view)
        sharing.repoint(subscriptions.table())
        return sharing

    def __len__(self) -> int:
        """Return the number of classes that have members."""
        return len(self._class_start) - len(self._free)

    def table(self, clauses: ClauseTable) -> ClauseTable:
        """Return what the matcher indexes: one clause per class."""
        return clauses._replace(start=self._class_start.view, stop=self._class_stop.view)

    # -- matching ----------------------------------------------------------------------------------------

    def members(
        self, event_start: NDArray[np.int64], classes: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the matched clauses of a batch whose matched classes are given."""
        runs = self._runs()
        start = np.empty_like(event_start)
        count_members(runs, event_start, classes, start)
        clauses = np.empty(start[-1], np.int32)
        list_members(runs, classes, clauses)
        return start, clauses

    def counts(self, classes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of members of each of these classes."""
        found: NDArray[np.int32] = self._run_length.view[classes]
        return found

    # -- changing ----------------------------------------------------------------------------------------

    def insert(self, slots: NDArray[np.int32], clauses: ClauseTable) -> NDArray[np.int32]:
        """Take up clauses that are in the table already; return the classes that are new to the matcher."""
        rows, n_before = _rows(clauses), len(self._class_start)
        buckets = self._buckets_for(rows, slots.size)
        reused = [self._free.pop() for _ in range(min(len(self._free), slots.size))]
        n_grown = n_before + slots.size - len(reused)
        fresh = np.concatenate([np.array(reused, np.int32), np.arange(n_before, n_grown, dtype=np.int32)])
        per_class = (self._class_start, self._class_stop, self._run_start, self._run_length, self._run_room)
        for column in per_class:
            column.resize(n_grown)
        for column in (self._class_of_clause, self._place):
            column.resize(clauses.start.shape[0], EMPTY)
        found = np.empty(slots.size, np.int32)
        starts = self._class_start.view, self._class_stop.view
        n_fresh = find_classes(rows, clauses.start[slots], clauses.stop[slots], fresh, *starts, buckets, found)
        self._free.extend(k for k in reversed(fresh[n_fresh:].tolist()) if k < n_before)
        for column in per_class:
            column.resize(max(n_before, n_before + n_fresh - len(reused)))
        self._class_of_clause.view[slots] = found
        self._join(slots)
        return fresh[:n_fresh]

    def remove(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Let clauses leave their classes; return the classes that are left empty, which the matcher must delete."""
        emptied = np.empty(slots.size, np.int32)
        return emptied[: leave(self._runs(), slots, self._class_of_clause.view, self._place.view, emptied)]

    def forget(self, classes: NDArray[np.int32], clauses: ClauseTable) -> None:
        """Free the numbers of classes that `remove` found empty, once the matcher has forgotten them too."""
        if self._buckets is not None:
            forget_classes(_rows(clauses), self._class_start.view, self._class_stop.view, classes, self._buckets)
        self._class_start.view[classes] = self._class_stop.view[classes] = 0
        self._run_room.view[classes] = 0
        self._free.extend(classes.tolist())

    def repoint(self, clauses: ClauseTable) -> None:
        """Follow the predicates of the table to where they have moved."""
        held = np.flatnonzero(self._run_length.view > 0)
        first = self._member[self._run_start.view[held]]
        self._class_start.view[held], self._class_stop.view[held] = clauses.start[first], clauses.stop[first]

    # -- keeping -----------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a snapshot stores."""
        columns = (self._class_start, self._class_stop, self._class_of_clause, self._place)
        named = dict(zip(_ARRAYS[:4], (column.view for column in columns), strict=True))
        return named | self._runs()._asdict()

    # -- inside ------------------------------------------------------------------------------------------

    def _runs(self) -> Runs:
        return Runs(self._run_start.view, self._run_length.view, self._run_room.view, self._member, self._used)

    def _join(self, slots: NDArray[np.int32]) -> None:
        done = 0
        while done < slots.size:
            done = join(self._runs(), slots, done, self._class_of_clause.view, self._place.view)
            if done < slots.size:
                self._spread(slots[done:])

    def _spread(self, coming: NDArray[np.int32]) -> None:
        """Lay all runs out anew, each with half as much room again, and free room behind them."""
        held = self._class_of_clause.view.copy()
        held[coming] = EMPTY
        length = self._run_length.view
        room = length + length // 2
        self._run_room.view[:] = room
        self._run_start.view[:] = np.cumsum(room, dtype=np.int64) - room
        self._used = np.array([room.sum(dtype=np.int64)])
        self._member = np.empty(int(self._used[0]) * 5 // 4 + 2 * int(room.max(initial=0)) + coming.size, np.int32)
        lay_out(held, self._runs(), self._place.view)

    def _buckets_for(self, rows: Rows, n_more: int) -> NDArray[np.int32]:
        """Return buckets that hold all classes and have room for more of them."""
        if self._buckets is None or 2 * (len(self) + n_more) > self._buckets.size:
            self._buckets = _empty_buckets(2 * (len(self) + n_more))
            held = np.flatnonzero(self._run_length.view > 0).astype(np.int32)
            enter_classes(rows, self._class_start.view, self._class_stop.view, held, self._buckets)
        return self._buckets


def repeated_share(table: ClauseTable, slots: NDArray[np.int32]) -> float:
    """Estimate the share of clauses that repeat an earlier one; 0 where they are too few to bother."""
    if slots.size < _LEAST_CLAUSES:
        return 0.0
    hashes = np.empty(slots.size, np.uint64)
    hash_clauses(_rows(table), table.start[slots], table.stop[slots], hashes)
    chosen = hashes[hashes % np.uint64(_SAMPLED) == 0]
    return 1.0 - np.unique(chosen).size / chosen.size if chosen.size else 0.0


def _rows(table: ClauseTable) -> Rows:
    return Rows(table.attribute, table.low.view(np.uint64), table.high.view(np.uint64))


def _empty_buckets(n_classes: int) -> NDArray[np.int32]:
    return np.full(max(16, 1 << (2 * n_classes).bit_length()), EMPTY, np.int32)
