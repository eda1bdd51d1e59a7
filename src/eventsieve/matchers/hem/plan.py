"""The plan of an event: in which order its attributes are handled, and each by which method.

Sections 4.3.2 and 4.3.3. Costs are counted in marks, one for each clause that a walk over a triangle marks, as a share
of all clauses. A walk costs the same wherever it stands in the queue. A direct check costs more the more clauses are
left, so selective attributes come first; what is left is taken as the product of their matching rates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.hem.coding import CODE_BITS
from eventsieve.matchers.hem.triangle import COUNT_BITS, GROUP_BITS, N_PARTS, Columns, Counts
from eventsieve.model.columns import EventColumns

NEAR_OPTIMAL = 0
OPTIMAL = 1
GIVEN = 2
MOST_ENUMERATED = 8
"""Attributes at most that are enumerated: each one more doubles the plans."""
_COLUMN_CHECK = 4.0
"""A check in a column costs as much as so many marks: it reads at random, and what it keeps makes a list.

On `hem`, with 1, 2 and 4 a match took 0.32, 0.33 and 0.26 of REIN's time (n = 100,000); 8 was slower than 4.
"""
_TABLE_CHECK = 150.0
"""The same for a clause that is looked up in the clause table, by estimate: two or three walks to main memory."""
_JOIN = 0.01
"""Joining the clauses kept by a walk to the others: two passes over a bitset, as a share of a mark per clause."""


class Costs(NamedTuple):
    """Per attribute of one event, in the event's order."""

    matching: NDArray[np.float64]  # share of all clauses that the value does not rule out
    walk: NDArray[np.float64]  # cost of walking the triangle
    check: NDArray[np.float64]  # cost of the direct method per clause that is left


class Plans(NamedTuple):
    """Event e handles its values step[i] for i in events.start[e]:events.start[e+1]: the first n_walks[e] by their
    triangle, the next n_checks[e] in their column; the rest is looked up in the clause table."""

    step: NDArray[np.int64]  # (n_values,), positions in events.value
    keeps: NDArray[np.bool_]  # (n_values,) by position: its walk meets the matching clauses, not the others
    n_walks: NDArray[np.int32]  # (n_events,)
    n_checks: NDArray[np.int32]  # (n_events,)


@kernel
def make_plans(
    counts: Counts, columns: Columns, events: EventColumns, codes: NDArray[np.int32], order: int, shorter: bool
) -> Plans:
    """Return the plans of all events."""
    n_attributes, n_events = counts.ends.shape[0], events.start.shape[0] - 1
    plans = Plans(
        np.empty(codes.shape[0], np.int64),
        np.empty(codes.shape[0], np.bool_),
        np.empty(n_events, np.int32),
        np.empty(n_events, np.int32),
    )
    costs = Costs(np.empty(n_attributes), np.empty(n_attributes), np.empty(n_attributes))
    queue, walked = np.empty(n_attributes, np.int32), np.empty(n_attributes, np.bool_)
    for e in range(n_events):
        first, stop = events.start[e], events.start[e + 1]
        n_values = stop - first
        left = _read_costs(counts, columns, events, codes, e, shorter, costs, plans.keeps)
        if order == GIVEN:
            for k in range(n_values):
                queue[k] = k
        else:
            sort_by_matching(costs.matching, n_values, queue)
        if order == OPTIMAL:
            choose_optimal(costs, left, queue, n_values, walked)
        else:
            choose_in_turn(costs, left, queue, n_values, walked)
        # Observation 2: all walks come before all checks.
        at = first
        for method in range(3):
            for k in range(n_values):
                j = queue[k]
                column = columns.column_of_attribute[events.attribute[first + j]] >= 0
                if method == (0 if walked[j] else 1 if column else 2):
                    plans.step[at] = first + j
                    at += 1
            if method == 0:
                plans.n_walks[e] = at - first
            elif method == 1:
                plans.n_checks[e] = at - first - plans.n_walks[e]
    return plans


@kernel
def _read_costs(
    counts: Counts,
    columns: Columns,
    events: EventColumns,
    codes: NDArray[np.int32],
    e: int,
    shorter: bool,
    out_costs: Costs,
    out_keeps: NDArray[np.bool_],
) -> float:
    """Write the costs of an event's attributes, formula (4); return the share that its absent attributes leave."""
    n_clauses = max(1, counts.clauses[0])
    left = 1.0
    i = events.start[e]
    for a in range(counts.ends.shape[0]):
        asking = _ends_below(counts.ends[a, 0], N_PARTS)
        if i == events.start[e + 1] or events.attribute[i] != a:
            left *= 1.0 - asking / n_clauses
            continue
        part = codes[i] >> (CODE_BITS - COUNT_BITS)
        # The ends in the value's own part count as satisfied: they are few, and only the estimate suffers.
        failed = asking - _ends_below(counts.ends[a, 0], part + 1) + _ends_below(counts.ends[a, 1], part)
        unmatched = failed / n_clauses
        kept = (asking - failed) / n_clauses + _JOIN
        j = i - events.start[e]
        out_keeps[i] = shorter and kept < unmatched
        out_costs.matching[j] = 1.0 - unmatched
        out_costs.walk[j] = kept if out_keeps[i] else unmatched
        out_costs.check[j] = _COLUMN_CHECK if columns.column_of_attribute[a] >= 0 else _TABLE_CHECK * unmatched
        i += 1
    return left


@inlined
def _ends_below(ends: NDArray[np.int32], part: int) -> int:
    """Return how many ends of one side lie in the parts before this one."""
    group = part >> (COUNT_BITS - GROUP_BITS)
    total = 0
    for g in range(group):
        total += ends[N_PARTS + g]
    for p in range(group << (COUNT_BITS - GROUP_BITS), part):
        total += ends[p]
    return total


@kernel
def sort_by_matching(matching: NDArray[np.float64], n: int, out_queue: NDArray[np.int32]) -> None:
    """Write 0 to n - 1 by rising matching rate (Algorithm 4, line 1)."""
    for j in range(n):
        k = j
        while k > 0 and matching[out_queue[k - 1]] > matching[j]:
            out_queue[k] = out_queue[k - 1]
            k -= 1
        out_queue[k] = j


@kernel
def choose_in_turn(costs: Costs, left: float, queue: NDArray[np.int32], n: int, out_walked: NDArray[np.bool_]) -> None:
    """Choose the method of each attribute down the queue (Algorithm 4, lines 2 to 19)."""
    for k in range(n):
        j = queue[k]
        out_walked[j] = left * costs.check[j] > costs.walk[j]
        left *= costs.matching[j]


@kernel
def choose_optimal(costs: Costs, left: float, queue: NDArray[np.int32], n: int, out_walked: NDArray[np.bool_]) -> None:
    """Choose the methods of least cost among all that keep observations 2 and 3.

    Walks come first and their order does not matter; checks follow by rising matching rate. So a plan is the set of
    attributes that are walked, and there are 2**n.
    """
    best, best_cost = 0, np.inf
    for walked in range(1 << n):
        cost = plan_cost(costs, left, queue, n, walked)
        if cost < best_cost:
            best, best_cost = walked, cost
    for j in range(n):
        out_walked[j] = (best >> j) & 1 == 1


@kernel
def plan_cost(costs: Costs, left: float, queue: NDArray[np.int32], n: int, walked: int) -> float:
    """Return the cost of a plan, formula (5); bit j of `walked` says that attribute j is walked."""
    cost = 0.0
    for j in range(n):
        if (walked >> j) & 1:
            cost += costs.walk[j]
            left *= costs.matching[j]
    for k in range(n):
        j = queue[k]
        if not (walked >> j) & 1:
            cost += left * costs.check[j]
            left *= costs.matching[j]
    return cost
