"""What a matcher costs by the facts alone: sums of a few quantities, each with a unit cost.

The unit costs were fitted to measurements of the standard workloads at several sizes (`experiments/planner/fit.py`
prints this table anew). They are good to a factor of two or so, which is enough to tell which matchers are worth a
trial; the trial, on the machine and the subscriptions at hand, decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from eventsieve.model.statistics import Statistics
from eventsieve.planner.plan import AROUND_MS, Cost


@dataclass(frozen=True)
class Facts:
    """The quantities that costs are made of, per event and per million clauses."""

    n_clauses: int
    size: float
    """Predicates per clause."""
    attributes: int
    values: float
    """Values per event."""
    present: float
    """Chance that an event carries the attribute of a predicate."""
    holds: float
    """Chance that a predicate holds."""
    match_rate: float

    @classmethod
    def of(cls, statistics: Statistics, n_clauses: int) -> Facts:
        """Read the facts off the statistics of a sample of `n_clauses` clauses that has met some events."""
        events = statistics.events
        assert events is not None
        asked = statistics.clauses_of_attribute
        shown = max(1, events.n_events)
        return cls(
            n_clauses,
            statistics.mean_size,
            statistics.n_attributes,
            float(events.present.sum()) / shown,
            float((asked * events.present).sum()) / max(1, int(asked.sum())) / shown,
            float(events.satisfied.sum()) / max(1, int(events.tested.sum())),
            statistics.match_rate or 0.0,
        )

    @property
    def tested(self) -> float:
        """Predicates of a clause that are asked until one fails."""
        if self.holds >= 1.0:
            return self.size
        return float((1 - self.holds**self.size) / (1 - self.holds))


class Times(NamedTuple):
    """Milliseconds: for a call, for a thousand attributes, a thousand values, and for a million each of ..."""

    call: float
    attributes: float
    values: float
    clauses: float
    tested: float
    """... predicates asked until one fails,"""
    carried: float
    """... clauses all of whose attributes an event has,"""
    failing: float
    """... predicates that fail,"""
    matches: float
    """... and ten thousand matches."""

    def predict(self, facts: Facts) -> float:
        millions = facts.n_clauses / 1e6
        return (
            self.call
            + self.attributes * facts.attributes / 1e3
            + self.values * facts.values / 1e3
            + millions
            * (
                self.clauses
                + self.tested * facts.tested
                + self.carried * facts.present**facts.size
                + self.failing * facts.size * (1 - facts.holds)
                + self.matches * facts.match_rate * 100
            )
        )


class Bytes(NamedTuple):
    """Megabytes: whatever the size, and bytes per clause, per predicate, per clause and eight attributes."""

    fixed: float
    clauses: float
    predicates: float
    rows: float

    def predict(self, facts: Facts) -> float:
        per_clause = self.clauses + self.predicates * facts.size + self.rows * facts.attributes / 8
        return self.fixed * 1e6 + per_clause * facts.n_clauses


# fmt: off
_COSTS: Final[dict[str, tuple[Times, Times, Bytes]]] = {
    "be-tree": (
        Times(0.03426, 0, 0.01259, 0.2799, 0.08974, 0.085, 0, 0.9083),
        Times(0.001273, 0, 0.01346, 0.03089, 0.1105, 0, 0.009614, 0.7579),
        Bytes(0.003647, 42.44, 1.252, 0.02722),
    ),
    "gem-tree": (
        Times(0.04278, 0, 0.2313, 0.1189, 0.2393, 0, 0, 0.6709),
        Times(0.001753, 0.01961, 0.09928, 0, 0.1658, 0, 0.001261, 0.5315),
        Bytes(0.06255, 27.7, 1.501, 0.3942),
    ),
    "h-tree": (
        Times(0.03496, 0.004443, 0, 0, 0.3247, 0, 0, 3.766),
        Times(0.002875, 0.001779, 0, 0, 0.07978, 0, 0, 4.188),
        Bytes(0.002145, 79.69, 0, 0.1601),
    ),
    "hem": (
        Times(0.05815, 0.279, 0.6368, 0, 0.8198, 0, 0, 0.6852),
        Times(0.0017, 0.2846, 0.111, 0, 0.5305, 0.0722, 0, 1.171),
        Bytes(1.737, 0, 16.55, 1.827),
    ),
    "op-index": (
        Times(0.009456, 0.1548, 2.432, 0, 0, 2.262, 0.3544, 0),
        Times(0, 0.4706, 0.567, 0, 0, 1.578, 0.4499, 0.4483),
        Bytes(0.06791, 0, 20.83, 3.329),
    ),
    "rein": (
        Times(0.02331, 0, 0.3927, 0, 0, 1.52, 0.341, 0),
        Times(0, 0.01266, 0.2492, 0, 0, 1.191, 0.2765, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-f": (
        Times(0.02333, 0, 0.398, 0, 0, 1.492, 0.3606, 0),
        Times(0, 0.007237, 0.2538, 0, 0, 1.415, 0.2968, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-o": (
        Times(0.02322, 0, 0.5914, 0, 0, 1.068, 0.2864, 0),
        Times(0, 0, 0.4468, 0, 0, 0.8753, 0.2195, 0),
        Bytes(0.2522, 0, 19.01, 3.644),
    ),
    "sieve": (
        Times(0.04279, 0.02644, 0.1195, 0, 0.1641, 0, 0, 0.1795),
        Times(0.000826, 0.02901, 0.01005, 0, 0.04002, 0, 0, 0.1868),
        Bytes(0.02488, 179.3, 2.918, 4.003),
    ),
    "simple": (
        Times(0.02984, 0, 0.000863, 1.386, 0.4036, 0, 0, 0.4687),
        Times(0.001049, 0.0009502, 0, 1.438, 0.03448, 0, 0, 0.5448),
        Bytes(0, 51.33, 2.284, 0),
    ),
    "tama": (
        Times(0.03697, 0, 0.2654, 0, 0.7552, 1.407, 0.02475, 0),
        Times(0.002436, 0.04923, 0.1355, 0, 0.4684, 1.032, 0.06005, 0.1583),
        Bytes(7.142, 0, 53.42, 38.15),
    ),
    "tama-o": (
        Times(0.02064, 0.1843, 1.289, 0.303, 0, 0, 0.0934, 0.2814),
        Times(0, 0.0998, 0.7645, 0, 0, 0, 0.1072, 0.2507),
        Bytes(8.478, 0, 75.99, 45.09),
    ),
}
# fmt: on
"""Of one event, of an event in a batch, and of the matcher's own arrays."""


def predict(matcher: str, facts: Facts) -> Cost | None:
    """Return the cost of a matcher by its unit costs; None for one that has none yet."""
    if matcher not in _COSTS:
        return None
    single, batch, size = _COSTS[matcher]
    # The times were taken of an index; a cost is that of its matcher.
    return Cost(max(0.0, single.predict(facts) - AROUND_MS), batch.predict(facts), size.predict(facts))
