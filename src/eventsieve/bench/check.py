"""Check an index against brute force, on events as drawn and on events aimed at subscriptions.

Some workloads match next to nothing (twenty narrow predicates): there a matcher that finds nothing would look right.
So half of the sample is made to hit: such an event takes the values of one subscription's own bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve.bench.truth import brute_force
from eventsieve.index.index import Index
from eventsieve.model.columns import EventColumns
from eventsieve.model.events import Events
from eventsieve.workload import SubscriptionArrays, Workload


class Sample:
    """Events with their true matches."""

    def __init__(self, workload: Workload, subscriptions: SubscriptionArrays, count: int, seed: int) -> None:
        drawn = workload.event_arrays(count, seed)
        self.columns = _aim(drawn, subscriptions, count // 2, seed)
        self.events = [single_event(workload, self.columns, e) for e in range(count)]
        self.batch = Events.from_arrays(workload.schema(), *self.columns, texts=workload.texts() or None)
        self.truth = [brute_force(subscriptions, self.columns, e, workload.d) for e in range(count)]

    def problem(self, index: Index, threads: int) -> str | None:
        """Return what is wrong with the index's answers, one event at a time and as a batch; None if nothing is."""
        together = index.match_batch(self.batch, threads=threads)
        for e, event in enumerate(self.events):
            alone = index.match_batch(event, threads=threads)
            from_batch = together.ids[together.event_start[e] : together.event_start[e + 1]]
            for form, ids in (("alone", alone.ids), ("in a batch", from_batch)):
                wrong = _difference(ids, self.truth[e], together.approximate)
                if wrong:
                    return f"event {e} of the check sample, matched {form}: {wrong}"
        return None

    def false_positive_share(self, index: Index) -> float | None:
        """Return the share of reported matches that are false; None if the index answers exactly."""
        found = index.match_batch(self.batch)
        if not found.approximate:
            return None
        true = sum(ids.size for ids in self.truth)
        return 1.0 - true / found.slots.size if found.slots.size else 0.0


def single_event(workload: Workload, columns: EventColumns, e: int) -> Events:
    """Return event e as a batch of its own."""
    carried = slice(int(columns.start[e]), int(columns.start[e + 1]))
    attribute, value = columns.attribute[carried], columns.value[carried].copy()
    schema, own_texts = workload.schema(), {}
    for name, texts in workload.texts().items():
        # Its own text only: a batch carries all texts it is given, and translates them when it is matched.
        for i in np.flatnonzero(attribute == schema.position(name)):
            own_texts[name] = [texts[int(value[i])]]
            value[i] = 0
    return Events.from_arrays(schema, [0, attribute.size], attribute, value, texts=own_texts)


def _aim(drawn: EventColumns, subscriptions: SubscriptionArrays, aimed: int, seed: int) -> EventColumns:
    """Give the last `aimed` events the values that some subscription asks for, at one of its bounds each."""
    rng = np.random.default_rng([seed, 4])
    n_events = drawn.start.size - 1
    rows = [
        dict(zip(drawn.attribute[a:b].tolist(), drawn.value[a:b].tolist(), strict=True))
        for a, b in zip(drawn.start[:-1], drawn.start[1:], strict=True)
    ]
    for row in rows[n_events - aimed :]:
        s = int(rng.integers(0, subscriptions.start.size - 1))
        for p in range(subscriptions.start[s], subscriptions.start[s + 1]):
            ends = [float(end) for end in (subscriptions.low[p], subscriptions.high[p]) if np.isfinite(end)]
            row[int(subscriptions.attribute[p])] = ends[int(rng.integers(0, len(ends)))]
    start = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    pairs = [pair for row in rows for pair in sorted(row.items())]
    return EventColumns(start, np.array([a for a, _ in pairs], np.int32), np.array([v for _, v in pairs], np.float64))


def _difference(ids: NDArray[np.int64], truth: NDArray[np.int64], approximate: bool) -> str | None:
    found = np.unique(ids)
    if found.size != ids.size:
        return f"{ids.size - found.size} ids are reported twice"
    lost = np.setdiff1d(truth, found, assume_unique=True)
    if lost.size:
        return f"{lost.size} of {truth.size} matches are lost, the first is subscription {lost[0]}"
    false = np.setdiff1d(found, truth, assume_unique=True)
    if false.size and not approximate:
        return f"{false.size} of {found.size} reported matches are false, the first is subscription {false[0]}"
    return None
