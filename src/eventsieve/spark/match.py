"""`match`: events in a DataFrame, subscriptions from anywhere, matches in a DataFrame; batch or streaming."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from eventsieve.catalog import Catalog
from eventsieve.errors import DataError, MatcherError, SnapshotError, SparkError
from eventsieve.index.storage import load
from eventsieve.model.schema import Schema
from eventsieve.spark.columns import attribute_columns, key_columns, quoted, schema_of
from eventsieve.spark.indexing import build_index, ship
from eventsieve.spark.published import IdType, Published, Shard, file_checksum, is_published, read_manifest
from eventsieve.spark.worker import APPROXIMATE, SHARD, Counters, Step, Task, match_batches
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Output: TypeAlias = Literal["pairs", "arrays"]
Spread: TypeAlias = Literal["auto", "events", "subscriptions"]
Malformed: TypeAlias = Literal["fail", "skip"]
Source: TypeAlias = "Subscriptions | Catalog | Published | DataFrame | str | os.PathLike[str]"

_ROW: Final = "_eventsieve_row"
_LARGE: Final = 2 << 30
"""Bytes of an index above which `spread="auto"` no longer lets every worker hold all of it."""


def match(
    events: DataFrame,
    subscriptions: Source,
    matcher: str = "auto",
    *,
    key: str | Sequence[str] | None = None,
    output: Output = "pairs",
    spread: Spread = "auto",
    shards: int | None = None,
    version: int | None = None,
    schema: Schema | None = None,
    malformed: Malformed = "fail",
    **params: Any,
) -> DataFrame:
    """Return which subscriptions each event satisfies, lazily; `events` may be a batch or a streaming DataFrame.

    Columns that the schema names are attributes, null means absent; `key` columns (without it: all others) are carried
    over. "pairs" gives a row per match: the key, `subscription_id`, `catalog_version`, `match_mode`, `match_bound`.
    "arrays" gives a row per event that matches anything, with `subscription_ids`.

    `subscriptions` is a `Subscriptions`, a catalog or its path, the path of a published index or a snapshot, or a
    DataFrame with `id` and `filter`. The index is built now, in the executors, unless it is published already. A
    catalog is taken at `version` or at the newest one; a streaming DataFrame stays with it for its life, and
    `catalog_version` says so on every row. To follow the catalog, see `MatchStream`.

    With `spread="events"` every worker has the whole index open; with "subscriptions" each worker has a shard and
    every event meets all of them. "auto" decides by size. An event that cannot be matched, such as one with a NaN,
    fails the job, or is left out with `malformed="skip"`.
    """
    _check_choice("output", output, ("pairs", "arrays"))
    _check_choice("spread", spread, ("auto", "events", "subscriptions"))
    _check_choice("malformed", malformed, ("fail", "skip"))
    index = resolve(events, subscriptions, matcher, key, shards, version, schema, params)
    keys = key_columns(events, index.schema, key)
    if spread == "auto":
        spread = "subscriptions" if len(index.shards) > 1 and index.bytes > _LARGE else "events"
    return matched(events, ship(events.sparkSession, index), keys, output, spread, malformed)


def matched(
    events: DataFrame,
    index: Published,
    keys: Sequence[str],
    output: Output = "pairs",
    spread: Spread = "events",
    malformed: Malformed = "fail",
    *,
    steps: tuple[Step, ...] = (),
    unreadable: str | None = None,
    counters: Counters | None = None,
    false_positive: float = 0.0,
    audit: float = 0.0,
    seed: int = 0,
) -> DataFrame:
    """Return the matches of events with an index that workers can open, brought forward by `steps`.

    `false_positive` is F, `audit` the share of the events that are matched exactly as well, `seed` says which.
    """
    from pyspark.sql import functions

    attributes = attribute_columns(events, index.schema)
    sharded = spread == "subscriptions" and len(index.shards) > 1
    merging = sharded and output == "arrays"
    if merging and events.isStreaming:
        raise SparkError(
            "a streaming DataFrame with spread subscriptions gives pairs only, since arrays of several shards need an "
            "aggregation; use output='pairs' or spread='events'"
        )
    chosen = list(dict.fromkeys([*keys, *attributes, *([unreadable] if unreadable else [])]))
    needed = events.select(*(quoted(name) for name in chosen))
    carried = list(keys)
    if merging:
        needed = needed.withColumn(_ROW, functions.monotonically_increasing_id())
        carried = [_ROW, *carried]
    if sharded:
        needed = _meeting_every_shard(needed, len(index.shards))
    task = Task(
        index, tuple(carried), output, malformed, steps, sharded, unreadable, counters, false_positive, audit, seed
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return match_batches(task, batches)

    found = needed.mapInArrow(run, _result_schema(needed, carried, output, index.ids))
    if merging:
        found = _merged(found, keys)
    version = steps[-1].until if steps else index.version
    named = "subscription_id" if output == "pairs" else "subscription_ids"
    mode = functions.when(functions.col(APPROXIMATE), "approximate").otherwise("exact")
    return found.select(
        *(quoted(name) for name in keys),
        named,
        functions.lit(version).cast("long").alias("catalog_version"),
        mode.alias("match_mode"),
        _bound(false_positive).alias("match_bound"),
    )


def _bound(false_positive: float) -> Column:
    """Return the share of a batch's matches that may be false: null where the matcher is approximate by its nature."""
    from pyspark.sql import functions

    known = functions.lit(false_positive).cast("double")
    return known if false_positive else functions.when(~functions.col(APPROXIMATE), known)


def _meeting_every_shard(events: DataFrame, n_shards: int) -> DataFrame:
    """Give every event once to each shard, and every task rows of one shard only."""
    from pyspark.sql import functions

    parts = max(1, -(-events.sparkSession.sparkContext.defaultParallelism // n_shards))
    copies = events.withColumn(SHARD, functions.explode(functions.array(*(functions.lit(s) for s in range(n_shards)))))
    part = functions.pmod(functions.xxhash64(*(quoted(name) for name in events.columns)), functions.lit(parts))
    return copies.repartitionById(n_shards * parts, (functions.col(SHARD) * parts + part).cast("int"))


def _merged(found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Put the arrays that one event has from several shards into one."""
    from pyspark.sql import functions

    together = functions.flatten(functions.collect_list("subscription_ids")).alias("subscription_ids")
    firsts = [functions.first(quoted(name)).alias(name) for name in keys]
    return found.groupBy(_ROW).agg(*firsts, together, functions.max(APPROXIMATE).alias(APPROXIMATE))


def _result_schema(events: DataFrame, carried: Sequence[str], output: Output, ids: IdType) -> Any:
    from pyspark.sql import types

    kind: types.DataType = types.LongType() if ids == "long" else types.StringType()
    fields = [events.schema[name] for name in carried]
    if output == "pairs":
        fields.append(types.StructField("subscription_id", kind))
    else:
        fields.append(types.StructField("subscription_ids", types.ArrayType(kind)))
    return types.StructType([*fields, types.StructField(APPROXIMATE, types.BooleanType())])


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DataError(f"{name} is one of {', '.join(choices)}, not {value!r}")


# -- where the subscriptions come from ---------------------------------------------------------------------


def resolve(
    events: DataFrame,
    subscriptions: Source,
    matcher: str,
    key: str | Sequence[str] | None,
    shards: int | None,
    version: int | None,
    schema: Schema | None,
    params: dict[str, Any],
) -> Published:
    """Return a published index of the subscriptions, built now if there is none."""
    if isinstance(subscriptions, str | os.PathLike):
        subscriptions = at_path(Path(subscriptions))
    if isinstance(subscriptions, Published):
        if matcher not in ("auto", subscriptions.matcher) or params:
            raise MatcherError(
                f"the index in {subscriptions.folder} is built with {subscriptions.matcher!r}; leave matcher and "
                "parameters out, "
                "or build another one with build_index()"
            )
        return subscriptions
    spark = events.sparkSession
    if isinstance(subscriptions, Catalog):
        version = subscriptions.version if version is None else version
        wanted = (spark, str(subscriptions.path), version, matcher, shards, repr(sorted(params.items())))
        if wanted not in _built:
            _built[wanted] = build_index(
                subscriptions, _own_folder(), matcher, version=version, shards=shards, spark=spark, **params
            )
        return _built[wanted]
    if not isinstance(subscriptions, Subscriptions) and schema is None:
        schema = schema_of(events, [key] if isinstance(key, str) else key or [])
    return build_index(subscriptions, _own_folder(), matcher, schema=schema, shards=shards, spark=spark, **params)


_built: dict[tuple[object, ...], Published] = {}
"""Indexes of catalog versions that this process has built; a version never changes, so neither do they."""


def _own_folder() -> str:
    """Return a folder that goes with this process."""
    folder = tempfile.mkdtemp(prefix="eventsieve-index-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def at_path(path: Path) -> Catalog | Published:
    """Return what is at a path: a published index, a catalog or a single snapshot."""
    if path.is_file():
        return _snapshot(path)
    if is_published(path):
        return read_manifest(path)
    if (path / "_delta_log").is_dir():
        return Catalog.open(path)
    what = "holds neither a catalog nor a published index" if path.exists() else "does not exist"
    raise SnapshotError(f"{path} {what}; `eventsieve sub create` makes a catalog, build_index() publishes an index")


def _snapshot(path: Path) -> Published:
    """Return a file that `Index.save` wrote as an index of one shard."""
    index = load(path)
    values = index.subscriptions.ids_by_slot.values
    ids: IdType = "long" if values is None or values.dtype != object else "string"
    shard = Shard(path.name, path.stat().st_size, file_checksum(path), len(index))
    folder = str(path.parent.absolute())
    return Published(folder, None, index.matcher.name, index.matcher.params, index.schema, ids, (shard,))
