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
        Times(0.03451, 0, 0.005751, 0, 0.2775, 0.1506, 0, 0.7965),
        Times(0.00126, 0, 0.01462, 0, 0.1219, 0, 0.01084, 0.8051),
        Bytes(0.003647, 42.44, 1.252, 0.02722),
    ),
    "gem-tree": (
        Times(0.04455, 0, 0.2113, 0.08977, 0.1644, 0.09082, 0, 0.7709),
        Times(0.001755, 0.0172, 0.1042, 0, 0.1158, 0, 0.004903, 0.6262),
        Bytes(0.06255, 27.7, 1.501, 0.3942),
    ),
    "h-tree": (
        Times(0.03837, 0, 0, 0, 0.3501, 0, 0, 3.843),
        Times(0.002656, 0.001459, 0, 0, 0.07166, 0, 0, 3.737),
        Bytes(0.002145, 79.69, 0, 0.1601),
    ),
    "hem": (
        Times(0.05511, 0.1342, 0.7544, 0, 0.5984, 0, 0, 0.9644),
        Times(0.001993, 0.3065, 0.1169, 0, 0.4396, 0.1966, 0, 1.616),
        Bytes(1.803, 0, 16.26, 1.711),
    ),
    "op-index": (
        Times(0.007814, 0.1098, 2.573, 0, 0, 2.239, 0.2749, 0),
        Times(0, 0.5345, 0.4891, 0, 0, 1.854, 0.3212, 0.5455),
        Bytes(0.06791, 0, 20.83, 3.329),
    ),
    "rein": (
        Times(0.02401, 0, 0.3795, 0, 0, 1.553, 0.2754, 0),
        Times(0, 0.03184, 0.2379, 0, 0, 1.353, 0.2386, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-f": (
        Times(0.02321, 0, 0.3784, 0, 0, 1.606, 0.3135, 0),
        Times(0, 0.02875, 0.238, 0, 0, 1.62, 0.2667, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-o": (
        Times(0.02402, 0, 0.5905, 0, 0, 1.085, 0.2232, 0),
        Times(0, 0.008467, 0.4424, 0, 0, 0.968, 0.1889, 0),
        Bytes(0.2522, 0, 19.01, 3.644),
    ),
    "sieve": (
        Times(0.04493, 0, 0.06512, 0, 0.109, 0, 0, 0.4258),
        Times(0.0004674, 0.02639, 0.008744, 0, 0.03742, 0, 0, 0.2616),
        Bytes(0.02229, 166.8, 2.942, 5.924),
    ),
    "simple": (
        Times(0.03009, 0, 0, 1.031, 0.5863, 0, 0, 0.596),
        Times(0.001133, 0.0005027, 0, 1.079, 0.2576, 0, 0, 0.5429),
        Bytes(0, 51.33, 2.284, 0),
    ),
    "tama": (
        Times(0.03862, 0, 0.2804, 0, 0.6601, 1.51, 0.01801, 0),
        Times(0.00263, 0.05554, 0.1417, 0, 0.4188, 1.072, 0.05097, 0.2076),
        Bytes(7.142, 0, 53.42, 38.15),
    ),
    "tama-o": (
        Times(0.02047, 0.1498, 1.306, 0.21, 0, 0, 0.09665, 0.3053),
        Times(0, 0.07073, 0.821, 0, 0, 0, 0.0977, 0.2331),
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
