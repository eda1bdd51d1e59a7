"""Which clauses stand side by side: similar ones, so that an event passes over most blocks by a look at their bounds.

512 neighbours are a block. Attributes that all its clauses ask for are its shared ones, and each has a hull: the least
low end and the greatest high end. A value outside a hull, or none at all, rules out the block.

To make hulls narrow, clauses are divided as in a tree of boxes. Every clause goes to one of its predicates: an
attribute and a class of width, and of these the one that promises most. Those that went to the same are sorted by the
middle of that predicate and cut into slabs, and each slab is divided again by another attribute. All cuts fall on
borders of blocks. What is left over of a group joins the other leftovers, which are divided once more among themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS
from eventsieve.matchers.sieve.predicates import fields

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.predicates import Predicates
    from eventsieve.model.columns import ClauseTable, Domains

BLOCK: Final = 512
"""Positions per block: one line of the cache in each row of bits."""
SHARED: Final = 4
"""Shared attributes noted per block, and the depth that clauses are divided to."""
_CLASSES: Final = 7
"""Classes of width: the whole domain, up to a half of it, a quarter, and so on to 1/64."""
_SLABS: Final = 2
"""Slabs for a group whose predicates are as wide as the domain. Twice as many where they are half as wide."""
_MIDDLES: Final = 256
_FIRST: Final = 1e9
_NOWHERE: Final = -1


class _Division(NamedTuple):
    """Scratch for dividing one set of clauses."""

    size: NDArray[np.int64]  # (n_groups,), how many clauses have such a predicate; then how many went to it
    rank: NDArray[np.int64]  # (n_groups,), the most promising first
    group: NDArray[np.int32]  # (n_clauses,), where each clause goes: a group's rank, or the last for nowhere
    middle: NDArray[np.uint8]  # (n_clauses,), of the predicate that it goes to
    moved: NDArray[np.int32]  # (n_clauses,)


@kernel
def match_rate(clauses: ClauseTable, domains: Domains, slots: NDArray[np.int32]) -> float:
    """Return the share of clauses that an event with all attributes and uniform values would match."""
    total = 0.0
    for s in slots:
        rate = 1.0
        for p in range(clauses.start[s], clauses.stop[s]):
            low, high = domains.low[clauses.attribute[p]], domains.high[clauses.attribute[p]]
            inside = min(clauses.high[p], high) - max(clauses.low[p], low)
            rate *= max(inside / (high - low), 0.0)
        total += rate
    return float(total / max(1, slots.shape[0]))


@inlined
def _class_of(low: int, high: int) -> int:
    """Return the class of width of a predicate."""
    width = high - low + 1
    found = 0
    for halvings in range(1, _CLASSES):
        found += width <= 1 << (CODE_BITS - halvings)
    return found


@kernel
def put_in_order(predicates: Predicates, n_attributes: int, order: NDArray[np.int32]) -> None:
    """Rearrange `order`, clauses by number, so that similar ones stand side by side."""
    n = order.shape[0]
    n_groups = n_attributes * _CLASSES
    division = _Division(
        np.zeros(n_groups + 1, np.int64),
        np.zeros(n_groups, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.uint8),
        np.empty(n, np.int32),
    )
    # A set still to be divided: where it begins and stops, and the attributes it has been divided by.
    waiting = [(0, n, _NOWHERE, _NOWHERE, _NOWHERE)]
    while len(waiting) > 0:
        first, stop, a0, a1, a2 = waiting.pop()
        if stop - first <= BLOCK:
            continue
        _choose_groups(predicates, order[first:stop], a0, a1, a2, division)
        sizes = _bring_together(order[first:stop], division)
        attribute_of_rank = np.empty(n_groups, np.int64)
        for g in range(n_groups):
            attribute_of_rank[division.rank[g]] = g
        begin = first
        for rank in range(n_groups):
            if sizes[rank] == 0:
                continue
            g = attribute_of_rank[rank]
            n_blocks = sizes[rank] // BLOCK
            n_slabs = min(n_blocks, _SLABS << (g % _CLASSES))
            for slab in range(n_slabs):
                slab_first = begin + n_blocks * slab // n_slabs * BLOCK
                slab_stop = begin + n_blocks * (slab + 1) // n_slabs * BLOCK
                if a2 == _NOWHERE:
                    a = g // _CLASSES
                    waiting.append((slab_first, slab_stop, a, a0, a1))
            begin += n_blocks * BLOCK
        if begin > first:
            waiting.append((begin, stop, a0, a1, a2))


@kernel
def _choose_groups(
    predicates: Predicates, clauses: NDArray[np.int32], a0: int, a1: int, a2: int, division: _Division
) -> None:
    """Say where each clause goes: the group that promises most among those large enough to fill a block."""
    count, rank = division.size, division.rank
    n_groups = rank.shape[0]
    count[:] = 0
    for i in range(clauses.shape[0]):
        for p in range(predicates.span[2 * clauses[i]], predicates.span[2 * clauses[i] + 1]):
            a, low, high = fields(predicates, p)
            if a != a0 and a != a1 and a != a2:
                count[a * _CLASSES + _class_of(low, high)] += 1
    promise = np.empty(n_groups)
    for g in range(n_groups):
        slabs = count[g] / BLOCK
        if slabs < 1.0:
            promise[g] = 0.0
        else:
            # How often it rules out comes first. Among equals, the more clauses are alike the better.
            promise[g] = -_FIRST * min(g % _CLASSES + 0.5, np.log2(slabs) + 1.3) - count[g]
    by_promise = np.argsort(promise)
    for i in range(n_groups):
        rank[by_promise[i]] = i
    for attempt in range(2):
        # The second time, groups that turned out too small for a block take no part.
        allowed = count >= BLOCK
        count[:] = 0
        for i in range(clauses.shape[0]):
            if attempt == 1 and division.group[i] < n_groups and allowed[by_promise[division.group[i]]]:
                count[by_promise[division.group[i]]] += 1
                continue
            best, middle = n_groups, 0
            for p in range(predicates.span[2 * clauses[i]], predicates.span[2 * clauses[i] + 1]):
                a, low, high = fields(predicates, p)
                if a != a0 and a != a1 and a != a2:
                    g = a * _CLASSES + _class_of(low, high)
                    if allowed[g] and rank[g] < best:
                        best, middle = rank[g], (low + high) >> (CODE_BITS - 7)
            division.group[i] = best
            division.middle[i] = middle
            if best < n_groups:
                count[by_promise[best]] += 1


@kernel
def _bring_together(clauses: NDArray[np.int32], division: _Division) -> NDArray[np.int64]:
    """Sort clauses by group and middle. Return the sizes of groups by rank, in whole blocks; leftovers come last."""
    n = clauses.shape[0]
    n_groups = division.rank.shape[0]
    sizes = np.zeros(n_groups + 1, np.int64)
    _counting_sort(division.middle, clauses, division, _MIDDLES)
    for i in range(n):
        sizes[division.group[i]] += 1
    place = np.zeros(n_groups + 1, np.int64)
    total = 0
    for g in range(n_groups):
        sizes[g] = sizes[g] // BLOCK * BLOCK
        place[g] = total
        total += sizes[g]
    stops = place + sizes
    rest = total
    for i in range(n):
        g = division.group[i]
        if g < n_groups and place[g] < stops[g]:
            division.moved[place[g]] = clauses[i]
            place[g] += 1
        else:
            division.moved[rest] = clauses[i]
            rest += 1
    clauses[:] = division.moved[:n]
    return sizes[:n_groups]


@kernel
def _counting_sort(key: NDArray[np.uint8], clauses: NDArray[np.int32], division: _Division, n_keys: int) -> None:
    """Sort clauses and their groups by a small key."""
    n = clauses.shape[0]
    place = np.zeros(n_keys + 1, np.int64)
    for i in range(n):
        place[key[i] + 1] += 1
    for j in range(n_keys):
        place[j + 1] += place[j]
    groups = division.group[:n].copy()
    for i in range(n):
        at = place[key[i]]
        place[key[i]] += 1
        division.moved[at] = clauses[i]
        division.group[at] = groups[i]
    clauses[:] = division.moved[:n]
