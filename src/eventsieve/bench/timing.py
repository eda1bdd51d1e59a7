"""The timed part of a run: single events, batches and updates, all matchers in turns with the reference.

Matchers take turns every few events, in an order that rotates, so that a slow minute of the machine falls on all of
them alike; within a turn a matcher keeps its caches, as it would in use. Beside the elapsed time of a single event
stands the processor time of the matching thread, which other load on the machine inflates far less.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, thread_time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eventsieve.bench.check import single_event
from eventsieve.bench.reference import Reference
from eventsieve.index.index import Index
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload import Workload

T = TypeVar("T")

Notify = Callable[[str, float], None]
"""Told what is being done and the share of it that is done."""

_TURN = 20
"""Events a matcher runs before the next one has its turn."""
_UPDATED = 1000
"""Subscriptions inserted and deleted at a time."""
_UPDATE_ROUNDS = 7
"""The first of them may have to make room in every array; medians count."""


class EventTimes:
    """Milliseconds per repeat and event: elapsed, and of the processor."""

    def __init__(self, repeat: int, events: int) -> None:
        self.elapsed: NDArray[np.float64] = np.zeros((repeat, events))
        self.processor: NDArray[np.float64] = np.zeros((repeat, events))

    def take(self, repeat: int, e: int, call: Callable[[], T]) -> T:
        """Time one call."""
        processor = thread_time()
        begin = perf_counter()
        result = call()
        self.elapsed[repeat, e] = (perf_counter() - begin) * 1e3
        self.processor[repeat, e] = (thread_time() - processor) * 1e3
        return result


@dataclass
class Contestant:
    """A matcher that was built, with the times taken so far."""

    index: Index
    event_times: EventTimes
    batch_ms: list[float] = field(default_factory=list)
    insert_us: list[float] = field(default_factory=list)
    delete_us: list[float] = field(default_factory=list)
    matches: int = 0


def time_events(
    workload: Workload,
    contestants: Sequence[Contestant],
    reference: Reference,
    reference_times: EventTimes,
    threads: int,
    seed: int,
    notify: Notify,
) -> None:
    """Time every event with every contestant and with the reference, as often as their tables have rows."""
    repeats, n_events = reference_times.elapsed.shape
    columns = workload.event_arrays(n_events, seed)
    events = [single_event(workload, columns, e) for e in range(n_events)]
    rows = [reference.row(columns, e) for e in range(n_events)]

    def run_reference(repeat: int, e: int) -> None:
        reference_times.take(repeat, e, lambda: reference.scan(rows[e]))

    def runs(contestant: Contestant) -> Callable[[int, int], None]:
        def run_one(repeat: int, e: int) -> None:
            match_batch = contestant.index.match_batch
            ids = contestant.event_times.take(repeat, e, lambda: match_batch(events[e], threads=threads).ids)
            contestant.matches += ids.size if repeat == 0 else 0

        return run_one

    everyone = [run_reference, *(runs(contestant) for contestant in contestants)]
    turns = [(repeat, first) for repeat in range(repeats) for first in range(0, n_events, _TURN)]
    with _no_garbage_collection():
        for number, (repeat, first) in enumerate(turns):
            notify("timing single events", number / len(turns))
            for run_one in _rotated(everyone, number):
                for e in range(first, min(first + _TURN, n_events)):
                    run_one(repeat, e)


def time_batches(
    workload: Workload,
    contestants: Sequence[Contestant],
    batch: int,
    repeats: int,
    threads: int,
    seed: int,
    notify: Notify,
) -> None:
    """Time one batch with every contestant, `repeats` times."""
    events = workload.events(batch, seed)
    with _no_garbage_collection():
        for repeat in range(repeats):
            for number, contestant in enumerate(_rotated(contestants, repeat)):
                notify(f"timing batches of {batch}", (repeat + number / len(contestants)) / repeats)
                begin = perf_counter()
                ids = contestant.index.match_batch(events, threads=threads).ids
                contestant.batch_ms.append((perf_counter() - begin) * 1e3)
                del ids  # a large result must not be alive while the next one is made


def time_updates(workload: Workload, contestant: Contestant, seed: int) -> None:
    """Insert and delete a thousand new subscriptions in place, a few times."""
    for number in range(_UPDATE_ROUNDS):
        more = new_subscriptions(workload, workload.n + number * _UPDATED, _UPDATED, seed + number)
        ids = more.ids.tolist()
        begin = perf_counter()
        contestant.index.extend(more)
        inserted = perf_counter()
        contestant.index.remove_many(ids)
        deleted = perf_counter()
        contestant.insert_us.append((inserted - begin) * 1e6 / _UPDATED)
        contestant.delete_us.append((deleted - inserted) * 1e6 / _UPDATED)


def new_subscriptions(workload: Workload, first_id: int, count: int, seed: int) -> Subscriptions:
    """Draw subscriptions like the workload's, with ids from `first_id` on."""
    arrays = replace(workload, n=count).subscription_arrays(seed)
    ids = np.arange(first_id, first_id + count)
    return Subscriptions.from_arrays(workload.schema(), *arrays, ids=ids, texts=workload.texts() or None)


def least_processor_ms(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least processor time of several runs: what other load on the machine disturbs least."""
    times = []
    for _ in range(repeats):
        begin = thread_time()
        work()
        times.append(thread_time() - begin)
    return min(times) * 1e3


def _rotated(things: Sequence[T], by: int) -> list[T]:
    by %= max(1, len(things))
    return [*things[by:], *things[:by]]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
