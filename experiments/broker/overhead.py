"""What the broker costs beside bare matching, and how long an event takes when there is little to do.

    python experiments/broker/overhead.py [WORKLOAD N MATCHER]     # bop 100000 rein, unless told otherwise

Processor time of all threads per event, bare and through the broker in turns, medians of seven rounds: on a machine
with other work on it, processor time says more than the clock. Latencies are by the clock, at 200 events a second.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import eventsieve as es
from eventsieve.broker import Broker, Delivery
from eventsieve.index.index import Index
from eventsieve.model.events import Events
from eventsieve.workload import standard

ROUNDS = 7
PUBLISHED_AT_ONCE = 256
LATENCIES_OF = 512
PAUSE = 0.005


class Nowhere:
    """A sink that costs nothing."""

    def send(self, deliveries: Sequence[Delivery]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def bare(index: Index, events: Any, batch: int) -> float:
    began = time.process_time()
    for first in range(0, len(events), batch):
        part = (
            events.part(first, min(first + batch, len(events)))
            if isinstance(events, Events)
            else events[first : first + batch]
        )
        _ = index.match_batch(part).ids
    return time.process_time() - began


def through_broker(index: Index, events: Any, batch: int) -> float:
    broker = Broker(index, batch=batch)
    broker.attach(Nowhere(), everything=True, when_full="block")
    with broker:
        began = time.process_time()
        if isinstance(events, Events):
            for first in range(0, len(events), PUBLISHED_AT_ONCE):
                broker.publish_batch(events.part(first, first + PUBLISHED_AT_ONCE))
        else:
            for event in events:
                broker.publish(event)
        broker.drain()
        return time.process_time() - began


def latency(index: Index, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    broker = Broker(index)
    broker.attach(Nowhere(), everything=True)
    with broker:
        for row in rows[:LATENCIES_OF]:
            broker.publish(row)
            time.sleep(PAUSE)
    return broker.stats().latency.as_milliseconds()


def main(workload: str = "bop", n: str = "100000", matcher: str = "rein") -> None:
    drawn = standard(workload, n=int(n))
    index = es.build(drawn.subscriptions(), matcher=matcher)
    columns = drawn.events(2048)
    rows = [columns[e] for e in range(512)]
    print(
        f"{workload}, n = {n}, {matcher}: {index.match_batch(columns).slots.size / len(columns):.1f} matches per event"
    )
    timed: dict[tuple[str, int, str], list[float]] = {}
    for round_ in range(ROUNDS + 1):  # the first one loads compiled code and does not count
        for form, events in (("columns", columns), ("dicts", rows)):
            for batch in (256, 16, 1) if form == "dicts" else (256, 16):
                measure: dict[str, Callable[[], float]] = {
                    "bare": partial(bare, index, events, batch),
                    "broker": partial(through_broker, index, events, batch),
                }
                for who, run in measure.items():
                    spent = run() / len(events) * 1e6
                    if round_:
                        timed.setdefault((form, batch, who), []).append(spent)
    for (form, batch, who), spent in timed.items():
        spread = f"{min(spent):.0f} to {max(spent):.0f}"
        print(f"{form:8s} batches of {batch:3d}  {who:6s} {statistics.median(spent):7.1f} us/event  ({spread})")
    print("latency in ms at 200 events/s:", latency(index, rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
