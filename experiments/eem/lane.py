"""A broker's worker in processor time: its engine, its batches and its adjuster, on a clock that only work moves.

Latencies of a loaded machine say more about its other load than about a matcher. Here events arrive by a plan, the
worker takes what has arrived (256 at most, as the broker does), and the clock goes on by the processor time that
matching took. Everything else is the broker's own: `Engine` matches and makes ids, `Adjuster` decides about F.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.broker import BATCH
from eventsieve.broker.engine import Engine
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.model.events import Events
from eventsieve.workload import Workload, standard

LEARNED = 1000
"""Events that plans are made by: others than those that are matched later."""


def workloads(n: int) -> dict[str, Workload]:
    """EEM's prototype had 50 attributes of a stock trace: `ticks`. Its Table 3 had 500 attributes: `eem`."""
    return {
        "ticks, uniform attributes": standard("ticks", n=n, attribute_skew=0.0),
        "ticks, Zipf attributes": standard("ticks", n=n, attribute_skew=0.8),
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


def run(index: es.Index, events: Events, arrival: NDArray[np.float64], elastic: ElasticSettings = OFF) -> Run:
    """Match events that arrive at these moments, in seconds."""
    engine, adjuster, found = Engine(index, 0, elastic), Adjuster(elastic, 0.0), Run()
    engine.warm_up()
    now, done = 0.0, 0
    while done < arrival.size:
        if arrival[done] > now:
            now = float(arrival[done])
            adjuster.idle(now)
        stop = min(int(np.searchsorted(arrival, now, "right")), done + BATCH)
        adjuster.observe(float((now - arrival[done:stop]).sum()), stop - done, now)
        share = adjuster.false_positive
        begin = time.thread_time()
        matched = engine.match([events.part(done, stop)], share)
        now += time.thread_time() - begin
        found.latency += (now - arrival[done:stop]).tolist()
        found.share += [share] * (stop - done)
        found.reported += np.diff(matched.event_start).tolist()
        done = stop
    return found
