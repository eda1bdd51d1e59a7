"""Measure what REIN's units of work cost on the running machine, for the cost model of elastic matching.

An event on which every clause fails by its last attribute gives the common part. Values of the other attributes then
cause one kind of work each, and the difference is that kind's cost. It takes about a second.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.elastic.cost import UnitCosts
from eventsieve.matchers.rein import Rein
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

_BLOCKS: Final = 8
_ATTRIBUTES: Final = 400
_REPEATS: Final = 7
_TURNS: Final = 11
_EVENTS: Final = 8
_LEAST: Final = 1e-3
_FAILS: Final = 0.9
"""A value of the last attribute that no clause takes."""


def measured_costs(buckets: int) -> UnitCosts:
    """Return nanoseconds per unit of work, from the least of several timings each."""
    n_slots = _BLOCKS * BLOCK_SLOTS
    crowd = _index(np.zeros(n_slots, np.int32), 1, buckets)
    unmarked = np.full((_EVENTS, 2), [0.55, _FAILS])
    # All others are differences to this one, and the first timing of a process is often a slow one: time it twice.
    base = min(_nanoseconds(crowd, unmarked), _nanoseconds(crowd, unmarked))
    mark = (_nanoseconds(crowd, np.full((_EVENTS, 2), [0.9, _FAILS])) - base) / n_slots
    compare = (_nanoseconds(crowd, np.full((_EVENTS, 2), [0.5, _FAILS])) - base) / n_slots
    # One clause per block and attribute, and values it takes: nothing but switching from list to list.
    lonely = np.full(n_slots, -1, np.int32)
    for block in range(_BLOCKS):
        lonely[block * BLOCK_SLOTS : block * BLOCK_SLOTS + _ATTRIBUTES] = np.arange(_ATTRIBUTES)
    values = np.random.default_rng(1).uniform(0.1, 0.9, (_EVENTS, _ATTRIBUTES + 1))
    values[:, -1] = _FAILS
    spread = _index(lonely, _ATTRIBUTES, buckets, low=0.05, high=0.95)
    switch = (_nanoseconds(spread, values) - base) / (_BLOCKS * _ATTRIBUTES)
    word = (base - mark * n_slots) / (n_slots / 64)
    return UnitCosts(*(max(unit, _LEAST) for unit in (compare, mark, switch, word)))


def _index(attribute: NDArray[np.int32], n_attributes: int, buckets: int, low: float = 0.5, high: float = 0.6) -> Rein:
    """Index clauses that ask for low..high on one attribute, or on none where it is -1, and for 0..0.4 on the last."""
    asked = attribute >= 0
    counts = asked + 1
    stop = np.cumsum(counts).astype(np.int64)
    attributes = np.full(int(counts.sum()), n_attributes, np.int32)
    first = (stop - counts)[asked]
    attributes[first] = attribute[asked]
    # Bounds differ a little, within a cell: equal ones would be friendlier to the processor than real ones are.
    wobble = np.random.default_rng(1).random((2, attributes.size)) * 1e-9
    lows, highs = np.zeros(attributes.size) - wobble[0], np.full(attributes.size, 0.4) + wobble[1]
    lows[first] += low + wobble[0][first]
    highs[first] += high - 0.4
    index = Rein(buckets=buckets)
    domains = Domains(np.zeros(n_attributes + 1), np.ones(n_attributes + 1))
    index.build(ClauseTable(stop - counts, stop, attributes, lows, highs), domains)
    return index


def _nanoseconds(index: Rein, values: NDArray[np.float64]) -> float:
    return nanoseconds_per_event(index, full_events(values))


def full_events(values: NDArray[np.float64]) -> EventColumns:
    """Return events that have all attributes, one per row."""
    n_events, n_attributes = values.shape
    return EventColumns(
        np.arange(n_events + 1, dtype=np.int64) * n_attributes,
        np.tile(np.arange(n_attributes, dtype=np.int32), n_events),
        values.ravel(),
    )


def nanoseconds_per_event(index: Rein, events: EventColumns) -> float:
    """Return the least processor time of several runs over a batch, per event."""
    index.match_batch(events)
    return min(_spent(index, events) for _ in range(_REPEATS)) / max(1, events.start.size - 1)


def relative_time(index: Rein, other: Rein, events: EventColumns) -> float:
    """Return what part of another index's time this one takes: the median of turns, since a busy machine has moods."""
    index.match_batch(events)
    other.match_batch(events)
    return median(_spent(index, events) / max(1, _spent(other, events)) for _ in range(_TURNS))


def _spent(index: Rein, events: EventColumns) -> int:
    begin = time.thread_time_ns()
    index.match_batch(events)
    return time.thread_time_ns() - begin
