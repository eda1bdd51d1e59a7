"""The statistics record: what is known of a set of clauses, and of the events they meet.

Matchers choose attributes and cells by it, the planner chooses matchers. A record of the whole is made at once
with `statistics_of`, or merged from records of the parts: counts are added, quantiles and attribute sets are
combined from summaries of fixed size. So a cluster job that makes one record per partition returns the very same thing.

What is exact and what is not, after any merge: all counts are exact, and so is the number of distinct attribute sets up
to `SKETCH_SIZE`. Quantiles are off by about one step of their grid, and a frequent attribute set can lack the
clauses of parts in which it was not among the `SETS_KEPT` most frequent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.columns import ClauseTable, Domains, EventColumns, slice_events

WIDTH_EDGES: Final = (0.0, 1 / 1024, 1 / 256, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""Upper ends of the width classes, as shares of the domain. The first class holds the single values."""

QUANTILE_STEPS: Final = 64
SETS_KEPT: Final = 256
SKETCH_SIZE: Final = 1024

_QUANTILE_SAMPLE: Final = 1 << 18
_EVENT_SAMPLE: Final = 128
_CLAUSE_SAMPLE: Final = 1 << 13


@dataclass(frozen=True)
class QuantileSummary:
    """Per attribute the values at equal steps of rank, and how many values they stand for."""

    value: NDArray[np.float64]  # (n_attributes, QUANTILE_STEPS + 1); a row of NaN where no value was seen
    count: NDArray[np.int64]  # (n_attributes,)

    def merge(self, other: QuantileSummary) -> QuantileSummary:
        """Combine by weight; the lowest and the highest value stay exact."""
        steps = np.linspace(0.0, 1.0, QUANTILE_STEPS + 1)
        merged = np.where((self.count > 0)[:, None], self.value, other.value)
        for a in np.flatnonzero((self.count > 0) & (other.count > 0)):
            share = self.count[a] / (self.count[a] + other.count[a])
            ranks = np.concatenate(
                [
                    share * steps + (1 - share) * _ranks_of(self.value[a], other.value[a], steps),
                    share * _ranks_of(other.value[a], self.value[a], steps) + (1 - share) * steps,
                ]
            )
            values = np.concatenate([self.value[a], other.value[a]])
            order = np.lexsort((ranks, values))
            merged[a] = np.interp(steps, np.maximum.accumulate(ranks[order]), values[order])
            merged[a, [0, -1]] = values.min(), values.max()
        return QuantileSummary(merged, self.count + other.count)


def _ranks_of(
    values: NDArray[np.float64], among: NDArray[np.float64], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the ranks, from 0 to 1, that values have in another summary; in the middle of a run of equal ones."""
    present, first, count = np.unique(among, return_index=True, return_counts=True)
    ranks: NDArray[np.float64] = np.interp(
        values, present, (steps[first] + steps[first + count - 1]) / 2, left=0.0, right=1.0
    )
    return ranks


@dataclass(frozen=True)
class AttributeSets:
    """Which attributes are constrained together."""

    top: tuple[tuple[tuple[int, ...], int], ...]
    """(attributes, number of clauses), most frequent first."""
    sketch: NDArray[np.uint64]
    """The smallest hashes of the sets, rising, at most SKETCH_SIZE of them."""

    @property
    def distinct(self) -> int:
        """How many different sets there are; an estimate (to about 3 %) once there are SKETCH_SIZE of them."""
        if self.sketch.size < SKETCH_SIZE:
            return int(self.sketch.size)
        # The k-th smallest of N uniform numbers lies at k / N of their range.
        return round((SKETCH_SIZE - 1) / (float(self.sketch[-1]) / 2.0**64))

    def merge(self, other: AttributeSets) -> AttributeSets:
        counts = Counter(dict(self.top))
        counts.update(dict(other.top))
        return AttributeSets(_ranked(counts), np.union1d(self.sketch, other.sketch)[:SKETCH_SIZE])


@dataclass(frozen=True)
class EventFacts:
    """What a sample of events adds: presence, values, and how often predicates and clauses hold."""

    n_events: int
    present: NDArray[np.int64]  # (n_attributes,): events that carry the attribute
    values: QuantileSummary
    tested: NDArray[np.int64]  # (n_attributes,): predicates tried, one count per predicate and event
    satisfied: NDArray[np.int64]  # (n_attributes,)
    pairs_tested: int
    pairs_matched: int

    def merge(self, other: EventFacts) -> EventFacts:
        return EventFacts(
            self.n_events + other.n_events,
            self.present + other.present,
            self.values.merge(other.values),
            self.tested + other.tested,
            self.satisfied + other.satisfied,
            self.pairs_tested + other.pairs_tested,
            self.pairs_matched + other.pairs_matched,
        )


@dataclass(frozen=True)
class Statistics:
    """Facts about a set of clauses. Clauses without a predicate are not counted: no matcher sees them."""

    n_clauses: int
    clauses_of_attribute: NDArray[np.int64]  # (n_attributes,)
    clauses_of_size: NDArray[np.int64]  # (largest + 1,): clauses by their number of predicates
    width_classes: NDArray[np.int64]  # (n_attributes, len(WIDTH_EDGES))
    width_sum: NDArray[np.float64]  # (n_attributes,): of the widths as shares of the domain
    bounds: QuantileSummary
    """Of the finite ends of all intervals."""
    sets: AttributeSets
    events: EventFacts | None = None

    @property
    def n_attributes(self) -> int:
        return int(self.clauses_of_attribute.shape[0])

    @property
    def n_predicates(self) -> int:
        return int(self.clauses_of_attribute.sum())

    @property
    def mean_size(self) -> float:
        """Predicates per clause."""
        return self.n_predicates / max(1, self.n_clauses)

    @property
    def frequency(self) -> NDArray[np.float64]:
        """Share of the clauses that constrain each attribute."""
        return self.clauses_of_attribute / max(1, self.n_clauses)

    @property
    def mean_width(self) -> NDArray[np.float64]:
        """Mean width of the predicates on each attribute, as a share of the domain; 1 where there are none."""
        counts = self.clauses_of_attribute
        return np.where(counts > 0, self.width_sum / np.maximum(counts, 1), 1.0)

    @property
    def match_rate(self) -> float | None:
        """Expected share of the clauses that an event matches; None without events."""
        if self.events is None or self.events.pairs_tested == 0:
            return None
        return self.events.pairs_matched / self.events.pairs_tested

    def merge(self, other: Statistics) -> Statistics:
        """Return the record of both parts together."""
        if self.n_attributes != other.n_attributes:
            raise ValueError(
                f"records of {self.n_attributes} and {other.n_attributes} attributes cannot be merged; "
                "make both with the same schema"
            )
        sizes = np.zeros(max(self.clauses_of_size.size, other.clauses_of_size.size), np.int64)
        sizes[: self.clauses_of_size.size] += self.clauses_of_size
        sizes[: other.clauses_of_size.size] += other.clauses_of_size
        facts = [each.events for each in (self, other) if each.events is not None]
        return Statistics(
            self.n_clauses + other.n_clauses,
            self.clauses_of_attribute + other.clauses_of_attribute,
            sizes,
            self.width_classes + other.width_classes,
            self.width_sum + other.width_sum,
            self.bounds.merge(other.bounds),
            self.sets.merge(other.sets),
            reduce(EventFacts.merge, facts) if facts else None,
        )


def statistics_of(clauses: ClauseTable, domains: Domains, events: EventColumns | None = None) -> Statistics:
    """Return the record of all clauses that have a predicate, and of the events they meet if there are any.

    Of many predicates a regular sample gives the quantiles, and a sample of events meets a sample of clauses.
    """
    slots = np.flatnonzero(clauses.stop > clauses.start)
    size = (clauses.stop - clauses.start)[slots]
    predicate, first = _predicates_of(clauses, slots)
    attribute = clauses.attribute[predicate]
    low, high = clauses.low[predicate], clauses.high[predicate]
    n_attributes = domains.low.shape[0]
    width = _widths(domains, attribute, low, high)
    width_class = np.searchsorted(WIDTH_EDGES, width)
    n_classes = len(WIDTH_EDGES)
    every = -(-predicate.size // _QUANTILE_SAMPLE) or 1
    return Statistics(
        n_clauses=slots.size,
        clauses_of_attribute=_count(attribute, n_attributes),
        clauses_of_size=_count(size, int(size.max(initial=0)) + 1),
        width_classes=_count(attribute.astype(np.int64) * n_classes + width_class, n_attributes * n_classes).reshape(
            n_attributes, n_classes
        ),
        width_sum=np.bincount(attribute, weights=width, minlength=n_attributes).astype(np.float64),
        bounds=_quantiles(
            np.repeat(attribute[::every], 2), np.stack([low[::every], high[::every]], axis=1).ravel(), n_attributes
        ),
        sets=_attribute_sets(attribute, first, size),
        events=None if events is None else _event_facts(clauses, slots, events, n_attributes),
    )


def _predicates_of(clauses: ClauseTable, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the predicates of these clauses one after the other, and where each clause begins among them."""
    size = clauses.stop[slots] - clauses.start[slots]
    first = np.cumsum(size) - size
    return np.repeat(clauses.start[slots] - first, size) + np.arange(int(size.sum())), first


def _widths(
    domains: Domains, attribute: NDArray[np.int32], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of the domain that each interval covers; nothing of it counts outside."""
    bottom, top = domains.low[attribute], domains.high[attribute]
    # Halves, because the width of a domain can be too large for a float.
    inside = np.clip(high, bottom, top) / 2 - np.clip(low, bottom, top) / 2
    widths: NDArray[np.float64] = np.clip(inside / (top / 2 - bottom / 2), 0.0, 1.0)
    return widths


def _count(values: NDArray[np.int64] | NDArray[np.int32], n_values: int) -> NDArray[np.int64]:
    return np.bincount(values, minlength=n_values).astype(np.int64)


def _quantiles(attribute: NDArray[np.int32], value: NDArray[np.float64], n_attributes: int) -> QuantileSummary:
    finite = np.isfinite(value)
    attribute, value = attribute[finite], value[finite]
    order = np.lexsort((value, attribute))
    ranked = value[order]
    count = _count(attribute, n_attributes)
    stop = np.cumsum(count)
    steps = np.linspace(0.0, 1.0, QUANTILE_STEPS + 1)
    result = np.full((n_attributes, QUANTILE_STEPS + 1), np.nan)
    for a in np.flatnonzero(count):
        own = ranked[stop[a] - count[a] : stop[a]]
        result[a] = own[np.rint(steps * (own.size - 1)).astype(np.int64)]
    return QuantileSummary(result, count)


def _attribute_sets(attribute: NDArray[np.int32], first: NDArray[np.int64], size: NDArray[np.int64]) -> AttributeSets:
    """Group clauses by a hash of their attributes: the sum of a fixed random number each, mixed once more."""
    if first.size == 0:
        return AttributeSets((), np.empty(0, np.uint64))
    mixed = _mix(np.add.reduceat(_mix(attribute.astype(np.uint64) + np.uint64(1)), first))
    hashes, example, count = np.unique(mixed, return_index=True, return_counts=True)
    most = np.argsort(-count, kind="stable")[:SETS_KEPT]
    counts = Counter(
        {
            tuple(attribute[first[c] : first[c] + size[c]].tolist()): int(n)
            for c, n in zip(example[most], count[most], strict=True)
        }
    )
    return AttributeSets(_ranked(counts), hashes[:SKETCH_SIZE])


def _ranked(counts: Counter[tuple[int, ...]]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Most frequent first; among equals by their attributes, so that the order of merging does not show."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SETS_KEPT])


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter numbers over all 64 bits (the finisher of the splitmix generator), the same on every machine."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _event_facts(clauses: ClauseTable, slots: NDArray[np.int64], events: EventColumns, n_attributes: int) -> EventFacts:
    n_events = events.start.shape[0] - 1
    sample = slots[:: max(1, slots.size // _CLAUSE_SAMPLE)]
    predicate, first = _predicates_of(clauses, sample)
    attribute, low, high = clauses.attribute[predicate], clauses.low[predicate], clauses.high[predicate]
    met = range(0, n_events, max(1, n_events // _EVENT_SAMPLE))
    satisfied = np.zeros(n_attributes, np.int64)
    pairs_matched = 0
    for e in met if sample.size else ():
        event = slice_events(events, e, e + 1)
        row = np.full(n_attributes, np.nan)
        row[event.attribute] = event.value
        holds = (low <= row[attribute]) & (row[attribute] <= high)
        satisfied += _count(attribute[holds], n_attributes)
        pairs_matched += int(np.logical_and.reduceat(holds, first).sum())
    return EventFacts(
        n_events=n_events,
        present=_count(events.attribute, n_attributes),
        values=_quantiles(events.attribute, events.value, n_attributes),
        tested=_count(attribute, n_attributes) * len(met),
        satisfied=satisfied,
        pairs_tested=sample.size * len(met),
        pairs_matched=pairs_matched,
    )
