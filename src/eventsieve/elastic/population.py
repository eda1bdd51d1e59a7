"""What a skip plan is made from: the predicates, how likely each is satisfied, and the matches that follow from it.

Matchability is the chance that a value falls into the interval, given that the event has the attribute. It is
measured from a sample of events where there is one. Otherwise it is the share of the domain that the interval covers,
which is right for uniform values; single values have no width, so clauses with one are then left alone.

The false matches of a plan are counted under one assumption, independent attributes: clause s matches with M_s, the
product over its predicates; with some of them skipped it is reported with the product of the others. Where attributes
hang together that is too little, so near misses counted on the sample stand beside it, and the larger number counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.columns import ClauseTable, Domains, EventColumns

SAMPLE_EVENTS: Final = 4096
SAMPLE_VALUES: Final = 1 << 21
"""Events and values at most that a sample keeps."""

LEAST_SEEN: Final = 16
"""Values of an attribute that a sample must hold before one of its predicates may be skipped."""

_LEAST: Final = 1e-9


@dataclass(frozen=True)
class EventSample:
    """The values of a sample of events, sorted by attribute."""

    n_events: int
    start: NDArray[np.int64]  # (n_attributes + 1,)
    value: NDArray[np.float64]  # (n_values,), rising within an attribute

    @classmethod
    def of(cls, events: EventColumns, n_attributes: int) -> EventSample:
        """Keep a regular sample of a batch."""
        n_events = events.start.shape[0] - 1
        per_event = events.value.size / max(1, n_events)
        most = max(1, min(SAMPLE_EVENTS, int(SAMPLE_VALUES / max(1.0, per_event))))
        taken = np.zeros(n_events, np.bool_)
        taken[:: max(1, -(-n_events // most))] = True
        kept = np.repeat(taken, np.diff(events.start))
        attribute, value = events.attribute[kept], events.value[kept]
        order = np.lexsort((value, attribute))
        start = np.zeros(n_attributes + 1, np.int64)
        np.cumsum(np.bincount(attribute, minlength=n_attributes), out=start[1:])
        return cls(int(taken.sum()), start, value[order])

    @property
    def presence(self) -> NDArray[np.float64]:
        """The share of the events that have each attribute."""
        return np.diff(self.start) / max(1, self.n_events)

    def within(
        self, attribute: NDArray[np.int32], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the share of an attribute's values that lie in each interval, on the high side for small samples."""
        share = np.ones(attribute.size)
        order = np.argsort(attribute, kind="stable")
        cuts = np.searchsorted(attribute[order], np.arange(self.start.size))
        for a in np.flatnonzero(np.diff(cuts)):
            mine = order[cuts[a] : cuts[a + 1]]
            values = self.value[self.start[a] : self.start[a + 1]]
            found = np.searchsorted(values, high[mine], "right") - np.searchsorted(values, low[mine], "left")
            # One more than was seen: a predicate nothing fell into is rare, not impossible.
            share[mine] = np.minimum((found + 1.0) / (values.size + 1.0), 1.0)
        return share


@dataclass(frozen=True)
class NearMisses:
    """What a sample of events showed of predicates and clauses together, per event."""

    alone: NDArray[np.float64]  # (n_predicates,), events in which only this predicate of its clause failed
    matches: float
    """Clauses that matched."""


@dataclass(frozen=True)
class RuledOut:
    """What rows of bits rule out before anything is asked: see `matchers.prepared_rows`."""

    covered: NDArray[np.bool_]  # (n_predicates,), there are rows for the predicate
    left_open: NDArray[np.float64]  # (n_predicates,), the chance that they do not rule its clause out; 1 without rows
    rows: float
    """Rows that an event reads."""


@dataclass(frozen=True)
class Population:
    """The predicates of all clauses, one after the other; clauses are numbered as they stand here, not by slot."""

    slot: NDArray[np.int64]  # (n_clauses,)
    first: NDArray[np.int64]  # (n_clauses,), where the predicates of each clause begin
    position: NDArray[np.int64]  # (n_predicates,), in the clause table
    attribute: NDArray[np.int32]  # (n_predicates,)
    matchability: NDArray[np.float64]  # (n_predicates,)
    presence: NDArray[np.float64]  # (n_attributes,)
    may_skip: NDArray[np.bool_]  # (n_predicates,)
    near_misses: NearMisses | None = None
    ruled_out: RuledOut | None = None

    @cached_property
    def clause(self) -> NDArray[np.int64]:
        """The clause of each predicate."""
        sizes = np.diff(self.first, append=self.attribute.size)
        return np.repeat(np.arange(self.slot.size), sizes)

    def has(self, predicates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each clause whether one of its predicates is among these."""
        if self.slot.size == 0:
            return np.zeros(0, np.bool_)
        found: NDArray[np.bool_] = np.logical_or.reduceat(predicates, self.first)
        return found

    @cached_property
    def matches(self) -> NDArray[np.float64]:
        """The expected number of matches of each clause per event."""
        return self.reported(np.zeros(self.attribute.size, np.bool_))

    def reported(self, skipped: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the expected number of reported matches of each clause per event when some predicates are skipped."""
        if self.slot.size == 0:
            return np.zeros(0)
        left_open = 1.0 if self.ruled_out is None else self.ruled_out.left_open
        chance = np.where(skipped, left_open, self.matchability) * self.presence[self.attribute]
        products: NDArray[np.float64] = np.multiply.reduceat(chance, self.first)
        return products

    def with_rows(self, ruled_out: RuledOut) -> Population:
        """Return the population where rows rule out some of what fails, and near misses with it."""
        left_open = np.maximum(ruled_out.left_open, self.matchability)
        seen = self.near_misses
        if seen is not None:
            still = (left_open - self.matchability) / np.maximum(1.0 - self.matchability, _LEAST)
            seen = replace(seen, alone=seen.alone * np.where(ruled_out.covered, still, 1.0))
        return replace(self, near_misses=seen, ruled_out=replace(ruled_out, left_open=left_open))

    @property
    def total_matches(self) -> float:
        """The expected number of matches per event: as seen, where events were seen."""
        return float(self.matches.sum()) if self.near_misses is None else self.near_misses.matches

    def false_matches(self, skipped: NDArray[np.bool_]) -> float:
        """Return the expected number of false matches per event."""
        return float(self.false_matches_of_clauses(skipped).sum())

    def false_matches_of_clauses(self, skipped: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the expected number of false matches of each clause: what the model or the sample says."""
        expected = self.reported(skipped) - self.matches
        if self.near_misses is not None and expected.size:
            expected = np.maximum(expected, np.add.reduceat(self.near_misses.alone * skipped, self.first))
        return expected

    def cost_alone(self) -> NDArray[np.float64]:
        """Return what skipping each predicate, and no other, adds in false matches per event: M_s (1/w - 1)."""
        return self.at_least_seen(self.matches[self.clause] * (1.0 / self.matchability - 1.0), slice(None))

    def at_least_seen(self, false: NDArray[np.float64], predicate: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return what the model says skipping these predicates adds, or what the sample showed if that is more."""
        return false if self.near_misses is None else np.maximum(false, self.near_misses.alone[predicate])


def population_of(
    clauses: ClauseTable, domains: Domains, sample: EventSample | None, exact: NDArray[np.bool_]
) -> Population:
    """Return the population of all clauses that have a predicate. Attributes marked exact are never to be skipped."""
    slot = np.flatnonzero(clauses.stop > clauses.start)
    size = (clauses.stop - clauses.start)[slot]
    first = np.cumsum(size) - size
    position = np.repeat(clauses.start[slot] - first, size) + np.arange(int(size.sum()))
    attribute, low, high = clauses.attribute[position], clauses.low[position], clauses.high[position]
    may_skip = ~exact[attribute]
    if sample is None:
        matchability = _widths(domains, attribute, low, high)
        presence = np.ones(domains.low.size)
        if slot.size:
            measured = np.logical_and.reduceat(matchability > 0.0, first)
            may_skip &= np.repeat(measured, size)
    else:
        matchability = sample.within(attribute, low, high)
        presence = np.maximum(sample.presence, 1.0 / (sample.n_events + 1))
        may_skip &= np.diff(sample.start)[attribute] >= LEAST_SEEN
    return Population(slot, first, position, attribute, np.maximum(matchability, _LEAST), presence, may_skip)


def _widths(
    domains: Domains, attribute: NDArray[np.int32], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of the domain that each interval covers."""
    bottom, top = domains.low[attribute], domains.high[attribute]
    # Halves, because the width of a domain can be too large for a float.
    inside = np.clip(high, bottom, top) / 2 - np.clip(low, bottom, top) / 2
    widths: NDArray[np.float64] = np.clip(inside / (top / 2 - bottom / 2), 0.0, 1.0)
    return widths
