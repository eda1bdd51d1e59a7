"""The runner: draw a workload, build every matcher, check it against brute force, time it, record.

`mean_ms` is `match_batch` of one event with ids delivered, each event timed once; `batch_ms_per_event` is one batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np

from eventsieve.bench.check import Sample
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.bench.record import Record
from eventsieve.bench.reference import Reference
from eventsieve.bench.timing import (
    Contestant,
    EventTimes,
    Notify,
    new_subscriptions,
    time_batches,
    time_events,
    time_updates,
)
from eventsieve.index.index import build
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload import Workload

_WARM_UP = 2000
"""Subscriptions of the small index that makes every kernel compile before anything is timed."""
_OTHER_SEEDS = 1000
"""Added to the seed for draws that must differ from the timed events and the subscriptions."""


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


def run(plan: Plan, notify: Notify = lambda doing, share: None) -> list[Record]:
    """Measure every entry of the plan and return a record for each, in the plan's order."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    workload, seed = plan.workload, plan.seed
    notify(f"drawing {workload.n:,} subscriptions", 0.0)
    arrays = workload.subscription_arrays(seed)
    subscriptions = Subscriptions.from_arrays(workload.schema(), *arrays, texts=workload.texts() or None)
    reference = Reference(arrays, workload.d)
    sample = Sample(workload, arrays, plan.checked_events, seed + _OTHER_SEEDS)
    _check_reference(reference, sample)
    records, contestants = [], []
    for number, entry in enumerate(plan.entries):
        notify(f"building and checking {entry.matcher}", 0.1 + 0.4 * number / len(plan.entries))
        contestant, record = _built(plan, entry, subscriptions, sample, started)
        records.append(record)
        contestants.append(contestant)
    right = [contestant for contestant, record in zip(contestants, records, strict=True) if record.checked]
    reference_times = EventTimes(plan.repeat, plan.events)
    time_events(workload, right, reference, reference_times, plan.threads, seed, _part(notify, 0.5, 0.8))
    batch_seed = seed + _OTHER_SEEDS + 1
    time_batches(workload, right, plan.batch, plan.repeat, plan.threads, batch_seed, _part(notify, 0.8, 0.9))
    for contestant, record in zip(contestants, records, strict=True):
        if record.checked:
            notify(f"inserting and deleting with {record.matcher}", 0.9)
            time_updates(workload, contestant, seed + _OTHER_SEEDS + 2)
            _fill_times(record, contestant, reference_times)
    notify("done", 1.0)
    return records


def _built(
    plan: Plan, entry: Entry, subscriptions: Subscriptions, sample: Sample, started: str
) -> tuple[Contestant, Record]:
    """Build and check one entry; the record has everything but the times."""
    _warm_up(plan, entry)
    begin = perf_counter()
    index = build(subscriptions, matcher=entry.matcher, **entry.params)
    build_s = perf_counter() - begin
    problem = sample.problem(index, plan.threads)
    params = index.matcher.params
    if entry.matcher != index.matcher.name:
        params = {"matcher": index.matcher.name, **params}  # what "auto" chose
    workload = plan.workload
    record = Record(
        workload=workload.name,
        n=workload.n,
        matcher=entry.matcher,
        params=json.loads(json.dumps(params, default=str)),  # a parameter may be an object; a record holds plain values
        threads=plan.threads,
        batch=plan.batch,
        events=plan.events,
        repeat=plan.repeat,
        seed=plan.seed,
        build_s=build_s,
        index_bytes=int(index.describe()["index_bytes"]),
        checked=problem is None,
        problem=problem,
        false_positive_share=sample.false_positive_share(index),
        workload_params=workload.parameters(),
        width=str(workload.effective_width),
        started=started,
        commit=commit(),
        cpu=cpu_name(),
        versions=versions(),
    )
    return Contestant(index, EventTimes(plan.repeat, plan.events)), record


def _warm_up(plan: Plan, entry: Entry) -> None:
    """Do everything once on few subscriptions, so that no compilation is timed."""
    small = replace(plan.workload, n=min(plan.workload.n, _WARM_UP))
    index = build(small.subscriptions(plan.seed), matcher=entry.matcher, **entry.params)
    index.match_batch(small.events(4, plan.seed), threads=plan.threads)
    more = new_subscriptions(small, small.n, 10, plan.seed + _OTHER_SEEDS)
    index.extend(more)
    index.remove_many(more.ids.tolist())


def _check_reference(reference: Reference, sample: Sample) -> None:
    """Refuse a yardstick that is wrong itself: that is a defect of ours, not a finding."""
    for e, truth in enumerate(sample.truth):
        found = reference.scan(reference.row(sample.columns, e))
        if not np.array_equal(found, truth):
            raise AssertionError(f"the reference scan differs from brute force at event {e}; please report this")


def _fill_times(record: Record, contestant: Contestant, reference_times: EventTimes) -> None:
    times = contestant.event_times
    per_event = np.median(times.elapsed, axis=0)
    record.mean_ms = float(per_event.mean())
    record.p50_ms, record.p95_ms = (float(share) for share in np.percentile(per_event, (50, 95)))
    record.reference_ms = float(np.median(reference_times.elapsed, axis=0).mean())
    record.times_reference = record.mean_ms / record.reference_ms
    record.processor_ms = float(np.median(times.processor, axis=0).mean())
    record.reference_processor_ms = float(np.median(reference_times.processor, axis=0).mean())
    record.batch_ms_per_event = float(np.median(contestant.batch_ms)) / record.batch
    record.batch_times_reference = record.batch_ms_per_event / record.reference_ms
    record.matches_per_event = contestant.matches / record.events
    record.insert_us = float(np.median(contestant.insert_us))
    record.delete_us = float(np.median(contestant.delete_us))
    record.raw = {
        "event_ms": times.elapsed.ravel().round(5).tolist(),
        "event_processor_ms": times.processor.ravel().round(5).tolist(),
        "reference_ms": reference_times.elapsed.ravel().round(5).tolist(),
        "reference_processor_ms": reference_times.processor.ravel().round(5).tolist(),
        "batch_ms": contestant.batch_ms,
        "insert_us": contestant.insert_us,
        "delete_us": contestant.delete_us,
    }


def _part(notify: Notify, first: float, last: float) -> Notify:
    """Let a part of the run report its own share of the whole."""
    return lambda doing, share: notify(doing, first + (last - first) * share)
