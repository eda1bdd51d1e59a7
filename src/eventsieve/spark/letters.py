"""Dead letters: the events of a batch that cannot be matched, with the reason for each.

A batch is looked through a second time only if the first pass met such events, so good batches pay nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from eventsieve.model.events import Events
from eventsieve.model.report import LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.spark.columns import attribute_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD: Final = "_eventsieve_record"
_FALLBACK: Final = "it cannot be read as a record of the types that the schema declares"


def dead_letters(events: DataFrame, schema: Schema, unreadable: str, hidden: tuple[str, ...]) -> DataFrame:
    """Return the columns `event`, the record as it came or as JSON, and `reason`."""
    from pyspark.sql import functions

    shown = functions.struct(*(name for name in events.columns if name not in hidden))
    record = functions.coalesce(functions.col(unreadable), functions.to_json(shown)).alias(_RECORD)
    needed = events.select(*attribute_columns(events, schema), unreadable, record)

    def reasons(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [*_unreadable(schema, batch, unreadable), *_unmatchable(schema, batch, unreadable)]
            columns = [pa.array([each[part] for each in found], pa.string()) for part in (0, 1)]
            yield pa.RecordBatch.from_arrays(columns, names=["event", "reason"])

    return needed.mapInArrow(reasons, "event string, reason string")


def _unreadable(schema: Schema, batch: pa.RecordBatch, unreadable: str) -> Iterator[tuple[str, str]]:
    """Read the raw text once more with our own reader, which says where and why; these are few."""
    for text in batch.column(unreadable).drop_null().to_pylist():
        problems = _quietly(Events.from_jsonl, schema, [text]).report.problems if text.lstrip()[:1] == "{" else []
        yield text, problems[0].reason if problems else _FALLBACK


def _unmatchable(schema: Schema, batch: pa.RecordBatch, unreadable: str) -> Iterator[tuple[str, str]]:
    good = batch.filter(batch.column(unreadable).is_null())
    for problem in _quietly(Events.from_arrow, schema, good).report.problems:
        yield good.column(_RECORD)[problem.line - 1].as_py(), problem.reason


def _quietly(read: Callable[..., Events], schema: Schema, rows: object) -> Events:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        return read(schema, rows, strict=False, unknown="ignore")
