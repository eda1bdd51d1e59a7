"""Index building as a Spark job: every shard is built in an executor and written as a snapshot.

Where executors see the target folder they write into it. Where they do not, Spark carries the subscriptions to them and
the finished snapshots back.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from eventsieve.catalog import Catalog
from eventsieve.errors import SchemaError, SnapshotError
from eventsieve.index.index import Index, build
from eventsieve.index.snapshot import read_snapshot, write_snapshot
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.events import Events
from eventsieve.model.report import LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.planner import Plan
from eventsieve.spark.failures import clear_errors
from eventsieve.spark.planning import decide
from eventsieve.spark.published import IdType, Published, Shard, file_checksum, is_published, write_manifest
from eventsieve.spark.session import session
from eventsieve.spark.shards import cut
from eventsieve.spark.worker import local_path
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_CHUNK: Final = 32 << 20
"""Bytes of a snapshot in one row, on its way to a driver that shares no folder with the executor."""
_SHARD_BYTES: Final = 1 << 30
"""Bytes of clauses above which subscriptions are cut: a worker should hold its shard and its page cache with ease."""
_RESULT: Final = (
    "shard int, file string, bytes long, checksum string, subscriptions long, text_ids boolean, chunk binary"
)


@dataclass(frozen=True)
class _Build:
    """What an executor needs to know."""

    folder: str
    token: str
    """A file in the folder that shows whether an executor sees it."""
    matcher: str
    params: dict[str, Any]
    plan: dict[str, Any] | None
    """Why this matcher, where it was chosen and not named."""
    schema: Schema
    shipped: bool
    sample: bytes | None = None
    """Events in Arrow's stream format, for an elastic matcher to learn from."""

    def source(self, number: int) -> str:
        return os.path.join(self.folder, f"{self.token}-{number}.subscriptions")


def build_index(
    subscriptions: Subscriptions | Catalog | DataFrame,
    path: str | os.PathLike[str],
    matcher: str = "auto",
    *,
    version: int | None = None,
    schema: Schema | None = None,
    shards: int | None = None,
    spark: SparkSession | None = None,
    sample: pa.Table | None = None,
    **params: Any,
) -> Published:
    """Build an index in the executors and publish it in a folder, in one step; `match` takes the folder's path.

    A DataFrame has the columns `id` and `filter` and needs a `schema`. Without `shards`, their number follows from the
    size. An elastic matcher learns from `sample`, a table of events; its skip plans are then prepared and stored.
    """
    if matcher != "auto":
        make_matcher(matcher, **params)  # a wrong name or parameter is said here, at once
    spark = session(spark)
    folder = Path(path).absolute()
    _check_target(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(subscriptions, Catalog):
        version = subscriptions.version if version is None else version
        subscriptions = subscriptions.subscriptions(version)
    n_shards = shards or (shards_for(subscriptions) if isinstance(subscriptions, Subscriptions) else 1)
    agreed = subscriptions.schema if isinstance(subscriptions, Subscriptions) else _given(subscriptions, schema)
    decision = decide(subscriptions, matcher, params, agreed, n_shards)
    token = f".building-{secrets.token_hex(8)}"
    try:
        (folder / token).touch()
        shipped = not sees(spark, folder / token)
        plan = _Build(str(folder), token, *decision, agreed, shipped, _as_bytes(sample))
        if isinstance(subscriptions, Subscriptions):
            rows = _from_collection(spark, subscriptions, n_shards, plan)
        else:
            rows = _from_dataframe(subscriptions, n_shards, plan)
        with clear_errors():
            found = _collect(rows, folder, plan.shipped)
    finally:
        for left in folder.glob(f"{token}*"):
            left.unlink(missing_ok=True)
    ids: IdType = "string" if any(text_ids for _, text_ids in found) else "long"
    published = Published(
        str(folder),
        version,
        decision.matcher,
        decision.params,
        # As the snapshots say it: a time in a domain comes back from JSON as a text.
        Schema.from_json(plan.schema.to_json()),
        ids,
        tuple(shard for shard, _ in found),
        prepared=sample is not None,
        plan=decision.plan,
    )
    write_manifest(published)
    return published


def shards_for(subscriptions: Subscriptions) -> int:
    """Return how many shards a collection is cut into by size alone."""
    return 1 + subscriptions.nbytes() // _SHARD_BYTES


def sees(spark: SparkSession, path: Path) -> bool:
    """Say whether the executors see a file of the driver; where there are many, some of them answer for all."""
    context = spark.sparkContext
    master = context.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return True
    parts = max(2, 2 * context.defaultParallelism)
    text = str(path)
    return all(context.parallelize(range(parts), parts).map(lambda _: os.path.exists(text)).collect())


def ship(spark: SparkSession, index: Published) -> Published:
    """Let Spark carry the files of an index to workers that do not see its folder."""
    if not index.shards or sees(spark, Path(index.path_of(index.shards[0]))):
        return index
    for shard in index.shards:
        spark.sparkContext.addFile(index.path_of(shard))
    return index.as_shipped()


def _check_target(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise SnapshotError(f"{folder} is a file; an index is published in a folder")
    if folder.is_dir() and not is_published(folder) and any(not each.name.startswith(".") for each in folder.iterdir()):
        raise SnapshotError(f"{folder} holds other files; publish the index in a new or empty folder")


def _given(subscriptions: DataFrame, schema: Schema | None) -> Schema:
    if schema is None:
        raise SchemaError("subscriptions in a DataFrame are texts only; say what they are about with schema=...")
    for name in ("id", "filter"):
        if name not in subscriptions.columns:
            raise SchemaError(
                f"the subscriptions have no column {name!r}; their columns are {', '.join(subscriptions.columns)}"
            )
    return schema


# -- the job -----------------------------------------------------------------------------------------------


def _from_collection(spark: SparkSession, subscriptions: Subscriptions, n_shards: int, plan: _Build) -> DataFrame:
    for number, part in enumerate(cut(subscriptions, n_shards)):
        meta, arrays = part.to_arrays()
        write_snapshot(plan.source(number), {"kind": "subscriptions", "subscriptions": meta}, arrays)
        if plan.shipped:
            spark.sparkContext.addFile(plan.source(number))

    def build_shards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                meta, arrays = read_snapshot(local_path(plan.source(number), plan.shipped))
                yield from _built(plan, number, Subscriptions.from_stored(meta["subscriptions"], arrays))

    return spark.range(0, n_shards, 1, n_shards).mapInArrow(build_shards, _RESULT)


def _from_dataframe(subscriptions: DataFrame, n_shards: int, plan: _Build) -> DataFrame:
    from pyspark import TaskContext
    from pyspark.sql import functions

    def build_shard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        rows = list(batches)
        part = Subscriptions(plan.schema)
        if rows:
            part.add_arrow(pa.Table.from_batches(rows), strict=True)
        yield from _built(plan, context.partitionId(), part)

    spread = subscriptions.select("id", "filter").repartitionById(
        n_shards, functions.pmod(functions.hash("id"), functions.lit(n_shards)).cast("int")
    )
    return spread.mapInArrow(build_shard, _RESULT)


def _built(plan: _Build, number: int, part: Subscriptions) -> Iterator[pa.RecordBatch]:
    """Build a shard here and yield where it is, or its bytes where the target folder is out of sight."""
    index = build(part, matcher=plan.matcher, **plan.params)
    if plan.plan is not None:
        index.plan = Plan.from_dict(plan.plan)
    if plan.sample is not None:
        _prepare(index, plan.sample)
    if not plan.shipped:
        yield _row(number, index, *_saved(index, plan.folder, number))
        return
    scratch = tempfile.mkdtemp(prefix="eventsieve-")
    try:
        path, size, digest = _saved(index, scratch, number)
        yield _row(number, index, path, size, digest)
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield _row(number, index, path, size, digest, chunk)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare(index: Index, sample: bytes) -> None:
    """Make the skip plans here, where the index is built once, and not in every worker when the load has come."""
    with pa.ipc.open_stream(sample) as reader, warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # events that cannot be matched are the stream's business
        index.learn(Events.from_arrow(index.schema, reader.read_all(), strict=False, unknown="ignore"))
    for share in (0.0, *index.matcher.params["ladder"]):
        index.skip_plan(share)


def _as_bytes(sample: pa.Table | None) -> bytes | None:
    if sample is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sample.schema) as writer:
        writer.write_table(sample)
    return bytes(sink.getvalue())


def _saved(index: Index, folder: str, number: int) -> tuple[str, int, str]:
    handle, temporary = tempfile.mkstemp(prefix=".shard-", dir=folder)
    os.close(handle)
    index.save(temporary)
    digest = file_checksum(temporary)
    path = os.path.join(folder, f"shard-{number}-{digest}.index")
    os.replace(temporary, path)
    return path, os.path.getsize(path), digest


def _row(number: int, index: Index, path: str, size: int, digest: str, chunk: bytes | None = None) -> pa.RecordBatch:
    values = index.subscriptions.ids_by_slot.values
    text_ids = values is not None and values.dtype == object
    columns = [[number], [os.path.basename(path)], [size], [digest], [len(index)], [text_ids], [chunk]]
    types = [pa.int32(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.binary()]
    names = ["shard", "file", "bytes", "checksum", "subscriptions", "text_ids", "chunk"]
    return pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)


def _collect(rows: DataFrame, folder: Path, with_bytes: bool) -> list[tuple[Shard, bool]]:
    """Return the shards in order, and write the bytes of those that came with them."""
    found: dict[int, tuple[Shard, bool]] = {}
    begun: set[str] = set()
    for row in _in_pieces(rows) if with_bytes else rows.collect():
        found[row.shard] = (Shard(row.file, row.bytes, row.checksum, row.subscriptions), row.text_ids)
        if row.chunk is not None:
            with open(folder / row.file, "ab" if row.file in begun else "wb") as file:
                file.write(row.chunk)
            begun.add(row.file)
    return [found[number] for number in sorted(found)]


def _in_pieces(rows: DataFrame) -> Iterator[Row]:
    """Build all shards side by side, then fetch one after the other: the driver never holds more than a piece."""
    from pyspark import StorageLevel

    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield from kept.toLocalIterator()
    finally:
        kept.unpersist()
