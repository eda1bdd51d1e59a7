"""Which subscriptions are covered: every event that matches one matches another, wider one as well.

A clause is a box, and boxes are convex: a clause holds all of another's box exactly when it holds the box's two
extreme corners. So the corners are matched as if they were events, and the clauses that match both are the
covering ones. Residual checks are compared as they stand; that can miss a covering, never invent one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.base import Matcher
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.clause import AllOf, Clause, Residual
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

MOST_COMPARISONS: Final = 2_000_000_000
"""Pairs of clauses compared, seconds of scanning: 45,000 subscriptions all with all, or 2,000 of a million with all."""

_RESULTS_AT_ONCE: Final = 1 << 23


class Covering(NamedTuple):
    """Subscription `inner` matches only where `outer` does; both are positions in the given sequence."""

    inner: int
    outer: int


def n_compared(subscriptions: Sequence[Sequence[Clause]]) -> int:
    """Return how many subscriptions, from the first on, are compared with all others within the limit."""
    n_clauses = sum(map(len, subscriptions))
    allowed = MOST_COMPARISONS // max(1, n_clauses)
    sizes = np.cumsum([len(clauses) for clauses in subscriptions])
    return int(np.searchsorted(sizes, allowed, side="right"))


def coverings(subscriptions: Sequence[Sequence[Clause]], n_attributes: int) -> Iterator[Covering]:
    """Yield, for each of the compared subscriptions that is covered, the first one that covers it.

    Equal subscriptions cover each other; only the later one is yielded then.
    """
    table, owner = _table(subscriptions)
    matcher = make_matcher("simple")
    matcher.build(table, Domains(np.zeros(n_attributes), np.ones(n_attributes)))
    residuals = [clause.residual for clauses in subscriptions for clause in clauses]
    boxless = np.flatnonzero(table.start == table.stop).astype(np.int32)
    first = 0
    step = max(1, _RESULTS_AT_ONCE // max(1, owner.size))
    seen: dict[int, set[int]] = {}
    stop_subscription = n_compared(subscriptions)
    stop = int(np.searchsorted(owner, stop_subscription))
    while first < stop:
        last = min(first + step, stop)
        for inner, candidates in zip(range(first, last), _holding(matcher, table, first, last), strict=True):
            s = int(owner[inner])
            outers = {
                int(owner[outer])
                for outer in np.concatenate([candidates, boxless]).tolist()
                if owner[outer] != s and _implies(residuals[inner], residuals[outer])
            }
            seen[s] = seen[s] & outers if s in seen else outers
            if inner + 1 == owner.size or owner[inner + 1] != s:
                yield from _first_cover(s, seen.pop(s), subscriptions)
        first = last


def _first_cover(s: int, outers: set[int], subscriptions: Sequence[Sequence[Clause]]) -> Iterator[Covering]:
    same = frozenset(subscriptions[s])
    for outer in sorted(outers):
        if outer < s or frozenset(subscriptions[outer]) != same:
            yield Covering(s, outer)
            return


def _implies(inner: Residual | None, outer: Residual | None) -> bool:
    """Say whether what `inner` checks includes all that `outer` checks."""
    if outer is None:
        return True
    return inner is not None and set(_parts(outer)) <= set(_parts(inner))


def _parts(residual: Residual) -> tuple[Residual, ...]:
    return residual.parts if isinstance(residual, AllOf) else (residual,)


def _holding(matcher: Matcher, table: ClauseTable, first: int, last: int) -> Iterator[NDArray[np.int32]]:
    """Yield, for each of the clauses first:last, the clauses whose box holds all of its box."""
    begin, end = table.start[first], table.stop[last - 1]
    start = np.append(table.start[first:last], end) - begin
    corners = [
        matcher.match_batch(EventColumns(start, table.attribute[begin:end], ends[begin:end]))
        for ends in (table.low, table.high)
    ]
    for e in range(last - first):
        low, high = (slots[event_start[e] : event_start[e + 1]] for event_start, slots in corners)
        yield np.intersect1d(low, high, assume_unique=True)


def _table(subscriptions: Sequence[Sequence[Clause]]) -> tuple[ClauseTable, NDArray[np.int32]]:
    """Return all clauses as columns, end to end, and the subscription of each."""
    clauses = [clause for group in subscriptions for clause in group]
    bounds = [bound for clause in clauses for bound in clause.bounds]
    stop = np.cumsum([len(clause.bounds) for clause in clauses], dtype=np.int64)
    start = np.concatenate([np.zeros(1, np.int64), stop[:-1]])
    owner = np.repeat(np.arange(len(subscriptions), dtype=np.int32), [len(group) for group in subscriptions])
    return (
        ClauseTable(
            start,
            stop,
            np.array([bound.attribute for bound in bounds], np.int32),
            np.array([bound.low for bound in bounds], np.float64),
            np.array([bound.high for bound in bounds], np.float64),
        ),
        owner,
    )
