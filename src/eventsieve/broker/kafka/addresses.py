"""Kafka by address: what the command line says, made into sources, sinks and places for dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eventsieve.broker.kafka.client import Cluster
from eventsieve.broker.kafka.letters import KafkaLetters
from eventsieve.broker.kafka.records import OwnerOf, RecordForm
from eventsieve.broker.kafka.sink import KafkaSink
from eventsieve.broker.kafka.source import KafkaSource
from eventsieve.broker.kafka.transaction import TransactionalKafkaSink
from eventsieve.broker.transport import Source
from eventsieve.broker.wire import Output
from eventsieve.errors import BrokerError
from eventsieve.kafka import PREFIX, KafkaPlace, Start, topic_part


@dataclass(frozen=True)
class KafkaOptions:
    """What sources and sinks of Kafka are told."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client settings by librdkafka's names; never shown, since there are passwords among them."""
    start: Start = "earliest"
    """Where a consumer group begins that is new."""
    group: str = "eventsieve"
    """The consumer group, unless the settings name one."""
    exactly_once: bool = False
    """Commit deliveries and the source's offsets in one transaction."""
    owner_of: OwnerOf | None = None


def default_group(source: str, sink: str) -> str:
    """Return a consumer group for a source and a sink: brokers between the same two share the work.

    >>> default_group("kafka:localhost:9092/ticks", "kafka:localhost:9092/matches")
    'eventsieve-ticks-to-matches'
    """
    ends = [text.rpartition("/")[2] if text.startswith(PREFIX) else text for text in (source, sink)]
    return f"eventsieve-{topic_part(ends[0])}-to-{topic_part(ends[1])}"


def kafka_source(address: str, options: KafkaOptions, follow: bool, named: bool) -> KafkaSource:
    """Return the source at an address, which is looked at now: building an index first would delay the bad news."""
    place, group = KafkaPlace.parse(address), options.settings.get("group.id", options.group)
    Cluster(place.brokers, options.settings).check(place.topics)
    return KafkaSource(place, group, options.settings, options.start, follow, named)


def kafka_sink(
    address: str, options: KafkaOptions, output: Output, with_event: bool, sources: Sequence[Source]
) -> KafkaSink:
    """Return the sink at an address; for exactly once it is bound to the one source of the same cluster."""
    place = KafkaPlace.parse(address)
    form = RecordForm(place, output, with_event, options.owner_of)
    if not options.exactly_once:
        return KafkaSink(place, form, options.settings)
    source = sources[0] if len(sources) == 1 else None
    if not isinstance(source, KafkaSource):
        raise BrokerError("exactly once is from one Kafka source to a Kafka sink: name one source, and let it be Kafka")
    there = [Cluster(brokers, options.settings).identity() for brokers in (source.brokers, place.brokers)]
    if there[0] != there[1]:
        raise BrokerError("exactly once is within one Kafka cluster; the source and the sink are in two")
    return TransactionalKafkaSink(place, form, source, f"{source.group}-transactions", options.settings)


def kafka_letters(address: str, options: KafkaOptions) -> KafkaLetters:
    """Return the place for dead letters at an address."""
    return KafkaLetters(KafkaPlace.parse(address), options.settings)


def letters_beside(source: str) -> str:
    """Return where the dead letters of a Kafka source go unless the user says otherwise."""
    place = KafkaPlace.parse(source)
    return f"{PREFIX}{place.brokers}/{place.topics[0]}-dead-letter"
