"""The runner: build every matcher, check it, time all of them interleaved with the reference, record.

`mean_ms` is `match_batch` of one event with ids delivered, each event timed once; `batch_ms_per_event` is one batch.
Matchers take turns every few events, in an order that rotates, so that a slow minute of the machine falls on all of
them alike; within a turn a matcher keeps its caches, as it would in use.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve.bench.check import Sample, single_event
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.bench.record import Record
from eventsieve.bench.reference import Reference
from eventsieve.index.index import Index, build
from eventsieve.model.events import Events
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload import Workload

_TURN = 20
"""Events a matcher runs before the next one has its turn."""
_UPDATED = 1000
"""Subscriptions inserted and deleted at a time, and how often."""
_UPDATE_ROUNDS = 3
_WARM_UP = 2000
"""Subscriptions of the small index that makes every kernel compile before anything is timed."""

Notify = Callable[[str, float], None]
"""Told what is being done and the share of the whole run that is done."""


@dataclass(frozen=True)
class Entry:
    """A matcher to run and the parameters it gets."""

    matcher: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    workload: Workload
    entries: tuple[Entry, ...]
    events: int = 200
    batch: int = 512
    threads: int = 1
    repeat: int = 1
    """How often every event and batch is timed; the median over the repeats counts."""
    seed: int = 1
    checked_events: int = 10


@dataclass
class _Runner:
    """A matcher that was built, with the times taken so far."""

    entry: Entry
    index: Index
    build_s: float
    problem: str | None
    false_positive_share: float | None
    event_ms: NDArray[np.float64]  # (repeat, events)
    batch_ms: NDArray[np.float64]  # (repeat,)
    matches: int = 0
    insert_us: list[float] = field(default_factory=list)
    delete_us: list[float] = field(default_factory=list)


def run(plan: Plan, notify: Notify = lambda doing, share: None) -> list[Record]:
    """Measure every entry of the plan and return a record for each, in the plan's order."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    workload = plan.workload
    notify(f"drawing {workload.n:,} subscriptions", 0.0)
    arrays = workload.subscription_arrays(plan.seed)
    subscriptions = Subscriptions.from_arrays(workload.schema(), *arrays, texts=workload.texts() or None)
    reference = Reference(arrays, workload.d)
    sample = Sample(workload, arrays, plan.checked_events, plan.seed + 1)
    _check_reference(reference, sample)
    runners = []
    for number, entry in enumerate(plan.entries):
        notify(f"building and checking {entry.matcher}", 0.1 + 0.4 * number / len(plan.entries))
        runners.append(_built(plan, entry, subscriptions, sample))
    right = [runner for runner in runners if runner.problem is None]
    reference_ms = _time_events(plan, right, reference, notify)
    _time_batches(plan, right, notify)
    for number, runner in enumerate(right):
        notify(f"inserting and deleting with {runner.entry.matcher}", 0.9 + 0.1 * number / len(right))
        _time_updates(plan, runner)
    notify("done", 1.0)
    return [_record(plan, runner, reference_ms, started) for runner in runners]


def _built(plan: Plan, entry: Entry, subscriptions: Subscriptions, sample: Sample) -> _Runner:
    _warm_up(plan, entry)
    begin = perf_counter()
    index = build(subscriptions, matcher=entry.matcher, **entry.params)
    build_s = perf_counter() - begin
    problem = sample.problem(index, plan.threads)
    event_ms, batch_ms = np.zeros((plan.repeat, plan.events)), np.zeros(plan.repeat)
    return _Runner(entry, index, build_s, problem, sample.false_positive_share(index), event_ms, batch_ms)


def _warm_up(plan: Plan, entry: Entry) -> None:
    """Do everything once on few subscriptions, so that no compilation is timed."""
    small = replace(plan.workload, n=min(plan.workload.n, _WARM_UP))
    index = build(small.subscriptions(plan.seed), matcher=entry.matcher, **entry.params)
    index.match_batch(small.events(4, plan.seed), threads=plan.threads)
    more = _new_subscriptions(small, small.n, 10, plan.seed)
    index.extend(more)
    index.remove_many(more.ids.tolist())


def _time_events(plan: Plan, runners: list[_Runner], reference: Reference, notify: Notify) -> NDArray[np.float64]:
    """Time every event with every runner and with the reference; return the reference's times."""
    columns = plan.workload.event_arrays(plan.events, plan.seed)
    events = [single_event(plan.workload, columns, e) for e in range(plan.events)]
    rows = [reference.row(columns, e) for e in range(plan.events)]
    reference_ms = np.zeros((plan.repeat, plan.events))

    def time_reference(repeat: int, e: int) -> None:
        begin = perf_counter()
        reference.scan(rows[e])
        reference_ms[repeat, e] = (perf_counter() - begin) * 1e3

    def time_runner(runner: _Runner) -> Callable[[int, int], None]:
        def time_one(repeat: int, e: int) -> None:
            begin = perf_counter()
            ids = runner.index.match_batch(events[e], threads=plan.threads).ids
            runner.event_ms[repeat, e] = (perf_counter() - begin) * 1e3
            runner.matches += ids.size if repeat == 0 else 0

        return time_one

    contestants = [time_reference, *(time_runner(runner) for runner in runners)]
    turns = [(repeat, first) for repeat in range(plan.repeat) for first in range(0, plan.events, _TURN)]
    with _no_collection():
        for number, (repeat, first) in enumerate(turns):
            notify("timing single events", 0.5 + 0.3 * number / len(turns))
            for contestant in _rotated(contestants, number):
                for e in range(first, min(first + _TURN, plan.events)):
                    contestant(repeat, e)
    return reference_ms


def _time_batches(plan: Plan, runners: list[_Runner], notify: Notify) -> None:
    batch = plan.workload.events(plan.batch, plan.seed + 2)
    with _no_collection():
        for repeat in range(plan.repeat):
            notify(f"timing batches of {plan.batch}", 0.8 + 0.1 * repeat / plan.repeat)
            for runner in _rotated(runners, repeat):
                runner.batch_ms[repeat] = _timed_batch(runner.index, batch, plan.threads)


def _timed_batch(index: Index, batch: Events, threads: int) -> float:
    begin = perf_counter()
    ids = index.match_batch(batch, threads=threads).ids
    elapsed = perf_counter() - begin
    del ids
    return elapsed * 1e3


def _time_updates(plan: Plan, runner: _Runner) -> None:
    for number in range(_UPDATE_ROUNDS):
        more = _new_subscriptions(plan.workload, plan.workload.n + number * _UPDATED, _UPDATED, plan.seed + 3 + number)
        ids = more.ids.tolist()
        begin = perf_counter()
        runner.index.extend(more)
        inserted = perf_counter()
        runner.index.remove_many(ids)
        deleted = perf_counter()
        runner.insert_us.append((inserted - begin) * 1e6 / _UPDATED)
        runner.delete_us.append((deleted - inserted) * 1e6 / _UPDATED)


def _new_subscriptions(workload: Workload, first_id: int, count: int, seed: int) -> Subscriptions:
    arrays = replace(workload, n=count).subscription_arrays(seed + 1000)
    ids = np.arange(first_id, first_id + count)
    return Subscriptions.from_arrays(workload.schema(), *arrays, ids=ids, texts=workload.texts() or None)


def _check_reference(reference: Reference, sample: Sample) -> None:
    """The yardstick itself must be right; a wrong one is a defect of ours, not a finding."""
    for e, truth in enumerate(sample.truth):
        found = reference.scan(reference.row(sample.columns, e))
        if not np.array_equal(found, truth):
            raise AssertionError(f"the reference scan differs from brute force at event {e}; please report this")


def _record(plan: Plan, runner: _Runner, reference_ms: NDArray[np.float64], started: str) -> Record:
    workload, index = plan.workload, runner.index
    width = workload.effective_width
    params = index.matcher.params
    if runner.entry.matcher != index.matcher.name:
        params = {"matcher": index.matcher.name, **params}  # what "auto" chose
    params = json.loads(json.dumps(params, default=str))  # a parameter may be an object; a record holds plain values
    record = Record(
        workload=workload.name, n=workload.n, matcher=runner.entry.matcher, params=params, threads=plan.threads,
        batch=plan.batch, events=plan.events, seed=plan.seed, build_s=round(runner.build_s, 4),
        index_bytes=int(index.describe()["index_bytes"]), checked=runner.problem is None, commit=commit(),
        cpu=cpu_name(), versions=versions(), workload_params=workload.parameters(), width=str(width), started=started,
        repeat=plan.repeat, false_positive_share=runner.false_positive_share, problem=runner.problem,
    )  # fmt: skip
    if runner.problem is None:
        _fill_times(record, plan, runner, reference_ms)
    return record


def _fill_times(record: Record, plan: Plan, runner: _Runner, reference_ms: NDArray[np.float64]) -> None:
    per_event = np.median(runner.event_ms, axis=0)
    record.mean_ms = float(per_event.mean())
    record.p50_ms, record.p95_ms = (float(share) for share in np.percentile(per_event, (50, 95)))
    record.batch_ms_per_event = float(np.median(runner.batch_ms)) / plan.batch
    record.reference_ms = float(np.median(reference_ms, axis=0).mean())
    record.times_reference = record.mean_ms / record.reference_ms
    record.batch_times_reference = record.batch_ms_per_event / record.reference_ms
    record.matches_per_event = runner.matches / plan.events
    record.insert_us, record.delete_us = float(np.median(runner.insert_us)), float(np.median(runner.delete_us))
    record.raw = {
        "event_ms": runner.event_ms.ravel().round(5).tolist(),
        "reference_ms": reference_ms.ravel().round(5).tolist(),
        "batch_ms": runner.batch_ms.round(5).tolist(),
        "insert_us": [round(time, 4) for time in runner.insert_us],
        "delete_us": [round(time, 4) for time in runner.delete_us],
    }


def _rotated(things: list[Any], by: int) -> list[Any]:
    by %= max(1, len(things))
    return things[by:] + things[:by]


class _no_collection:
    """Keep the garbage collector out of the timed part."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
