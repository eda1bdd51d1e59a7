"""Events from Kafka topics: JSON values become attributes, and where each came from is kept beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventsieve.errors import DataError, SchemaError, SparkError, suggestion
from eventsieve.kafka import KafkaPlace, parse_start
from eventsieve.model.schema import Schema
from eventsieve.spark.columns import file_schema
from eventsieve.spark.kafka import KafkaCluster, KafkaOptions, read_offsets
from eventsieve.spark.letters import BESIDE, REASON, RECORD
from eventsieve.spark.sources import AVAILABLE, UNREADABLE, Key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

POSITION: Final = ("kafka_topic", "kafka_partition", "kafka_offset")
"""What names a record, as nothing else does, in its cluster."""
KEPT: Final = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""What is kept of a record beside the event unless the user says otherwise; `value` can be kept too."""
_PARSED: Final = "_eventsieve_parsed"
_FROM_JSON: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE, "allowSingleQuotes": "false"}
_NO_OBJECT: Final = "the value is not a JSON object"
_SHOWN: Final = 200
"""Characters of an unreadable value that go through matching; the dead letter has all of them."""


def carried_columns(keys: Sequence[Key], kept: Sequence[str]) -> list[str]:
    """Return the columns that a match of a Kafka event has: the user's keys, and what is kept of the record."""
    for name in kept:
        if name not in (*KEPT, "value", "nothing"):
            raise DataError(f"a Kafka record has no part named {name!r}{suggestion(name, [*KEPT, 'value', 'nothing'])}")
    chosen = [f"{BESIDE}{name}" for name in kept if name != "nothing"]
    needed = [] if keys else list(POSITION)
    return list(dict.fromkeys([*(key.name for key in keys), *needed, *chosen]))


class KafkaSource:
    """Topics of a cluster, looked at before they are read."""

    def __init__(self, spark: SparkSession, text: str, options: KafkaOptions) -> None:
        self._spark, self._options, self.place = spark, options, KafkaPlace.parse(text)
        if self.place.placeholder is not None:
            raise DataError(f"a source names its topics, separated by commas; {self.place.topic!r} is a pattern")
        self._start = _start_options(options.start)
        self._cluster = KafkaCluster(spark, self.place.brokers, options.settings)
        self._cluster.check_topics(self.place.topics)

    @property
    def identity(self) -> str:
        """What a checkpoint remembers of the source: its addresses may change, the cluster may not."""
        return f"kafka:{self._cluster.identity()}/{self.place.topic}"

    def behind(self, checkpoint: Path, batch: int) -> int | None:
        """Return how many records wait behind a batch, None if Kafka does not say so just now."""
        try:
            return self._cluster.waiting(read_offsets(checkpoint, batch))
        except (SparkError, OSError, ValueError):
            return None  # the stream has its own patience with a cluster that is away

    def open(self, schema: Schema, keys: Sequence[Key]) -> DataFrame:
        """Return a streaming DataFrame with a column per attribute, per key and per part of the Kafka record."""
        from pyspark.sql import functions

        names = list(dict.fromkeys([*schema.names, *(key.name for key in keys)]))
        for name in names:
            if name.startswith(BESIDE):
                raise SchemaError(
                    f"{name!r} cannot be read from Kafka: names that begin with {BESIDE!r} are those of the record"
                )
        value = functions.col("value")
        told = self._loaded().withColumn(REASON, self._reason())
        event = functions.when(functions.col(REASON).isNull(), value.cast("string"))
        parsed = told.withColumn(_PARSED, functions.from_json(event, _json_columns(schema, keys), _FROM_JSON))
        beginning = functions.coalesce(_as_text(functions.left(value, functions.lit(_SHOWN))), functions.lit(""))
        unreadable = functions.when(functions.col(REASON).isNotNull(), beginning).otherwise(_field(UNREADABLE))
        return parsed.select(
            *(_field(name).alias(name) for name in names),
            *(functions.col(part).alias(f"{BESIDE}{part}") for part in (*KEPT, "value")),
            unreadable.alias(UNREADABLE),
            functions.col("timestamp").alias(AVAILABLE),
            _as_text(value).alias(RECORD),
            REASON,
        )

    def _loaded(self) -> DataFrame:
        options = {f"kafka.{name}": text for name, text in self._options.settings.items()} | self._start
        options |= {
            "kafka.bootstrap.servers": self.place.brokers,
            "subscribe": self.place.topic,
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(self._options.most),
            # A topic may have fewer partitions than there are cores; the order of matches is nobody's promise.
            "minPartitions": str(self._spark.sparkContext.defaultParallelism),
        }
        return self._spark.readStream.format("kafka").options(**options).load()

    def _reason(self) -> Column:
        """Return why a value is no event, where that can be said without reading it as JSON; null where it cannot."""
        from pyspark.sql import functions

        length, largest = functions.length("value"), self._options.largest
        size = functions.format_string(f"the value has %d bytes; more than {largest} are not read as an event", length)
        text = functions.col("value").cast("string")
        return (
            functions.when(functions.col("value").isNull(), "the record has no value")
            .when(length > largest, size)
            .when(~functions.is_valid_utf8(text), "the value is not text in UTF-8")
            .when(~(functions.ltrim(text).startswith("{") & functions.rtrim(text).endswith("}")), _NO_OBJECT)
        )


def _start_options(start: str) -> dict[str, str]:
    """Return Spark's options for where a new stream begins."""
    parsed = parse_start(start)
    if not isinstance(parsed, int):
        return {"startingOffsets": start}
    # A partition without records since then has nothing to begin with but its end.
    return {"startingTimestamp": str(parsed), "startingOffsetsByTimestampStrategy": "latest"}


def _json_columns(schema: Schema, keys: Sequence[Key]) -> StructType:
    columns = file_schema(schema)
    for key in keys:
        if key.name not in schema:
            columns = columns.add(key.name, key.kind)
    return columns.add(UNREADABLE, "string")


def _field(name: str) -> Column:
    """Return a field of the event that was read; `getField` takes the name as it is, dots and all."""
    from pyspark.sql import functions

    return functions.col(_PARSED).getField(name)


def _as_text(value: Column) -> Column:
    """Return bytes as text; what is no UTF-8 becomes replacement characters."""
    from pyspark.sql import functions

    return functions.make_valid_utf8(value.cast("string"))
