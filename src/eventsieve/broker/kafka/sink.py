"""Deliveries to Kafka topics, at least once: with an idempotent producer, acknowledged by all replicas.

The producer's own retries neither repeat nor reorder records. Only a batch of which something was refused for good, or
that was under way when this process ended, is sent once more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from eventsieve.broker.kafka.client import (
    Cluster,
    Complaints,
    client_settings,
    kafka_package,
    make_client,
    producer_settings,
)
from eventsieve.broker.kafka.records import Record, RecordForm
from eventsieve.broker.transport import Delivery
from eventsieve.errors import BrokerError, GivenUpError
from eventsieve.kafka import KafkaPlace

_DEFAULTS: Final = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "delivery.report.only.error": True,
    # What is under way is bounded by both: more of it would not make the cluster faster.
    "queue.buffering.max.messages": 20_000,
    "queue.buffering.max.kbytes": 65_536,
    # What is too large is the topic's to say, which can be told to take more.
    "message.max.bytes": 64 << 20,
    # A server may be away for as long before a batch counts as refused, and is tried again.
    "message.timeout.ms": 30_000,
}
_LOOK_UP: Final = 0.2
"""Seconds after which a producer that waits looks whether it should still."""


class RecordProducer:
    """A producer that takes records, waits while too many are under way, and tells what was not stored."""

    def __init__(self, brokers: str, settings: Mapping[str, str], defaults: Mapping[str, Any] | None = None) -> None:
        self.brokers = brokers
        self.complaints = Complaints(brokers)
        self.failures: list[Any] = []
        self._interrupted = threading.Event()
        merged = {**_DEFAULTS, **(defaults or {}), "on_delivery": self._reported}
        given = producer_settings(settings)
        self.client = make_client(kafka_package().Producer, client_settings(brokers, self.complaints, given, merged))

    def produce(self, record: Record) -> None:
        """Give a record to the producer; wait while its queue is full."""
        while True:
            try:
                self.client.produce(record.topic, record.value, record.key, headers=record.headers)
                return
            except BufferError:
                self.client.poll(_LOOK_UP)
                self.check()
            except kafka_package().KafkaException as cause:
                self._raise(cause.args[0], cause)

    def flush(self) -> None:
        """Return when every record is stored by all replicas; raise if one is not."""
        while self.client.flush(_LOOK_UP):
            self.check()
        self.raise_failures()

    def raise_failures(self) -> None:
        """Raise if a record was not stored."""
        if self.failures:
            error, self.failures = self.failures[0], []
            self._raise(error, None)

    def check(self) -> None:
        """Raise if there is no use in waiting."""
        if self._interrupted.is_set():
            raise BrokerError("stopped while Kafka had not yet stored all records")
        if self.complaints.refused is not None:
            raise GivenUpError(self.complaints.refused)

    def interrupt(self) -> None:
        """Make a call that waits raise."""
        self._interrupted.set()

    def close(self) -> None:
        """Drop what is not stored: whoever gave it has been told so."""
        with suppress(kafka_package().KafkaException):  # a client that was fenced off refuses even this
            self.client.purge()
            self.client.flush(_LOOK_UP)

    def _reported(self, error: Any, record: Any) -> None:
        if error is not None:
            self.failures.append(error)

    def _raise(self, error: Any, cause: BaseException | None) -> None:
        """Say what a record was refused for; where another attempt cannot help, say that too."""
        errors = kafka_package().KafkaError
        told = f"the Kafka cluster at {self.brokers} does not store a record: {error.str()}"
        if error.code() == errors.MSG_SIZE_TOO_LARGE:
            raise GivenUpError(
                f"{told}; let the topic take larger ones (max.message.bytes), or leave the event out of its matches"
            ) from cause
        hopeless = (errors.UNKNOWN_TOPIC_OR_PART, errors._UNKNOWN_TOPIC, errors.TOPIC_AUTHORIZATION_FAILED)
        if error.code() in hopeless or error.fatal():
            raise GivenUpError(told) from cause
        raise BrokerError(told) from cause


class KafkaSink:
    """Records to one topic, or to one for each subscription or owner; those are made when first needed."""

    def __init__(self, place: KafkaPlace, form: RecordForm, settings: Mapping[str, str] | None = None) -> None:
        self._form = form
        self._cluster = Cluster(place.brokers, settings or {})
        self._known = set() if form.by is not None else {place.topic}
        self._cluster.check(self._known)
        self._producer = self._open(place.brokers, settings or {})

    def _open(self, brokers: str, settings: Mapping[str, str]) -> RecordProducer:
        settings = {name: value for name, value in settings.items() if not name.startswith("transaction")}
        return RecordProducer(brokers, settings)

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Give the records of deliveries to the producer."""
        found = [record for delivery in deliveries for record in self._form.records(delivery)]
        self._make_topics(found)
        for record in found:
            self._producer.produce(record)

    def flush(self) -> None:
        """Return when they are stored by all replicas."""
        self._producer.flush()

    def interrupt(self) -> None:
        """Stop waiting for the cluster."""
        self._producer.interrupt()

    def close(self) -> None:
        """Let go of the connection."""
        self._producer.close()

    def _make_topics(self, found: Sequence[Record]) -> None:
        if self._form.by is not None:
            missing = {record.topic for record in found} - self._known
            if missing:
                self._cluster.make_topics(sorted(missing))
                self._known |= missing
