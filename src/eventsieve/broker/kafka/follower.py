"""A topic of subscription changes that feeds a catalog, so that other systems need not know our API.

The key of a record is the subscription's id. Its value is the whole subscription as JSON, with `filter` and perhaps
`owner`, `labels` and `paused`; no value removes it. That is what a compacted topic keeps: the last word about each id.

How far the topic was read is committed with the changes, in the catalog and not in a consumer group: after a kill the
next follower goes on exactly behind what the catalog has.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eventsieve.broker.kafka.client import (
    Cluster,
    Complaints,
    client_settings,
    consumer_settings,
    kafka_package,
    make_client,
)
from eventsieve.broker.kafka.records import Record
from eventsieve.broker.kafka.sink import RecordProducer
from eventsieve.catalog import Catalog
from eventsieve.catalog.mirror import Moved
from eventsieve.errors import BrokerError, DataError, EventsieveError
from eventsieve.kafka import EVENT_HEADER, PATIENCE, REASON_HEADER, KafkaPlace
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadReport

_DEFAULTS: Final = {
    "group.id": "eventsieve-follow",  # the client wants one; nothing is ever committed under it
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}
_POLL: Final = 0.1
_LONGEST_REASON: Final = 1_000


@dataclass(frozen=True)
class Followed:
    """One commit: what was taken from the topic until then, and what became of it."""

    version: int
    written: int
    removed: int
    refused: int


@dataclass
class _Group:
    """The last word about each id since the last commit, and how far that goes by partition."""

    last: dict[Id, Any]
    bad: list[tuple[Any, str]]
    ends: dict[int, int]


class Follower:
    """Reads a topic of subscription changes into a catalog; records that cannot be taken go to a dead-letter topic."""

    def __init__(
        self,
        catalog: Catalog,
        place: KafkaPlace,
        settings: Mapping[str, str] | None = None,
        read_id: Callable[[str], Id] = str,
        dead_letter: KafkaPlace | None = None,
    ) -> None:
        if place.placeholder is not None or len(place.topics) > 1:
            raise DataError(f"subscriptions come from one topic, not from {place.topic!r}")
        self._catalog, self._place, self._given, self._read_id = catalog, place, dict(settings or {}), read_id
        self._letters = dead_letter or KafkaPlace(place.brokers, f"{place.topic}-dead-letter")
        cluster = Cluster(place.brokers, self._given)
        cluster.check([place.topic])
        Cluster(self._letters.brokers, self._given).make_topics([self._letters.topic])
        self._source = f"kafka:{cluster.identity()}/{place.topic}"
        self._complaints = Complaints(place.brokers)
        self._stop = threading.Event()
        self._stored: dict[int, int | None] = {}
        self._waiting: set[int] = set()

    def stop(self) -> None:
        """Ask `run` to commit what it has and to return."""
        self._stop.set()

    def run(
        self,
        every: float = 1.0,
        most: int = 10_000,
        until_empty: bool = False,
        on_commit: Callable[[Followed], None] | None = None,
    ) -> None:
        """Follow the topic. Changes are grouped: a commit every so many seconds, or records, at most."""
        consumer, producer = self._consumer(), RecordProducer(self._letters.brokers, self._given)
        try:
            while not self._stop.is_set() and not (until_empty and not self._waiting):
                group = self._collected(consumer, every, most)
                if group.ends:
                    done = self._commit(group, producer)
                    if on_commit is not None:
                        on_commit(done)
        finally:
            consumer.close()
            producer.close()

    def _consumer(self) -> Any:
        """Return a consumer of all partitions, each behind what the catalog has of it."""
        kafka = kafka_package()
        settings = client_settings(self._place.brokers, self._complaints, consumer_settings(self._given), _DEFAULTS)
        consumer = make_client(kafka.Consumer, settings)
        partitions = consumer.list_topics(self._place.topic, timeout=PATIENCE).topics[self._place.topic].partitions
        places = []
        for number in partitions:
            place = kafka.TopicPartition(self._place.topic, number)
            low, _ = consumer.get_watermark_offsets(place, timeout=PATIENCE)
            self._stored[number] = self._catalog.position(self._name(number))
            # A compacted topic has the last word about every id, also where its beginning was cut off meanwhile.
            place.offset = max(low, self._stored[number] or 0)
            places.append(place)
        self._waiting = set(partitions)
        consumer.assign(places)
        return consumer

    def _name(self, partition: int) -> str:
        return f"{self._source}/{partition}"

    def _collected(self, consumer: Any, every: float, most: int) -> _Group:
        """Return the changes of the next so many seconds, counted from the first of them."""
        group, until, n_records = _Group({}, [], {}), time.monotonic() + every, 0
        while n_records < most and not self._stop.is_set():
            for message in consumer.consume(min(most - n_records, 1_000), _POLL):
                if self._is_record(message):
                    n_records += 1
                    self._take(message, group)
            self._complaints.check()
            if time.monotonic() > until or not self._waiting:
                break
        return group

    def _is_record(self, message: Any) -> bool:
        """Say whether a message is a record; remember ends of partitions; raise BrokerError for what is an error."""
        error = message.error()
        if error is None:
            self._waiting.add(message.partition())
            return True
        if error.code() == kafka_package().KafkaError._PARTITION_EOF:
            self._waiting.discard(message.partition())
        elif not error.retriable():
            raise BrokerError(f"the Kafka cluster at {self._place.brokers} cannot be read: {error.str()}")
        return False

    def _take(self, message: Any, group: _Group) -> None:
        group.ends[message.partition()] = message.offset() + 1
        try:
            id, change = self._change(message)
        except (EventsieveError, ValueError) as problem:
            group.bad.append((message, str(problem)))
            return
        group.last.pop(id, None)  # what is said anew is said last
        group.last[id] = (message, change)

    def _change(self, message: Any) -> tuple[Id, dict[str, Any] | None]:
        """Return an id, and the subscription it is to be or None."""
        if message.key() is None:
            raise DataError("the record has no key, which would be the id of a subscription")
        id = self._read_id(message.key().decode("utf-8"))
        if message.value() is None:
            return id, None
        change = json.loads(message.value())
        if not isinstance(change, dict):
            raise DataError('the value is not a JSON object such as {"filter": "price < 10"}')
        if change.pop("id", id) != id:
            raise DataError("the value names another id than the key")
        return id, change

    def _commit(self, group: _Group, producer: RecordProducer) -> Followed:
        """Bring the catalog to what a group says; letters first: after a kill they are there twice, not missing."""
        written = [
            (message, {"id": id, **change}) for id, (message, change) in group.last.items() if change is not None
        ]
        removed = [id for id, (_, change) in group.last.items() if change is None]
        lines = [json.dumps(row) for _, row in written]
        positions = {self._name(at): Moved(self._stored[at], end) for at, end in group.ends.items()}

        def refuse(report: LoadReport) -> None:
            refused = [(written[problem.line - 1][0], problem.reason) for problem in report.problems]
            self._send([*group.bad, *refused], producer)

        done = self._catalog.mirror(lines, removed, positions, self._source, refuse)
        if done.committed:
            self._stored.update(group.ends)
        return Followed(done.version, done.written, done.removed, len(group.bad) + len(done.report.problems))

    def _send(self, bad: list[tuple[Any, str]], producer: RecordProducer) -> None:
        for message, reason in bad:
            place = f"{self._place.topic}/{message.partition()}/{message.offset()}"
            headers = [*(message.headers() or []), (EVENT_HEADER, place), (REASON_HEADER, reason[:_LONGEST_REASON])]
            producer.produce(Record(self._letters.topic, message.key(), message.value() or b"", headers))
        if bad:
            producer.flush()
