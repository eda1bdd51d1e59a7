"""The statistics of subscriptions as a Spark job: one record per partition, merged into the record of the whole.

The record is the model's own (`model/statistics.py`), and executors make it with the model's own function. Clauses
travel as columns, a row per clause with lists of attributes and bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.catalog import Catalog
from eventsieve.errors import SchemaError
from eventsieve.model.columns import ClauseTable, Domains, flat
from eventsieve.model.events import Events
from eventsieve.model.statistics import AttributeSets, EventFacts, QuantileSummary, Statistics, statistics_of
from eventsieve.spark.columns import attribute_columns
from eventsieve.spark.failures import clear_errors
from eventsieve.spark.session import session
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAMPLED_EVENTS: Final = 10_000
_SAMPLED_CLAUSES: Final = 1 << 13
"""Enough for a match rate: 128 of the events meet every one of them."""


def profile(
    subscriptions: Subscriptions | Catalog,
    events: DataFrame | None = None,
    *,
    version: int | None = None,
    parts: int | None = None,
    spark: SparkSession | None = None,
) -> Statistics:
    """Return the statistics of subscriptions and, with `events`, how often a sample of those meets them."""
    spark = session(spark)
    if isinstance(subscriptions, Catalog):
        subscriptions = subscriptions.subscriptions(version)
    clauses, domains = subscriptions.table(), subscriptions.domains()

    def facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        table = clauses_from(pa.Table.from_batches(rows)) if rows else _no_clauses()
        record = json.dumps(to_plain(statistics_of(table, domains)))
        yield pa.RecordBatch.from_arrays([pa.array([record])], names=["record"])

    spread = spark.createDataFrame(clause_rows(clauses)).repartition(parts or spark.sparkContext.defaultParallelism)
    with clear_errors():
        records = [from_plain(json.loads(row.record)) for row in spread.mapInArrow(facts, "record string").collect()]
    whole = reduce(Statistics.merge, records)
    if events is None:
        return whole
    return replace(whole, events=_event_facts(subscriptions, domains, events))


def _event_facts(subscriptions: Subscriptions, domains: Domains, events: DataFrame) -> EventFacts | None:
    """Let a sample of the events meet a sample of the clauses, which is small enough for one process."""
    names = attribute_columns(events, subscriptions.schema)
    rows = events.select(*names).limit(_SAMPLED_EVENTS).toArrow()
    if not len(rows):
        raise SchemaError("there are no events to take a sample of")
    sample = Events.from_arrow(subscriptions.schema, rows).columns_for(subscriptions.codes)
    clauses = subscriptions.table()
    slots = np.flatnonzero(clauses.stop > clauses.start)
    slots = slots[:: max(1, slots.size // _SAMPLED_CLAUSES)]
    few = clauses._replace(start=clauses.start[slots], stop=clauses.stop[slots])
    return statistics_of(few, domains, sample).events


# -- clauses as rows ---------------------------------------------------------------------------------------


def clause_rows(clauses: ClauseTable) -> pa.Table:
    """Return a row per clause that has a predicate."""
    slots = np.flatnonzero(clauses.stop > clauses.start)
    size = clauses.stop[slots] - clauses.start[slots]
    end = np.cumsum(size)
    predicate = np.repeat(clauses.start[slots] - (end - size), size) + np.arange(int(size.sum()))
    offsets = pa.array(np.concatenate([[0], end]).astype(np.int32))
    return pa.table(
        {
            name: pa.ListArray.from_arrays(offsets, pa.array(getattr(clauses, name)[predicate]))
            for name in ("attribute", "low", "high")
        }
    )


def clauses_from(rows: pa.Table) -> ClauseTable:
    """Return the clauses of rows that `clause_rows` made."""
    size = rows.column("attribute").combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    end = np.cumsum(size, dtype=np.int64)
    flattened = [rows.column(name).combine_chunks().flatten().to_numpy() for name in ("attribute", "low", "high")]
    return ClauseTable(
        end - size, end, flat(flattened[0], np.int32), flat(flattened[1], np.float64), flat(flattened[2], np.float64)
    )


def _no_clauses() -> ClauseTable:
    empty = np.empty(0)
    return ClauseTable(*(flat(empty, kind) for kind in (np.int64, np.int64, np.int32, np.float64, np.float64)))


# -- the record on its way to the driver -------------------------------------------------------------------


def to_plain(record: Statistics) -> dict[str, Any]:
    """Return a record without event facts as JSON values; every number survives."""
    return {
        "n_clauses": record.n_clauses,
        "clauses_of_attribute": record.clauses_of_attribute.tolist(),
        "clauses_of_size": record.clauses_of_size.tolist(),
        "width_classes": record.width_classes.tolist(),
        "width_sum": record.width_sum.tolist(),
        "bounds": [record.bounds.value.tolist(), record.bounds.count.tolist()],
        "sets": [[[list(names), count] for names, count in record.sets.top], record.sets.sketch.tolist()],
    }


def from_plain(plain: dict[str, Any]) -> Statistics:
    """Return the record that `to_plain` took apart."""
    value, count = plain["bounds"]
    top, sketch = plain["sets"]
    return Statistics(
        plain["n_clauses"],
        _counts(plain["clauses_of_attribute"]),
        _counts(plain["clauses_of_size"]),
        _counts(plain["width_classes"]),
        np.array(plain["width_sum"], np.float64),
        QuantileSummary(np.array(value, np.float64), _counts(count)),
        AttributeSets(tuple((tuple(names), number) for names, number in top), np.array(sketch, np.uint64)),
    )


def _counts(values: list[Any]) -> NDArray[np.int64]:
    return np.array(values, np.int64)
