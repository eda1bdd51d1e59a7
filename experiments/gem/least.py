"""Least processor times of contestants that take turns: what a busy machine disturbs least."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from eventsieve.bench.reference import Reference
from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import EventColumns, slice_events
from eventsieve.workload import Workload

TURNS = 5


class Runs:
    """Contestants that match the same events one at a time, and the reference scan beside them."""

    def __init__(self, workload: Workload, n_events: int) -> None:
        self.columns: EventColumns = workload.event_arrays(n_events)
        self._single = [slice_events(self.columns, e, e + 1) for e in range(n_events)]
        reference = Reference(workload.subscription_arrays(), workload.d)
        rows = [reference.row(self.columns, e) for e in range(n_events)]
        self._runs: dict[str, Callable[[int], object]] = {"reference": lambda e: reference.scan(rows[e])}

    def add(self, name: str, matcher: Matcher) -> None:
        self._runs[name] = lambda e: matcher.match_batch(self._single[e])

    def print_times(self) -> None:
        """Print, per contestant, the mean over the events of the least time, in ms and as a multiple of the scan."""
        best = {name: np.full(len(self._single), np.inf) for name in self._runs}
        for _ in range(TURNS):
            for name, run in self._runs.items():
                for e in range(len(self._single)):
                    begin = time.thread_time()
                    run(e)
                    best[name][e] = min(best[name][e], time.thread_time() - begin)
        scan = best["reference"].mean()
        for name, times in best.items():
            print(f"{name:24} {1000 * times.mean():8.3f} ms  {times.mean() / scan:.4f}")
