"""Deliveries to Kafka and the offsets of their source in one transaction: exactly once, from topic to topic.

Whoever reads with `isolation.level=read_committed` sees every match once. That holds through

* a crash: the transaction that was under way is aborted when the next broker starts with the same transactional id, and
  its messages are read again;
* a broker that was taken for dead and is not: the cluster fences it off, and it stops with an error that says so;
* a rebalance: a transaction counts only for the generation of the group that it was begun in. Deliveries of partitions
  that have gone are left out, since their next owner makes them.

Dead letters are outside: they are at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eventsieve.broker.kafka.client import kafka_package, reason_of
from eventsieve.broker.kafka.records import RecordForm
from eventsieve.broker.kafka.sink import KafkaSink, RecordProducer
from eventsieve.broker.kafka.source import KafkaSource, offsets_of
from eventsieve.broker.transport import Delivery, Positions
from eventsieve.errors import BrokerError, GivenUpError
from eventsieve.kafka import PATIENCE, KafkaPlace

_SLICE: Final = 1.0
"""Seconds that one step of a transaction is waited for before looking whether the broker should stop."""
_TIMEOUT: Final = 60_000
"""Milliseconds after which the cluster ends a transaction whose broker is gone."""


class TransactionalKafkaSink(KafkaSink):
    """Like KafkaSink, and commits the offsets of `source` with what it sends.

    `id` is the transactional id: one for each broker that runs at the same time, and the same again after a restart.
    """

    def __init__(
        self,
        place: KafkaPlace,
        form: RecordForm,
        source: KafkaSource,
        id: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._source, self._id = source, (settings or {}).get("transactional.id", id)
        self._deliveries: list[Delivery] = []
        self._member: Any = None
        super().__init__(place, form, settings)

    def _open(self, brokers: str, settings: Mapping[str, str]) -> RecordProducer:
        defaults = {"transactional.id": self._id, "transaction.timeout.ms": _TIMEOUT}
        producer = RecordProducer(brokers, settings, defaults)
        try:
            producer.client.init_transactions(2 * PATIENCE)
        except kafka_package().KafkaException as cause:
            producer.complaints.check()
            raise BrokerError(
                f"the Kafka cluster at {brokers} does not begin transactions for {self._id!r}: {reason_of(cause)}"
            ) from cause
        return producer

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Keep deliveries until their positions are known.

        Who we are in the group is asked now, before the positions are looked at: should partitions move in between,
        this is the older generation, and the cluster refuses the transaction.
        """
        self._member = self._source.membership
        self._deliveries = list(deliveries)

    def commit_with(self, positions: Positions) -> None:
        """Send what belongs to these positions and commit both; if anything fails, neither counts."""
        if not positions:
            return
        if self._member is None:
            raise BrokerError(f"this broker is not a member of the consumer group {self._source.group!r} just now")
        found = [
            record
            for delivery in self._deliveries
            if delivery.message.publisher in positions
            for record in self._form.records(delivery)
        ]
        self._make_topics(found)
        client = self._producer.client
        try:
            client.begin_transaction()
            for record in found:
                self._producer.produce(record)
            self._step(lambda: client.send_offsets_to_transaction(offsets_of(positions), self._member, _SLICE))
            self._step(lambda: client.commit_transaction(_SLICE))
        except kafka_package().KafkaException as cause:
            self._fail(cause)
        except BrokerError:
            self._abort()
            raise

    def _step(self, call: Callable[[], object]) -> None:
        """Do one step of a transaction; it is resumed for as long as the cluster is only slow, or away."""
        while True:
            try:
                call()
                return
            except kafka_package().KafkaException as cause:
                if not cause.args[0].retriable():
                    raise
                self._producer.check()

    def _fail(self, cause: Any) -> None:
        error, self._producer.failures = cause.args[0], []
        if error.fatal() or error.code() == kafka_package().KafkaError._FENCED:
            raise GivenUpError(
                f"transactions of {self._id!r} are over: {error.str()}; if another broker has begun with the same "
                "transactional id, give each its own (--kafka transactional.id=NAME), else start this one again"
            ) from cause
        self._abort()
        raise BrokerError(f"a transaction was aborted and is tried again: {error.str()}") from cause

    def _abort(self) -> None:
        """End a transaction without effect. If even that fails, the next one of the same id does it."""
        self._producer.failures = []
        try:
            self._step(lambda: self._producer.client.abort_transaction(_SLICE))
        except (kafka_package().KafkaException, BrokerError):
            return

    def flush(self) -> None:
        """Nothing is sent outside a transaction."""
