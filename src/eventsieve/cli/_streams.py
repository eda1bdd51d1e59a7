"""The ends of a stream that `eventsieve run` is told about: where events come from, where what is found goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventsieve.catalog import Catalog
from eventsieve.errors import DataError
from eventsieve.kafka import PREFIX, KafkaPlace
from eventsieve.spark.kafka import KafkaOptions, check_reachable
from eventsieve.spark.kafka_sink import KafkaLetters, KafkaSink
from eventsieve.spark.kafka_source import KEPT, KafkaSource, carried_columns
from eventsieve.spark.sinks import Sink, parse_sink
from eventsieve.spark.sources import Key, open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Incoming:
    """A source that is open."""

    events: DataFrame
    carried: list[str]
    """Columns that every match has beside its subscription."""
    identity: str
    behind: Callable[[Path, int], int | None] | None = None


@dataclass(frozen=True)
class Ends:
    """What the user has said about the ends of a stream, as far as it is text."""

    source: str
    sink: str
    dead_letter: str | None
    keys: Sequence[Key]
    kept: Sequence[str]
    kafka: KafkaOptions

    @property
    def on_kafka(self) -> bool:
        return any(text.startswith(PREFIX) for text in (self.source, self.sink, self.dead_letter or ""))

    def check(self) -> None:
        """Raise an error for what can be seen to be wrong before Spark starts."""
        for text in (self.source, self.sink, self.dead_letter or ""):
            if text.startswith(PREFIX):
                check_reachable(KafkaPlace.parse(text).brokers)
        if not self.source.startswith(PREFIX) and self.kept:
            raise DataError("only records of Kafka have parts to keep; with other sources leave it out")

    def open_source(self, spark: SparkSession, catalog: Catalog, rate: int, files: int, events: int | None) -> Incoming:
        """Open the source; one of Kafka is looked at first."""
        if not self.source.startswith(PREFIX):
            found = open_source(spark, self.source, catalog.schema, self.keys, rate, files, events)
            return Incoming(found, [key.name for key in self.keys], self.source)
        topic = KafkaSource(spark, self.source, self.kafka)
        carried = carried_columns(self.keys, self.kept or KEPT)
        return Incoming(topic.open(catalog.schema, self.keys), carried, topic.identity, topic.behind)

    def open_sink(self, spark: SparkSession, catalog: Catalog, output: str) -> tuple[Sink, str]:
        """Open the sink; return what a checkpoint remembers of it, too."""
        if not self.sink.startswith(PREFIX):
            return parse_sink(spark, self.sink), self.sink
        topic = KafkaSink(spark, self.sink, self.kafka.settings, catalog, output)
        return topic, topic.identity

    def open_letters(self, spark: SparkSession) -> Sink | str | None:
        """Open the place for dead letters: events from Kafka go back to Kafka unless the user says otherwise."""
        text = self.dead_letter
        if text is None and self.source.startswith(PREFIX):
            place = KafkaPlace.parse(self.source)
            text = f"{PREFIX}{place.brokers}/{place.topics[0]}-dead-letter"
        return KafkaLetters(spark, text, self.kafka.settings) if text and text.startswith(PREFIX) else text
