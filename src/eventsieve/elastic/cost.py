"""The cost model: what a match costs per event, and what a skip plan takes off it.

Paper: EEM section 5.1, whose expected gain R (Table 3) comes from four parts of REIN's matching time: comparing
predicates in the value's own buckets, traversing the others, switching buckets, and marking bits. The paper does
not print the model; this is ours.

Differences from the paper: in flat arrays the buckets of a list lie one behind the other, so traversing and marking
are one step, and a switch is paid once for the two lists of a block and attribute, not per bucket. The fourth part here
is what no plan saves: starting, finishing and reading out the bitset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventsieve.elastic.population import Population
from eventsieve.elastic.skips import Skips


@dataclass(frozen=True)
class UnitCosts:
    """Nanoseconds per unit of work. `matchers.rein_costs` measures them on the running machine."""

    compare: float = 1.0
    """Comparing one end in the value's own bucket."""
    mark: float = 0.6
    """Marking one unsatisfied end."""
    switch: float = 300.0
    """Turning to the two lists of another block and attribute: mostly waiting for memory."""
    word: float = 2.0
    """Starting, inverting and reading out 64 slots."""
    rest: float = 0.0
    """Per event: what an index was seen to take beyond all that. No plan saves it."""
    check: float = 25.0
    """Listing a reported clause and checking it again: five comparisons with a row of codes."""
    row: float = 170.0
    """ANDing a prepared row of a block: 4 KB."""


@dataclass(frozen=True)
class Work:
    """Expected units of work per event."""

    compare: float
    mark: float
    switch: float
    words: float
    check: float = 0.0
    row: float = 0.0

    def cost(self, unit: UnitCosts) -> float:
        """Return nanoseconds per event."""
        work = self.compare * unit.compare + self.mark * unit.mark + self.switch * unit.switch
        return work + self.words * unit.word + self.check * unit.check + self.row * unit.row + unit.rest


def work_of(population: Population, skips: Skips, block_slots: int, n_cells: int, n_slots: int) -> Work:
    """Return the work that matching an event is expected to be with these predicates skipped."""
    skipped = skips.skipped
    kept = ~skipped
    attribute = population.attribute[kept]
    presence = population.presence[attribute]
    return Work(
        compare=float(2.0 / n_cells * presence.sum()),
        mark=float((presence * (1.0 - population.matchability[kept])).sum()),
        switch=float(population.presence[lists_in_use(population, skipped, block_slots)[1]].sum()),
        words=n_slots / 64.0,
        check=float(population.reported(skipped)[skips.checked_clauses(population)].sum()),
        row=population.ruled_out.rows if population.ruled_out is not None and skipped.any() else 0.0,
    )


def lists_in_use(population: Population, skipped: np.ndarray, block_slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (block, attribute) pairs that still have a predicate."""
    n_attributes = population.presence.size
    block = population.slot[population.clause] // block_slots
    used = np.bincount((block * n_attributes + population.attribute)[~skipped])
    return np.divmod(np.flatnonzero(used), n_attributes)


def gain(before: Work, after: Work, unit: UnitCosts) -> float:
    """Return R, the share of the matching time that is saved."""
    whole = before.cost(unit)
    return 1.0 - after.cost(unit) / whole if whole > 0 else 0.0


def elbow(false_positive: Sequence[float], gains: Sequence[float]) -> float:
    """Return the F beyond which more of it gains little: the point farthest above the line from first to last.

    >>> elbow([0.0, 0.001, 0.01, 0.05], [0.0, 0.40, 0.45, 0.50])
    0.001
    """
    x, y = np.asarray(false_positive, np.float64), np.asarray(gains, np.float64)
    if x.size == 0:
        return 0.0
    span, rise = np.ptp(x) or 1.0, np.ptp(y) or 1.0
    above = (y - y[0]) / rise - (x - x[0]) / span
    return float(x[int(np.argmax(above))])
