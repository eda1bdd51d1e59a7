"""Dead letters: the events of a batch that cannot be matched, with the reason for each.

A batch is looked through a second time only if the first pass met such events, so good batches pay nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from eventsieve.model.events import Events
from eventsieve.model.report import LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.spark.columns import attribute_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD: Final = "_eventsieve_record"
"""Column with the record as it came, where a source has it; other records are written as JSON again."""
REASON: Final = "_eventsieve_reason"
"""Column in which a source says itself why a record is no event; null where it does not."""
BESIDE: Final = "kafka_"
"""How the names of columns begin that a record of Kafka has beside its event."""
_FALLBACK: Final = "it cannot be read as a record of the types that the schema declares"


def of_record(events: DataFrame) -> list[str]:
    """Return the columns with what a source keeps of a record beside the event."""
    return [name for name in events.columns if name.startswith(BESIDE)]


def dead_letters(
    events: DataFrame, schema: Schema, unreadable: str, hidden: tuple[str, ...], carried: Sequence[str] = ()
) -> DataFrame:
    """Return the columns `event`, the record as it came or as JSON, `reason`, and those that are carried over."""
    from pyspark.sql import functions

    shown = functions.struct(*(name for name in events.columns if name not in (*hidden, *carried)))
    record = functions.coalesce(*([RECORD] if RECORD in events.columns else []), unreadable, functions.to_json(shown))
    told = events.withColumn(RECORD, record)
    if REASON not in events.columns:
        return _looked_through(told, schema, unreadable, carried)
    # Where the reason is known Python need not see the record, which may be very large.
    known = told.filter(functions.col(REASON).isNotNull())
    others = told.filter(functions.col(REASON).isNull())
    event, reason = functions.col(RECORD).alias("event"), functions.col(REASON).alias("reason")
    return known.select(event, reason, *carried).unionByName(_looked_through(others, schema, unreadable, carried))


def _looked_through(events: DataFrame, schema: Schema, unreadable: str, carried: Sequence[str]) -> DataFrame:
    """Read every event of a batch as workers do, and keep those with which something is wrong."""
    from pyspark.sql.types import StringType, StructField, StructType

    needed = events.select(*attribute_columns(events, schema), unreadable, RECORD, *carried)
    fields = [StructField(name, StringType()) for name in ("event", "reason")]
    columns = StructType([*fields, *(events.schema[name] for name in carried)])

    def reasons(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [*_unreadable(schema, batch, unreadable), *_unmatchable(schema, batch, unreadable)]
            rows = pa.array([row for row, _ in found], pa.int64())
            reason = pa.array([reason for _, reason in found], pa.string())
            kept = [batch.column(name).take(rows) for name in (RECORD, *carried)]
            yield pa.RecordBatch.from_arrays([kept[0], reason, *kept[1:]], names=["event", "reason", *carried])

    return needed.mapInArrow(reasons, columns)


def _unreadable(schema: Schema, batch: pa.RecordBatch, unreadable: str) -> Iterator[tuple[int, str]]:
    """Yield row and reason. The raw text is read once more with our own reader, which says why; these are few."""
    for row in pc.indices_nonzero(batch.column(unreadable).is_valid()).to_pylist():
        text = batch.column(unreadable)[row].as_py()
        problems = _quietly(Events.from_jsonl, schema, [text]).report.problems if text.lstrip()[:1] == "{" else []
        yield row, problems[0].reason if problems else _FALLBACK


def _unmatchable(schema: Schema, batch: pa.RecordBatch, unreadable: str) -> Iterator[tuple[int, str]]:
    rows = pc.indices_nonzero(batch.column(unreadable).is_null())
    for problem in _quietly(Events.from_arrow, schema, batch.take(rows)).report.problems:
        yield rows[problem.line - 1].as_py(), problem.reason


def _quietly(read: Callable[..., Events], schema: Schema, rows: object) -> Events:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        return read(schema, rows, strict=False, unknown="ignore")
