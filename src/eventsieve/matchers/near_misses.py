"""Count near misses: how often a predicate alone keeps its clause from matching a sample of events.

That is what skipping the predicate would report falsely, counted and not derived. Attributes that hang together show
in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.elastic.population import NearMisses
from eventsieve.model.columns import ClauseTable, EventColumns


def near_misses(
    clauses: ClauseTable, position: NDArray[np.int64], events: EventColumns, n_attributes: int
) -> NearMisses:
    """Return near misses per event of the predicates at `position`, and the clauses that match per event."""
    n_events = events.start.shape[0] - 1
    rows = np.full((n_events, n_attributes), np.nan)
    rows[np.repeat(np.arange(n_events), np.diff(events.start)), events.attribute] = events.value
    alone = np.zeros(clauses.attribute.shape[0], np.int64)
    matches = _count(clauses, rows, alone)
    return NearMisses(alone[position] / max(1, n_events), matches / max(1, n_events))


@kernel
def _count(clauses: ClauseTable, rows: NDArray[np.float64], out_alone: NDArray[np.int64]) -> int:
    """Compare every clause with every row; count single failures by predicate, and return the matches."""
    matches = 0
    for s in range(clauses.start.shape[0]):
        if clauses.start[s] == clauses.stop[s]:
            continue
        for e in range(rows.shape[0]):
            n_failed, failed = 0, 0
            for p in range(clauses.start[s], clauses.stop[s]):
                value = rows[e, clauses.attribute[p]]
                if not (clauses.low[p] <= value <= clauses.high[p]):
                    # An absent attribute is asked for even when its predicate is skipped: no near miss.
                    n_failed += 2 if np.isnan(value) else 1
                    failed = p
                    if n_failed > 1:
                        break
            if n_failed == 0:
                matches += 1
            elif n_failed == 1:
                out_alone[failed] += 1
    return matches
