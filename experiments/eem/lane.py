"""A broker's worker on a clock of its own: its engine, its batches, its adjuster, and work that takes its usual time.

Latencies of a shared machine say more about its other load than about a matcher. So the time that matching an event
takes is measured first, by processor time, all matchers and all values of F in turns. Then events arrive by a plan,
the worker takes what has arrived (256 at most, as the broker does), and the clock goes on by the time that was
measured. Everything else is the broker's own: `Engine` matches and makes ids, `Adjuster` decides about F.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.broker import BATCH
from eventsieve.broker.engine import Engine
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.model.events import Events
from eventsieve.workload import Workload, standard

Costs: TypeAlias = dict[tuple[str, float], float]
MEASURED = 64
"""Events in a batch that is timed."""
LEARNED = 1000
"""Events that plans are made by: others than those that are matched later."""


def workloads(n: int) -> dict[str, Workload]:
    """EEM's prototype had 50 attributes of a stock trace: `ticks`. Its Table 3 had 500 attributes: `eem`."""
    return {
        "ticks, uniform attributes": standard("ticks", n=n, attribute_skew=0.0),
        "ticks, Zipf attributes 0.8": standard("ticks", n=n, attribute_skew=0.8),
        "ticks as it is, 1.5": standard("ticks", n=n),
        "eem, alpha 2": standard("eem", n=n, attribute_skew=2),
    }


def built(workload: Workload, matcher: str, elastic: ElasticSettings = OFF, **params: Any) -> es.Index:
    """Return an index; an elastic one has learned from events and has its plans ready."""
    if elastic.enabled:
        params["ladder"] = elastic.ladder
    index = es.build(workload.subscriptions(seed=1), matcher=matcher, share=False, **params)
    if index.matcher.capabilities.elastic:
        index.learn(workload.events(LEARNED, seed=3))
        index.skip_plan(0.0)
        for share in index.matcher.params["ladder"]:
            index.skip_plan(share)
    return index


@dataclass
class Run:
    """What happened to each event, by its number."""

    latency: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    """F that it was matched with."""
    reported: list[int] = field(default_factory=list)

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        return np.array(self.latency), np.array(self.share), np.array(self.reported)


def costs(engines: Mapping[str, Engine], shares: Mapping[str, Sequence[float]], events: Events, turns: int) -> Costs:
    """Return seconds of processor time per event, for every matcher and its values of F, from turns over the events.

    The first engine is the measure: the others are medians of their ratio to it in each turn, times its own median.
    """
    parts = [events.part(first, first + MEASURED) for first in range(0, len(events), MEASURED)]
    taken: dict[tuple[str, float], list[float]] = {(name, share): [] for name in engines for share in shares[name]}
    for turn in range(turns + 1):
        for (name, share), times in taken.items():
            part = parts[turn % len(parts)]
            begin = time.thread_time()
            engines[name].match([part], share)
            if turn:
                times.append((time.thread_time() - begin) / len(part))
    base = next(iter(taken.values()))
    return {key: median(base) * median(a / b for a, b in zip(times, base, strict=True)) for key, times in taken.items()}


def run(
    index: es.Index,
    events: Events,
    arrival: NDArray[np.float64],
    seconds: Mapping[float, float],
    elastic: ElasticSettings = OFF,
) -> Run:
    """Match events that arrive at these moments; `seconds` says how long one takes, by F."""
    engine, adjuster, found = Engine(index, 0, elastic), Adjuster(elastic, 0.0), Run()
    now, done = 0.0, 0
    while done < arrival.size:
        if arrival[done] > now:
            now = float(arrival[done])
            adjuster.idle(now)
        stop = min(int(np.searchsorted(arrival, now, "right")), done + BATCH)
        adjuster.observe(float((now - arrival[done:stop]).sum()), stop - done, now)
        share = adjuster.false_positive
        matched = engine.match([events.part(done, stop)], share)
        now += seconds[share] * (stop - done)
        found.latency += (now - arrival[done:stop]).tolist()
        found.share += [share] * (stop - done)
        found.reported += np.diff(matched.event_start).tolist()
        done = stop
    return found
