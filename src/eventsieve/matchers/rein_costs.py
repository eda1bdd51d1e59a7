"""Measure what REIN's units of work cost on the running machine, for the cost model of elastic matching.

Four small indexes, each made of almost one kind of work, are timed in turns and their units solved for one after the
other. It takes about a second.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.elastic.cost import UnitCosts
from eventsieve.matchers.rein import Rein
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

_BLOCKS: Final = 4
_ATTRIBUTES: Final = 400
_REPEATS: Final = 9
_EVENTS: Final = 4


def measured_costs(buckets: int) -> UnitCosts:
    """Return nanoseconds per unit of work, from the least of several timings each."""
    n_slots = _BLOCKS * BLOCK_SLOTS
    everywhere = np.zeros(n_slots, np.int32)
    # All clauses ask for [0.5, 0.6]: a value above marks them all, a value of 0.5 compares them all in its own cell.
    crowd = _index(everywhere, np.full(n_slots, 0.5), np.full(n_slots, 0.6), 1, buckets)
    # One clause per block and attribute, never marked by 0.5: nothing but switching.
    spread = np.full(n_slots, -1, np.int32)
    for block in range(_BLOCKS):
        spread[block * BLOCK_SLOTS : block * BLOCK_SLOTS + _ATTRIBUTES] = np.arange(_ATTRIBUTES)
    lonely = _index(spread, np.full(n_slots, 0.2), np.full(n_slots, 0.8), _ATTRIBUTES, buckets)
    word = _nanoseconds(crowd, 1, 0.55) / (n_slots / 64)
    rest = word * (n_slots / 64)
    mark = (_nanoseconds(crowd, 1, 0.9) - rest) / n_slots
    compare = (_nanoseconds(crowd, 1, 0.5) - rest) / n_slots
    switch = (_nanoseconds(lonely, _ATTRIBUTES, 0.5) - rest) / (_BLOCKS * _ATTRIBUTES)
    least = 1e-3
    return UnitCosts(max(compare, least), max(mark, least), max(switch, least), max(word, least))


def _index(attribute: np.ndarray, low: np.ndarray, high: np.ndarray, n_attributes: int, buckets: int) -> Rein:
    asked = attribute >= 0
    stop = np.cumsum(asked).astype(np.int64)
    rng = np.random.default_rng(1)
    # Bounds differ a little, within a cell: equal ones would be friendlier to the processor than real ones are.
    wobble = rng.random(int(asked.sum())) * 1e-9
    index = Rein(buckets=buckets)
    index.build(
        ClauseTable(stop - asked, stop, attribute[asked], low[asked] + wobble, high[asked] + wobble),
        Domains(np.zeros(n_attributes), np.ones(n_attributes)),
    )
    return index


def _nanoseconds(index: Rein, n_attributes: int, value: float) -> float:
    """Return the least processor time of one event that has this value everywhere."""
    events = EventColumns(
        np.arange(_EVENTS + 1, dtype=np.int64) * n_attributes,
        np.tile(np.arange(n_attributes, dtype=np.int32), _EVENTS),
        np.full(_EVENTS * n_attributes, value),
    )
    index.match_batch(events)
    times = []
    for _ in range(_REPEATS):
        begin = time.thread_time_ns()
        index.match_batch(events)
        times.append(time.thread_time_ns() - begin)
    return min(times) / _EVENTS
