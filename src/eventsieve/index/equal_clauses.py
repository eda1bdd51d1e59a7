"""Compiled code that finds equal clauses and keeps the members of each class of them together.

A class is a set of clauses with the same intervals. Classes are found by an open hash table of class numbers: clauses
that fall into one bucket are compared predicate by predicate, so equal hashes never make two clauses equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel

EMPTY = -1
"""A bucket without a class, a clause without one."""

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_THIRD = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


class Rows(NamedTuple):
    """The predicates of all clauses. Bounds are bit patterns: no NaN and no -0.0 gets this far."""

    attribute: NDArray[np.int32]
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]


class Runs(NamedTuple):
    """The members of class k are member[start[k] : start[k] + length[k]]; there is room for room[k]."""

    start: NDArray[np.int64]  # (n_classes,)
    length: NDArray[np.int32]  # (n_classes,)
    room: NDArray[np.int32]  # (n_classes,)
    member: NDArray[np.int32]  # (n_pool,), clause slots
    used: NDArray[np.int64]  # (1,), the pool behind this is free


@inlined
def _hash(rows: Rows, start: int, stop: int) -> np.uint64:
    mixed = np.uint64(stop - start)
    for p in range(start, stop):
        mixed = (mixed ^ np.uint64(rows.attribute[p])) * _FIRST
        mixed = (mixed ^ (mixed >> _HALF) ^ rows.low[p]) * _SECOND
        mixed = (mixed ^ (mixed >> _HALF) ^ rows.high[p]) * _THIRD
    return mixed ^ (mixed >> _HALF)


@inlined
def _equal(rows: Rows, one: int, other: int, length: int) -> bool:
    same = True
    for i in range(length):
        if rows.attribute[one + i] != rows.attribute[other + i]:
            same = False
            break
        if rows.low[one + i] != rows.low[other + i] or rows.high[one + i] != rows.high[other + i]:
            same = False
            break
    return same


@inlined
def _home(rows: Rows, start: int, stop: int, buckets: NDArray[np.int32]) -> np.uint64:
    """Return the bucket where the search for a clause begins."""
    return _hash(rows, start, stop) & np.uint64(buckets.shape[0] - 1)


@inlined
def _after(at: np.uint64, buckets: NDArray[np.int32]) -> np.uint64:
    """Return the bucket where it goes on."""
    return (at + _ONE) & np.uint64(buckets.shape[0] - 1)


@inlined
def _find(held: int, at: np.uint64, buckets: NDArray[np.int32]) -> np.uint64:
    """Return the first bucket from `at` on that holds a class, or EMPTY."""
    while buckets[at] != held:
        at = _after(at, buckets)
    return at


@kernel
def hash_clauses(rows: Rows, start: NDArray[np.int64], stop: NDArray[np.int64], out_hash: NDArray[np.uint64]) -> None:
    """Hash the predicates of each clause."""
    for i in range(start.shape[0]):
        out_hash[i] = _hash(rows, start[i], stop[i])


@kernel
def find_classes(
    rows: Rows,
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    fresh: NDArray[np.int32],
    class_start: NDArray[np.int64],
    class_stop: NDArray[np.int64],
    buckets: NDArray[np.int32],
    out_class: NDArray[np.int32],
) -> int:
    """Give each clause its class, new ones from `fresh` in order; return how many new ones there are.

    `buckets` has a power of two of places, at most half of them taken when all is done.
    """
    n_fresh = 0
    for i in range(start.shape[0]):
        length = stop[i] - start[i]
        at = _home(rows, start[i], stop[i], buckets)
        while True:
            k = buckets[at]
            if k == EMPTY:
                k = fresh[n_fresh]
                n_fresh += 1
                buckets[at] = k
                class_start[k], class_stop[k] = start[i], stop[i]
                break
            if class_stop[k] - class_start[k] == length and _equal(rows, class_start[k], start[i], length):
                break
            at = _after(at, buckets)
        out_class[i] = k
    return n_fresh


@kernel
def enter_classes(
    rows: Rows,
    class_start: NDArray[np.int64],
    class_stop: NDArray[np.int64],
    classes: NDArray[np.int32],
    buckets: NDArray[np.int32],
) -> None:
    """Put classes, which are known to differ, into empty buckets."""
    for k in classes:
        home = _home(rows, class_start[k], class_stop[k], buckets)
        buckets[_find(EMPTY, home, buckets)] = k


@kernel
def forget_classes(
    rows: Rows,
    class_start: NDArray[np.int64],
    class_stop: NDArray[np.int64],
    classes: NDArray[np.int32],
    buckets: NDArray[np.int32],
) -> None:
    """Take classes out of the buckets; later ones of the same run move up, so that no search ends too early."""
    last = np.uint64(buckets.shape[0] - 1)
    for k in classes:
        hole = _find(k, _home(rows, class_start[k], class_stop[k], buckets), buckets)
        at = hole
        while True:
            at = _after(at, buckets)
            other = buckets[at]
            if other == EMPTY:
                break
            home = _home(rows, class_start[other], class_stop[other], buckets)
            # It may move to the hole unless its home lies behind the hole.
            if ((at - home) & last) >= ((at - hole) & last):
                buckets[hole] = other
                hole = at
        buckets[hole] = EMPTY


@kernel
def lay_out(class_of_clause: NDArray[np.int32], runs: Runs, out_place: NDArray[np.int32]) -> None:
    """Fill runs, whose `start` and `room` are set, with all clauses by rising slot."""
    runs.length[:] = 0
    for c in range(class_of_clause.shape[0]):
        k = class_of_clause[c]
        if k == EMPTY:
            continue
        runs.member[runs.start[k] + runs.length[k]] = c
        out_place[c] = runs.length[k]
        runs.length[k] += 1


@kernel
def join(
    runs: Runs, clauses: NDArray[np.int32], first: int, class_of_clause: NDArray[np.int32], place: NDArray[np.int32]
) -> int:
    """Add clauses from `first` on to the runs of their classes; return the first for which the pool has no room.

    A full run moves to the end of the pool, with room for as many again.
    """
    for i in range(first, clauses.shape[0]):
        c = clauses[i]
        k = class_of_clause[c]
        length = runs.length[k]
        if length == runs.room[k]:
            room = 2 * length + 1
            if runs.used[0] + room > runs.member.shape[0]:
                return i
            begin = runs.used[0]
            runs.member[begin : begin + length] = runs.member[runs.start[k] : runs.start[k] + length]
            runs.start[k], runs.room[k] = begin, room
            runs.used[0] += room
        runs.member[runs.start[k] + length] = c
        place[c] = length
        runs.length[k] = length + 1
    return clauses.shape[0]


@kernel
def leave(
    runs: Runs,
    clauses: NDArray[np.int32],
    class_of_clause: NDArray[np.int32],
    place: NDArray[np.int32],
    out_emptied: NDArray[np.int32],
) -> int:
    """Take clauses out of their runs, the last member filling each gap; return how many classes have lost all."""
    n_emptied = 0
    for c in clauses:
        k = class_of_clause[c]
        runs.length[k] -= 1
        last = runs.member[runs.start[k] + runs.length[k]]
        runs.member[runs.start[k] + place[c]] = last
        place[last] = place[c]
        class_of_clause[c] = EMPTY
        if runs.length[k] == 0:
            out_emptied[n_emptied] = k
            n_emptied += 1
    return n_emptied


@kernel
def count_members(
    runs: Runs, event_start: NDArray[np.int64], classes: NDArray[np.int32], out_start: NDArray[np.int64]
) -> None:
    """Say where the clauses of each event begin once its classes are replaced by their members."""
    total = 0
    for e in range(event_start.shape[0] - 1):
        out_start[e] = total
        for i in range(event_start[e], event_start[e + 1]):
            total += runs.length[classes[i]]
    out_start[event_start.shape[0] - 1] = total


@kernel
def list_members(runs: Runs, classes: NDArray[np.int32], out_clauses: NDArray[np.int32]) -> None:
    """Write the members of one class after the other."""
    used = 0
    for k in classes:
        for i in range(runs.start[k], runs.start[k] + runs.length[k]):
            out_clauses[used] = runs.member[i]
            used += 1
