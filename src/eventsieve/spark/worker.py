"""What runs inside Spark's Python workers: open a shard once, keep it, match Arrow batches against it.

Workers live longer than tasks, so the cache of open shards is a variable of this module. An index that follows a
catalog is brought to a newer version in place, by the steps between the two; only an older version opens the snapshot
again.
"""

from __future__ import annotations

import os
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.elastic.audit import Audit, chosen_events
from eventsieve.errors import DataError, SnapshotError
from eventsieve.index.index import Index
from eventsieve.index.matches import Matches
from eventsieve.index.storage import load
from eventsieve.model.events import Events
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadWarning
from eventsieve.spark.published import IdType, Published, check_size, file_checksum
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark import Accumulator

SHARD: Final = "_eventsieve_shard"
"""Column that says which shard a row is to meet, where subscriptions are spread."""
APPROXIMATE: Final = "_eventsieve_approximate"

_EVENTS_AT_ONCE: Final = 4096
_PAIRS_AT_ONCE: Final = 1 << 20
"""Bounds on one batch of results: a popular event can match a large part of a million subscriptions."""
_OPEN_SHARDS: Final = 8
"""Shards that stay open beyond those in use; their pages are the kernel's to take back."""


@dataclass(frozen=True)
class Step:
    """The net changes from one catalog version to a later one."""

    after: int
    until: int
    removed: tuple[Id, ...]
    added: tuple[tuple[Id, str], ...]

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)


class Counters(NamedTuple):
    """Sums over all tasks, for progress. A task that ran twice is counted twice."""

    events: Accumulator[int]
    matches: Accumulator[int]
    malformed: Accumulator[int]
    seconds: Accumulator[float]
    approximate: Accumulator[int]
    """Matches that may be false."""
    audit: Accumulator[Audit]


class AuditSum:
    """How Spark adds audits up: an AccumulatorParam, without importing Spark for it."""

    def zero(self, value: Audit) -> Audit:
        return Audit()

    def addInPlace(self, value1: Audit, value2: Audit) -> Audit:
        return Audit.total((value1, value2))


@dataclass(frozen=True)
class Task:
    """What a worker needs to know to match batches."""

    index: Published
    keys: tuple[str, ...]
    output: Literal["pairs", "arrays"]
    malformed: Literal["fail", "skip"]
    steps: tuple[Step, ...] = ()
    sharded: bool = False
    unreadable: str | None = None
    """Column with the raw text of records that could not be read, null for good ones."""
    counters: Counters | None = None
    false_positive: float = 0.0
    """F, for elastic matchers: the share of the matches that may be false."""
    audit: float = 0.0
    """Share of the events that are matched exactly as well, to count what is false."""
    seed: int = 0
    """Says which events those are."""


def match_batches(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Match Arrow batches of events and yield batches of matches."""
    for batch in batches:
        for first in range(0, batch.num_rows, _EVENTS_AT_ONCE):
            part = batch.slice(first, _EVENTS_AT_ONCE)
            if task.sharded:
                number_of_row = part.column(SHARD).to_numpy(zero_copy_only=False)
                for number in np.unique(number_of_row).tolist():
                    yield from _match(task, part.filter(pa.array(number_of_row == number)), [number])
            else:
                yield from _match(task, part, list(range(len(task.index.shards))))


def _match(task: Task, batch: pa.RecordBatch, numbers: list[int]) -> Iterator[pa.RecordBatch]:
    events, row_of_event = read_events(task, batch)
    shards = [opened(task.index, number, task.steps) for number in numbers]
    began = time.perf_counter()
    found = _found(events, row_of_event, shards, task.false_positive)
    audited = _audited(task, batch, row_of_event, shards) if task.audit and task.false_positive else None
    if task.counters is not None:
        # With spread subscriptions every event comes once per shard; the first shard counts it.
        counted = numbers[0] == 0
        task.counters.approximate.add(int(found.approximate.sum()))
        if audited is not None:
            task.counters.audit.add(audited)
        task.counters.seconds.add(time.perf_counter() - began)
        task.counters.events.add(batch.num_rows if counted else 0)
        task.counters.malformed.add(batch.num_rows - len(events) if counted else 0)
        task.counters.matches.add(len(found.ids))
    keys = batch.select(list(task.keys))
    yield from (_as_pairs if task.output == "pairs" else _as_arrays)(keys, found)


def read_events(task: Task, batch: pa.RecordBatch) -> tuple[Events, NDArray[np.int64]]:
    """Return the good events of a batch and the row of each."""
    rows = np.arange(batch.num_rows)
    if task.unreadable is not None:
        good = batch.column(task.unreadable).is_null()
        rows = rows[good.to_numpy(zero_copy_only=False)]
        batch = batch.filter(good)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # the dead letters say it row by row
        events = Events.from_arrow(task.index.schema, batch, strict=task.malformed == "fail", unknown="ignore")
    return events, rows if events.lines is None else rows[events.lines - 1]


class Found(NamedTuple):
    """The matches of a batch: the event in row[e] matches ids[start[e]:start[e + 1]]."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    ids: pa.Array
    approximate: NDArray[np.bool_]


def _found(events: Events, row_of_event: NDArray[np.int64], shards: list[OpenShard], false_positive: float) -> Found:
    """Match events with every shard and put the results together, event by event."""
    results = [shard.match(events, false_positive) for shard in shards]
    ids = [shard.ids_of(result.slots) for shard, result in zip(shards, results, strict=True)]
    modes = [result.may_be_false for result in results]
    if len(shards) == 1:
        return Found(row_of_event, results[0].event_start, ids[0], modes[0])
    order = np.argsort(np.concatenate([result.event for result in results]), kind="stable")
    start = np.sum([result.event_start for result in results], axis=0)
    return Found(row_of_event, start, pa.concat_arrays(ids).take(pa.array(order)), np.concatenate(modes)[order])


def _audited(
    task: Task, batch: pa.RecordBatch, row_of_event: NDArray[np.int64], shards: list[OpenShard]
) -> Audit | None:
    """Match some of the events a second time, exactly, and count what was reported and is not so."""
    rows = row_of_event[chosen_events(len(row_of_event), task.audit, task.seed)]
    if not rows.size:
        return None
    events, _ = read_events(task, batch.take(pa.array(rows)))
    return Audit.total(_differences(shard, events, task.false_positive) for shard in shards)


def _differences(shard: OpenShard, events: Events, false_positive: float) -> Audit:
    reported, exact = shard.match(events, false_positive), shard.index.match_batch(events)
    n_slots = shard.index.subscriptions.n_slots
    pairs, true_pairs = (found.event * n_slots + found.slots for found in (reported, exact))
    is_false = ~np.isin(pairs, true_pairs)
    false = np.bincount(reported.event[is_false], minlength=len(events))
    return Audit.of(np.diff(reported.event_start), false, lost=int((~np.isin(true_pairs, pairs)).sum()))


def _as_pairs(keys: pa.RecordBatch, found: Found) -> Iterator[pa.RecordBatch]:
    """Yield a row per match, a bounded number at a time."""
    for first in range(0, len(found.ids), _PAIRS_AT_ONCE):
        stop = min(first + _PAIRS_AT_ONCE, len(found.ids))
        start: NDArray[np.int64] = np.clip(found.start, first, stop)
        rows = np.repeat(found.row, np.diff(start))
        approximate = found.approximate[first:stop]
        yield _columns(keys, rows, found.ids.slice(first, stop - first), "subscription_id", approximate)


def _as_arrays(keys: pa.RecordBatch, found: Found) -> Iterator[pa.RecordBatch]:
    """Yield a row per event that matches anything; it is approximate if one of its matches is."""
    matched = np.flatnonzero(np.diff(found.start))
    offsets = np.append(found.start[matched], found.start[-1]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), found.ids)
    before = np.concatenate([[0], np.cumsum(found.approximate)])[found.start]
    yield _columns(keys, found.row[matched], lists, "subscription_ids", np.diff(before)[matched] > 0)


def _columns(
    keys: pa.RecordBatch, rows: NDArray[np.int64], matches: pa.Array, named: str, approximate: NDArray[np.bool_]
) -> pa.RecordBatch:
    picked = keys.take(pa.array(rows))
    modes = pa.array(approximate)
    return pa.RecordBatch.from_arrays([*picked.columns, matches, modes], names=[*keys.schema.names, named, APPROXIMATE])


# -- open shards -------------------------------------------------------------------------------------------


@dataclass
class OpenShard:
    """An index that this worker has open, and the catalog version it stands at."""

    index: Index
    ids: IdType
    version: int | None
    _column: pa.Array | None = field(default=None, repr=False)

    def ids_of(self, slots: NDArray[np.int32]) -> pa.Array:
        """Return the ids of slots as an Arrow column."""
        values = self.index.subscriptions.ids_by_slot.values
        if values is None and self.ids == "long":
            return pa.array(slots, pa.int64())
        if self._column is None:
            self._column = id_column(values, self.ids, self.index.subscriptions.n_slots)
        return self._column.take(pa.array(slots))

    def match(self, events: Events, false_positive: float) -> Matches:
        """Match within F, by a plan that is ready: a loaded batch is no time to make one.

        Where changes have used up what a plan may spend, a smaller F takes its place, in the end exact matching.
        """
        share = self.index.matcher.ready_share(false_positive) if false_positive else 0.0
        return self.index.match_batch(events, false_positive=share)

    def apply(self, step: Step, number: int, n_shards: int) -> None:
        """Bring the index one step further. A new subscription goes to the shard that its id's checksum names."""
        held = self.index.subscriptions
        self.index.remove_many([id for id in step.removed if id in held])
        fresh = Subscriptions(self.index.schema)
        for id, text in step.added:
            if shard_of(id, n_shards) == number:
                fresh.add(id, text)
        self.index.extend(fresh)
        self.version = step.until
        self._column = None


def id_column(values: NDArray[Any] | None, kind: IdType, n_slots: int) -> pa.Array:
    """Return ids by slot as an Arrow array; free slots hold anything."""
    if values is None:
        return pa.array(np.arange(n_slots)).cast(pa.string())
    if kind == "string":
        if values.dtype != object:
            return pa.array(values).cast(pa.string())
        return pa.array([None if id is None else str(id) for id in values], pa.string())
    if values.dtype == object:
        text = next(id for id in values if isinstance(id, str))
        raise DataError(
            f"the id {text!r} is a text, but subscription_id was fixed as a whole number when no id was; "
            "start anew with ids='string'"
        )
    return pa.array(values)


def shard_of(id: Id, n_shards: int) -> int:
    """Return the shard of a subscription that is added later: the same in every process."""
    return zlib.crc32(repr(id).encode()) % n_shards


_open: OrderedDict[tuple[str, int], OpenShard] = OrderedDict()


def opened(index: Published, number: int, steps: tuple[Step, ...] = ()) -> OpenShard:
    """Return a shard at the version that the last step leads to, opening or changing it only if need be."""
    key = (index.shards[number].checksum, number)
    # Out of the cache while it changes: a change that fails leaves nothing half done behind.
    shard = _open.pop(key, None)
    wanted = steps[-1].until if steps else index.version
    if shard is not None and shard.version != wanted and shard.version not in [step.after for step in steps]:
        shard = None
    if shard is None:
        shard = OpenShard(_load(index, number), index.ids, index.version)
    reached = shard.version
    for step in steps:
        if reached is not None and step.after >= reached:
            shard.apply(step, number, len(index.shards))
    _open[key] = shard
    while len(_open) > _OPEN_SHARDS + len(index.shards):
        _open.popitem(last=False)
    return shard


def _load(index: Published, number: int) -> Index:
    shard = index.shards[number]
    path = local_path(index.path_of(shard), index.shipped)
    check_size(path, shard)
    if file_checksum(path) != shard.checksum:
        raise SnapshotError(f"the snapshot {path} is damaged: it does not fit its checksum; build the index again")
    return load(path, verify=False)


def local_path(path: str, shipped: bool) -> str:
    """Return where this worker finds a file: where it was written, or where Spark has put its copy."""
    if not shipped:
        return path
    from pyspark import SparkFiles

    return str(SparkFiles.get(os.path.basename(path)))
