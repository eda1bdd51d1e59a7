"""A broker under load, on a real clock: events are published when they are due, and each latency is noted.

The broker is the real one, in one process: input queue, one worker, outbox, sender, adjuster. The publisher sleeps
until the next event is due and publishes what is due by then. An event's latency counts from that moment, not from the
one when a late publisher came to it, and ends when the subscriber has the event with its matches.

The clock is the one on the wall, and stands still while the worker is ready to go on and other work on the machine has
the processor (Linux counts that). On a machine of its own the two are the same; on a shared one, latencies by the
wall alone would tell of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.broker import Broker, Delivery
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.model.events import Events
from eventsieve.workload import Workload, standard

Capacities: TypeAlias = dict[tuple[str, float], float]
MEASURED: Final = 256
"""Events that capacity is measured by."""
LEARNED: Final = 1000
"""Events that plans are made by: others than those that are matched later."""
BATCH: Final = 16
"""Events that are matched together, at most: with a million subscriptions, 256 of them would take a second."""
_QUEUE: Final = 100_000
_AFTER: Final = 1.5
"""Seconds without events in the end, in which F can come back to 0."""


def workloads(n: int) -> dict[str, Workload]:
    """EEM's prototype had 50 attributes of a stock trace: `ticks`. Its Table 3 had 500 attributes: `eem`."""
    return {
        "ticks, uniform attributes": standard("ticks", n=n, attribute_skew=0.0),
        "ticks, Zipf attributes 0.8": standard("ticks", n=n, attribute_skew=0.8),
        "eem, alpha 2": standard("eem", n=n, attribute_skew=2),
    }


def built(workload: Workload, matcher: str, elastic: ElasticSettings = OFF, **params: Any) -> es.Index:
    """Return an index; an elastic one has learned from events and has its plans ready."""
    if elastic.enabled:
        params["ladder"] = elastic.ladder
    index = es.build(workload.subscriptions(seed=1), matcher=matcher, share=False, **params)
    if index.matcher.capabilities.elastic:
        index.learn(workload.events(LEARNED, seed=3))
        for share in (0.0, *index.matcher.params["ladder"]):
            began = time.perf_counter()
            plan = index.skip_plan(share)
            print(f"{matcher}, F = {share:g}: planned in {time.perf_counter() - began:.1f} s, gain {plan.gain:.1%}")
    return index


def capacities(
    indexes: Mapping[str, es.Index], shares: Mapping[str, Sequence[float]], events: Events, turns: int
) -> Capacities:
    """Return the events per second that a broker carries, for every matcher and its values of F.

    All events are due at once, and what counts is the time until the last is delivered: with everything that a broker
    does besides matching. They are published one by one, as they are at a constant rate, because to join single events
    to a batch takes time too: a tenth of what Spare-REIN takes to match them. The first index is the measure: the
    others are medians of their ratio to it in each turn, times its own median.
    """
    seen: dict[tuple[str, float], list[float]] = {(name, share): [] for name in indexes for share in shares[name]}
    at_once = np.zeros(len(events))
    for turn in range(turns + 1):
        for (name, share), carried in seen.items():
            rate = len(events) / run(indexes[name], events, at_once, fixed_share=share).latency.max()
            if turn:
                carried.append(rate)
    base = next(iter(seen.values()))
    return {
        key: median(base) * median(own / its for own, its in zip(rates, base, strict=True))
        for key, rates in seen.items()
    }


class OwnClock:
    """Seconds on the wall, less those that a thread has waited for a processor since it is watched."""

    def __init__(self) -> None:
        self._counters: Path | None = None
        self._before = 0.0
        self._latest = 0.0

    def watch(self, thread: str) -> None:
        """Watch the thread of this process that has this name."""
        (found,) = (each for each in threading.enumerate() if thread in each.name)
        self._counters = Path(f"/proc/self/task/{found.native_id}/schedstat")
        self._before = self.waited

    @property
    def waited(self) -> float:
        return 0.0 if self._counters is None else int(self._counters.read_text().split()[1]) / 1e9

    def __call__(self) -> float:
        # A wait is counted when it ends, and the clock must not go back then.
        self._latest = max(self._latest, time.monotonic() - (self.waited - self._before))
        return self._latest

    def sleep_until(self, moment: float) -> None:
        while (left := moment - self()) > 0:
            time.sleep(left)


@dataclass
class Run:
    """What happened to each event, by its number."""

    latency: NDArray[np.float64]
    share: NDArray[np.float64]
    """F that it was matched with."""
    reported: NDArray[np.int64]
    last_share: float
    """F a second after the last event."""
    late: float
    """Seconds that the publisher was late, at most."""


class Subscriber:
    """A sink that notes when each event came, and with how many matches."""

    def __init__(self, n_events: int, clock: OwnClock) -> None:
        self.came, self.share = np.full(n_events, np.nan), np.zeros(n_events)
        self.reported = np.zeros(n_events, np.int64)
        self.clock = clock
        self.broker: Broker | None = None

    def send(self, deliveries: Sequence[Delivery]) -> None:
        now = self.clock()
        in_force = self.broker.adjuster.false_positive if self.broker is not None else 0.0
        for each in deliveries:
            number = int(each.event_id)
            self.came[number], self.reported[number] = now, len(each.subscriptions)
            # A delivery without an approximate match does not say what F it was matched with.
            self.share[number] = each.false_positive or in_force

    def flush(self) -> None: ...
    def close(self) -> None: ...


def run(
    index: es.Index,
    events: Events,
    arrival: NDArray[np.float64],
    elastic: ElasticSettings = OFF,
    fixed_share: float = 0.0,
) -> Run:
    """Publish events at these moments; without `elastic`, F stays as it is given."""
    clock = OwnClock()
    subscriber = Subscriber(len(events), clock)
    broker = Broker(index, elastic=elastic, batch=BATCH, queue=_QUEUE, clock=clock)
    if not elastic.enabled:
        broker.adjuster.false_positive = fixed_share
    subscriber.broker = broker
    broker.attach(subscriber, everything=True, when_full="block")
    with broker:
        clock.watch("worker 0")
        begin = clock() + 0.1
        late = publish(broker, events, begin + arrival, clock)
        broker.drain()
        time.sleep(_AFTER if elastic.enabled else 0.0)
        last_share = broker.adjuster.false_positive
    return Run(subscriber.came - begin - arrival, subscriber.share, subscriber.reported, last_share, late)


def publish(broker: Broker, events: Events, due: NDArray[np.float64], clock: OwnClock) -> float:
    """Publish each event when it is due; return how late the latest was."""
    late, done = 0.0, 0
    while done < due.size:
        clock.sleep_until(due[done])
        now = clock()
        stop = int(np.searchsorted(due, now, "right"))
        late = max(late, float(now - due[done]))
        for number in range(done, stop):
            broker.publish_batch(events.part(number, number + 1), ids=[number])
        done = stop
    return late
