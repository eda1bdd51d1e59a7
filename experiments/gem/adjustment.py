"""What adjustment is worth: every order of attributes before and after `adjust()`, as multiples of the reference scan.

    python experiments/gem/adjustment.py --workload gem --n 200000 --set attribute_skew=1

The paper gains 16 % by its global order. Each time is the least processor time of several turns, one event at a time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import eventsieve as es
from eventsieve.bench.reference import Reference
from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import EventColumns, slice_events
from eventsieve.workload import standard

EVENTS, SEEN, TURNS = 40, 1000, 5
ORDERS = ("cell", "rank", "sum", "normalised")


def least(runs: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Return, per contestant, the mean over the events of the least processor time; they take turns."""
    best = {name: np.full(EVENTS, np.inf) for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            for e in range(EVENTS):
                begin = time.thread_time()
                run(e)
                best[name][e] = min(best[name][e], time.thread_time() - begin)
    return {name: float(times.mean()) for name, times in best.items()}


def run_of(matcher: Matcher, single: list[EventColumns]) -> Callable[[int], object]:
    return lambda e: matcher.match_batch(single[e])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="gem")
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    workload = standard(asked.workload, n=asked.n, **dict(setting.split("=") for setting in asked.set))
    columns = workload.event_arrays(EVENTS)
    single = [slice_events(columns, e, e + 1) for e in range(EVENTS)]
    reference = Reference(workload.subscription_arrays(), workload.d)
    rows = [reference.row(columns, e) for e in range(EVENTS)]
    subscriptions = workload.subscriptions()
    runs: dict[str, Callable[[int], object]] = {"reference": lambda e: reference.scan(rows[e])}
    for order in ORDERS:
        runs[order] = run_of(es.build(subscriptions, matcher="gem-tree", order=order).matcher, single)
        index = es.build(subscriptions, matcher="gem-tree", order=order)
        index.match_batch(workload.events(SEEN, seed=2))
        index.adjust()
        runs[f"{order}, adjusted"] = run_of(index.matcher, single)
    times = least(runs)
    print(f"{asked.workload}, n = {asked.n}, {' '.join(asked.set)}: reference {1000 * times['reference']:.3f} ms")
    for name, spent in times.items():
        print(f"{name:22} {spent / times['reference']:.3f}")


if __name__ == "__main__":
    main()
