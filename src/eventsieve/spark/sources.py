"""Where the events of a stream come from: folders of files, or a workload drawn as it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from eventsieve.errors import DataError, SchemaError, SparkError, suggestion
from eventsieve.model.schema import Schema
from eventsieve.spark.columns import attribute_columns, file_schema
from eventsieve.spark.failures import clear_errors
from eventsieve.spark.generated import CHUNK, event_table
from eventsieve.workload import standard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

UNREADABLE: Final = "_eventsieve_unreadable"
"""Column with the raw text of a record that could not be read."""
AVAILABLE: Final = "_eventsieve_available"
"""Column with the time at which an event could first be read, for the lag."""
_FORMS: Final = ("json", "parquet", "csv")
_LINES_LOOKED_AT: Final = 100


@dataclass(frozen=True)
class Key:
    """A column that names events, and its type in files that do not say."""

    name: str
    kind: str = "string"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read `name` or `name:type`."""
        name, _, kind = text.partition(":")
        return cls(name, kind or "string")


def open_source(
    spark: SparkSession, text: str, schema: Schema, keys: Sequence[Key], rate: int, files: int, events: int | None
) -> DataFrame:
    """Return a streaming DataFrame for `json:DIR`, `parquet:DIR`, `csv:DIR` or `generate:NAME`.

    `rate` is events in a batch of a generated stream, `events` how many there are in all; `files` is files in a batch.
    """
    form, _, rest = text.partition(":")
    if form == "generate" and rest:
        return _generated(spark, rest, schema, keys, rate, events)
    if form not in _FORMS or not rest:
        raise DataError(
            f"a source is json:DIR, parquet:DIR, csv:DIR, generate:NAME or kafka:BROKERS/TOPIC, not {text!r}"
        )
    if "://" not in rest and not Path(rest).is_dir():
        raise DataError(f"the folder {rest} of the source does not exist; make it, or name another one")
    return _files(spark, form, rest, schema, keys, files)


def _files(spark: SparkSession, form: str, folder: str, schema: Schema, keys: Sequence[Key], files: int) -> DataFrame:
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructType

    reader = spark.readStream.option("maxFilesPerTrigger", files)
    if form == "parquet":
        found = reader.schema(_parquet_schema(spark, folder)).parquet(folder)
        for key in keys:
            if key.name not in found.columns:
                raise SchemaError(f"no column of {folder} is named {key.name!r}{suggestion(key.name, found.columns)}")
        attribute_columns(found, schema)
        found = found.withColumn(UNREADABLE, functions.lit(None).cast("string"))
    else:
        _check_keys(form, folder, keys)
        columns = StructType(file_schema(schema).fields)
        for key in keys:
            if key.name not in schema:
                columns = columns.add(key.name, key.kind)
        columns = columns.add(UNREADABLE, StringType())
        reader = reader.schema(columns).option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", UNREADABLE)
        found = reader.json(folder) if form == "json" else reader.option("header", True).csv(folder)
    return found.withColumn(AVAILABLE, functions.col("_metadata.file_modification_time"))


def _parquet_schema(spark: SparkSession, folder: str) -> StructType:
    try:
        with clear_errors():
            return spark.read.parquet(folder).schema
    except SparkError as cause:
        raise DataError(f"cannot learn the columns of {folder} from a Parquet file in it: {cause}") from cause


def _check_keys(form: str, folder: str, keys: Sequence[Key]) -> None:
    """Raise SchemaError if none of the first records has a key column: a wrong name would give nulls for ever."""
    if "://" in folder:
        return
    first = next(
        iter(sorted(each for each in Path(folder).iterdir() if each.is_file() and each.name[0] not in "._")), None
    )
    if first is None:
        return
    names: set[str] = set()
    with open(first, encoding="utf-8", errors="replace") as file:
        if form == "csv":
            names = {name.strip().strip('"') for name in file.readline().rstrip("\r\n").split(",")}
        else:
            for _, line in zip(range(_LINES_LOOKED_AT), file, strict=False):
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                names |= set(record) if isinstance(record, dict) else set()
    for key in keys:
        if names and key.name not in names:
            raise SchemaError(
                f"no record at the beginning of {first} has the key column "
                f"{key.name!r}{suggestion(key.name, sorted(names))}"
            )


def _generated(
    spark: SparkSession, name: str, schema: Schema, keys: Sequence[Key], rate: int, events: int | None
) -> DataFrame:
    """Draw a workload by the numbers that Spark's own counter gives: the same number, the same event."""
    from pyspark.sql import functions

    workload = standard(name, n=0)
    if workload.schema().to_json() != schema.to_json():
        raise SchemaError(
            f"the catalog has another schema than the workload {name!r}; `eventsieve demo` makes one that fits"
        )
    if len(keys) != 1:
        raise SchemaError("a generated event has one key column, its number")
    key = keys[0].name

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            for chunk in np.unique(numbers // CHUNK).tolist():
                wanted = numbers[numbers // CHUNK == chunk]
                table = event_table(workload, CHUNK, seed=chunk + 1).take(pa.array(wanted % CHUNK))
                yield from table.append_column(key, pa.array(wanted)).to_batches()

    counter = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rate)
    numbers = counter.option("numPartitions", spark.sparkContext.defaultParallelism).load().select("value")
    if events is not None:
        numbers = numbers.filter(functions.col("value") < events)
    columns = file_schema(schema).add(key, "long")
    drawn = numbers.mapInArrow(draw, columns)
    return drawn.withColumn(UNREADABLE, functions.lit(None).cast("string")).withColumn(
        AVAILABLE, functions.lit(None).cast("timestamp")
    )
