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
        Times(0.05523, 0.5044, 0, 0, 0.2395, 0.3325, 0.02137, 1.348),
        Times(0.001557, 0.01411, 0, 0, 0.3237, 0, 0.003861, 1.139),
        Bytes(0.00322, 44.74, 1.353, 0.02528),
    ),
    "gem-tree": (
        Times(0.05689, 0.6203, 0, 0, 0.2731, 0.8811, 0, 0.8757),
        Times(0.002902, 0.03461, 0, 0, 0.314, 0.1765, 0, 0.936),
        Bytes(0.06059, 25.52, 1.511, 0.4157),
    ),
    "h-tree": (
        Times(0.05574, 0.4301, 0, 0, 1.046, 0, 0, 5.331),
        Times(0.008317, 0, 0, 0, 0.2406, 0, 0, 9.614),
        Bytes(0, 86.77, 0, 0.07965),
    ),
    "hem": (
        Times(0.07631, 1.087, 0.5963, 0, 0.8617, 1.022, 0, 0.4603),
        Times(0, 0.4434, 0.1657, 0, 1.004, 0, 0, 1.552),
        Bytes(1.282, 0, 15.15, 1.582),
    ),
    "op-index": (
        Times(0.01636, 1.301, 2.772, 0, 0, 2.31, 0.5202, 0),
        Times(0, 0.2177, 1.882, 0, 0, 1.537, 0.4042, 0.1792),
        Bytes(0.06791, 0, 20.83, 3.329),
    ),
    "rein": (
        Times(0.03484, 0.4538, 0.5875, 0, 0, 1.387, 0.3652, 0),
        Times(0.006215, 0, 0.3041, 0, 0, 1.615, 0.2876, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-f": (
        Times(0.0287, 0.5177, 0.5164, 0, 0, 1.52, 0.4473, 0),
        Times(0.005816, 0, 0.3217, 0, 0, 1.805, 0.333, 0),
        Bytes(0.2556, 0, 19.02, 3.615),
    ),
    "rein-o": (
        Times(0.03583, 0.5904, 0.7174, 0, 0, 0.9809, 0.3325, 0),
        Times(0.002536, 0, 0.5491, 0, 0, 0.8057, 0.2608, 0),
        Bytes(0.2522, 0, 19.01, 3.644),
    ),
    "sieve": (
        Times(0.04966, 0.7013, 0.1238, 0, 0.3299, 0.6377, 0, 0.1269),
        Times(0.001425, 0.07012, 0.04225, 0, 0.1017, 0.052, 0, 0.1959),
        Bytes(1.06, 276.6, 20.99, 2.95),
    ),
    "sieve-pages": (
        Times(0.04966, 0.7013, 0.1238, 0, 0.3299, 0.6377, 0, 0.1269),
        Times(0.001425, 0.07012, 0.04225, 0, 0.1017, 0.052, 0, 0.1959),
        Bytes(1.06, 276.6, 20.99, 2.95),
    ),
    "simple": (
        Times(0.04066, 0.4707, 0, 0.5197, 2.167, 0, 0, 0.5461),
        Times(0.001992, 0.005046, 0, 1.579, 0.4409, 0, 0, 0.7474),
        Bytes(0, 53.69, 2.465, 0),
    ),
    "tama": (
        Times(0.05636, 0.6786, 0.3629, 0, 0.8009, 1.393, 0.0674, 0),
        Times(0.009634, 0.05822, 0.1345, 0, 0.5626, 1.229, 0.04746, 0.06599),
        Bytes(7.142, 0, 53.42, 38.15),
    ),
    "tama-o": (
        Times(0.02983, 1.179, 1.233, 0.1258, 0, 0.3165, 0.1173, 0.026),
        Times(0, 0.2701, 0.9531, 0.0419, 0, 0, 0.1163, 0.2068),
        Bytes(8.345, 0, 65.79, 36.22),
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
