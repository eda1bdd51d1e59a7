"""Matches and dead letters into Kafka topics, with Spark's own connector.

Kafka keeps what a batch had already sent when it was interrupted, and the batch is sent again: at least once. A record
therefore names what it is about in its headers: the same event, subscription and catalog version are the same match.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from eventsieve.catalog import Catalog
from eventsieve.errors import DataError
from eventsieve.kafka import (
    BOUND_HEADER,
    EVENT_HEADER,
    LONGEST_PART,
    MODE_HEADER,
    NOBODY,
    REASON_HEADER,
    SUBSCRIPTION_HEADER,
    VERSION_HEADER,
    KafkaPlace,
)
from eventsieve.spark.columns import quoted
from eventsieve.spark.kafka import KafkaCluster
from eventsieve.spark.kafka_source import POSITION
from eventsieve.spark.letters import BESIDE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATIENCE: Final = 120
"""Seconds that a cluster may be away in the middle of a stream, as long as the connector's producer has."""
_LARGEST: Final = 64 << 20
"""Bytes of a record that the producer lets pass, and room for: what is too large is the cluster's to say."""
_FIRST_VERSIONS: Final = "spark.sql.sources.useV1SourceList"
_NOT_IN_VALUE: Final = ("kafka_key", "kafka_headers", "kafka_value")
_OWNED, _OWNER = "_eventsieve_owned", "_eventsieve_owner"
_OUR_HEADERS: Final = "eventsieve-"
_NO_HEADERS: Final = "CAST(array() AS array<struct<key: string, value: binary>>)"


class _Topic:
    """Writes records to a topic, or to the topics that a column names."""

    def __init__(self, spark: SparkSession, place: KafkaPlace, settings: Mapping[str, str]) -> None:
        self.place, self._settings = place, dict(settings)
        self.cluster = KafkaCluster(spark, place.brokers, settings)
        # The first version of Spark's sink, which it prefers, runs where an Observation never hears of it.
        first_versions = str(spark.conf.get(_FIRST_VERSIONS, "")).split(",")
        spark.conf.set(_FIRST_VERSIONS, ",".join(name for name in first_versions if name.strip() != "kafka"))

    @property
    def identity(self) -> str:
        """What a checkpoint remembers: the cluster, whatever its addresses, and the topic."""
        return f"kafka:{self.cluster.identity()}/{self.place.topic}"

    def save(self, records: DataFrame) -> None:
        """Send records, which have the columns topic, key, value and headers."""
        defaults = {"max.request.size": str(_LARGEST), "buffer.memory": str(_LARGEST), "compression.type": "lz4"}
        settings = defaults | self._settings | {"bootstrap.servers": self.place.brokers}
        options = {f"kafka.{name}": text for name, text in settings.items()}
        records.write.format("kafka").mode("append").options(**options).save()


class KafkaSink:
    """A record per row of matches: in one topic, or in one per subscription or per owner of subscriptions."""

    def __init__(
        self, spark: SparkSession, text: str, settings: Mapping[str, str], catalog: Catalog, output: str
    ) -> None:
        place = KafkaPlace.parse(text)
        self._spark, self._catalog, self._topic = spark, catalog, _Topic(spark, place, settings)
        self._by = place.placeholder
        if len(place.topics) > 1:
            raise DataError(f"a sink is one topic, or a pattern such as matches-{{subscription}}, not {place.topic!r}")
        if self._by is None:
            self._topic.cluster.check_topics([place.topic])
            return
        if self._by not in ("subscription", "owner"):
            raise DataError(f"a topic can be named by {{subscription}} or {{owner}}, not by {{{self._by}}}")
        if output != "pairs":
            raise DataError("a topic per subscription or owner needs a record per match: output pairs")
        self._maker = KafkaCluster(spark, place.brokers, settings, _PATIENCE)
        self._owners: tuple[int, DataFrame] | None = None

    @property
    def identity(self) -> str:
        """What a checkpoint remembers of the sink."""
        return self._topic.identity

    def claim(self, query: str) -> None:
        """Topics are only appended to; nothing can be overwritten."""

    def write(self, batch: int, rows: DataFrame) -> None:
        """Send every row; a batch that is repeated after a crash is sent again."""
        from pyspark.sql import functions

        if self._by is None:
            self._topic.save(_records(rows, functions.lit(self._topic.place.topic)))
            return
        rows = rows.persist()
        try:
            first = rows.select("catalog_version").first()
            if first is None:
                return
            records = self._addressed(rows, first.catalog_version)
            # The producer would wait a minute for a topic that is not there, and then fail.
            self._maker.make_topics(row.topic for row in records.select("topic").distinct().collect())
            self._topic.save(records)
        finally:
            rows.unpersist()

    def _addressed(self, rows: DataFrame, version: int) -> DataFrame:
        """Return records for the topics that their subscriptions, or the owners of these, are named in."""
        from pyspark.sql import functions

        id = functions.col("subscription_id").cast("string")
        before, _, after = self._topic.place.topic.partition(f"{{{self._by}}}")
        if self._by == "owner":
            owners = functions.broadcast(self._owners_at(version))
            rows = rows.join(owners, id == functions.col(_OWNED), "left").drop(_OWNED)
            name = functions.coalesce(functions.col(_OWNER), functions.lit(NOBODY))
        else:
            name = id
        topic = functions.concat(functions.lit(before), _topic_part(name), functions.lit(after))
        return _records(rows, topic)

    def _owners_at(self, version: int) -> DataFrame:
        """Return subscriptions and their owners at a version; kept until another version is asked for."""
        if self._owners is None or self._owners[0] != version:
            table = self._catalog.rows(version)
            id = pc.coalesce(table.column("id_text"), table.column("id_number").cast(pa.string()))
            owned = pa.table({_OWNED: id, _OWNER: table.column("owner")}).filter(pc.is_valid(table.column("owner")))
            self._owners = version, self._spark.createDataFrame(owned)
        return self._owners[1]


class KafkaLetters:
    """A dead letter per event that cannot be matched: its bytes, key and headers as they came, and the reason."""

    def __init__(self, spark: SparkSession, text: str, settings: Mapping[str, str]) -> None:
        place = KafkaPlace.parse(text)
        if place.placeholder is not None or len(place.topics) > 1:
            raise DataError(f"dead letters go to one topic, not to {place.topic!r}")
        self._topic = _Topic(spark, place, settings)
        self._topic.cluster.make_topics([place.topic])

    def claim(self, query: str) -> None:
        """Topics are only appended to; nothing can be overwritten."""

    def write(self, batch: int, rows: DataFrame) -> None:
        """Send every letter; a batch that is repeated after a crash is sent again."""
        from pyspark.sql import functions

        there = set(rows.columns)
        told = {REASON_HEADER: functions.col("reason")}
        if there.issuperset(POSITION):
            told[EVENT_HEADER] = _joined(POSITION)
        value = functions.col("kafka_value") if "kafka_value" in there else functions.col("event").cast("binary")
        key = functions.col("kafka_key") if "kafka_key" in there else functions.lit(None).cast("binary")
        topic = functions.lit(self._topic.place.topic)
        headers = _with_headers(rows, told)
        self._topic.save(rows.select(topic.alias("topic"), key.alias("key"), value.alias("value"), headers))


def _records(rows: DataFrame, topic: Column) -> DataFrame:
    """Return matches as records: the value is JSON, the headers name the match, the key is the event's own."""
    from pyspark.sql import functions

    event = _event_id(rows)
    told = {EVENT_HEADER: event, VERSION_HEADER: functions.col("catalog_version").cast("string")}
    if "subscription_id" in rows.columns:
        told[SUBSCRIPTION_HEADER] = functions.col("subscription_id").cast("string")
    told[MODE_HEADER] = functions.col("match_mode")
    told[BOUND_HEADER] = functions.when(functions.col("match_bound") > 0, functions.col("match_bound").cast("string"))
    key = event.cast("binary")
    if "kafka_key" in rows.columns:
        key = functions.coalesce(functions.col("kafka_key"), key)
    return rows.select(topic.alias("topic"), key.alias("key"), _value(rows).alias("value"), _with_headers(rows, told))


def _value(rows: DataFrame) -> Column:
    """Return a row as JSON; the event itself, where it is kept, stands in it as the JSON that it came as."""
    from pyspark.sql import functions

    shown = [name for name in rows.columns if name not in (*_NOT_IN_VALUE, _OWNER)]
    value = functions.to_json(functions.struct(*(quoted(name) for name in shown)))
    if "kafka_value" not in rows.columns:
        return value
    inside = functions.substring(value, functions.lit(1), functions.length(value) - 1)
    text = functions.col("kafka_value").cast("string")
    # Spark reads the first object of a text and overlooks what may follow, which would not be JSON here.
    event = functions.when(functions.try_parse_json(text).isNotNull(), text).otherwise("null")
    return functions.concat(inside, functions.lit(',"event":'), event, functions.lit("}"))


def _event_id(rows: DataFrame) -> Column:
    """Return what names an event: the columns that the user has chosen, else its place in Kafka."""
    from pyspark.sql import functions

    # The keys of a match come first in its row.
    keys = itertools.takewhile(lambda name: name not in ("subscription_id", "subscription_ids"), rows.columns)
    chosen = [name for name in keys if not name.startswith(BESIDE)]
    if not chosen:
        return _joined(POSITION)
    if not set(rows.columns).issuperset(POSITION):
        return _joined(chosen)
    return functions.coalesce(_joined(chosen), _joined(POSITION))


def _joined(names: Sequence[str]) -> Column:
    """Return columns as one text with strokes between them, null if one of them is."""
    from pyspark.sql import functions

    parts = [quoted(name).cast("string") for name in names]
    between = [part for each in parts for part in (functions.lit("/"), each)][1:]
    return functions.concat(*between)


def _with_headers(rows: DataFrame, told: dict[str, Column]) -> Column:
    """Return the headers that a record came with, and behind them those of ours that have something to say."""
    from pyspark.sql import functions

    ours = functions.array(
        *(
            functions.struct(functions.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in told.items()
        )
    )
    ours = functions.filter(ours, lambda header: header["value"].isNotNull())
    if "kafka_headers" not in rows.columns:
        return ours.alias("headers")
    came = functions.coalesce(functions.col("kafka_headers"), functions.expr(_NO_HEADERS))
    # Matches of matches: what the first stream said is not what this one says.
    came = functions.filter(came, lambda header: ~header["key"].startswith(_OUR_HEADERS))
    return functions.concat(came, ours).alias("headers")


def _topic_part(name: Column) -> Column:
    """Return a name as part of a topic's name: what `eventsieve.kafka.topic_part` does, for a column."""
    from pyspark.sql import functions

    allowed = functions.substring(functions.regexp_replace(name, "[^A-Za-z0-9._-]", "_"), 1, LONGEST_PART)
    digest = functions.left(functions.sha2(name.cast("binary"), 256), functions.lit(10))
    return functions.when((allowed == name) & (name != ""), name).otherwise(
        functions.concat(allowed, functions.lit("-"), digest)
    )
