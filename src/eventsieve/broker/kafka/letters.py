"""Dead letters to a topic: the message's bytes, key and headers as they came, and the reason in a header of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eventsieve.broker.decoding import default_id
from eventsieve.broker.kafka.client import Cluster
from eventsieve.broker.kafka.records import Record
from eventsieve.broker.kafka.sink import RecordProducer
from eventsieve.broker.transport import DeadLetter
from eventsieve.broker.wire import to_json
from eventsieve.errors import DataError, GivenUpError
from eventsieve.kafka import EVENT_HEADER, REASON_HEADER, KafkaPlace

CUT_HEADER: Final = "eventsieve-cut"
"""How many bytes a value had of which only the beginning is in the letter."""
_BEGINNING: Final = 1 << 16
_LONGEST_REASON: Final = 1_000


class KafkaLetters:
    """Letters into one topic, which is made if it is not there."""

    def __init__(self, place: KafkaPlace, settings: Mapping[str, str] | None = None) -> None:
        if place.placeholder is not None or len(place.topics) > 1:
            raise DataError(f"dead letters go to one topic, not to {place.topic!r}")
        Cluster(place.brokers, settings or {}).make_topics([place.topic])
        self._topic = place.topic
        plain = {name: value for name, value in (settings or {}).items() if not name.startswith("transaction")}
        self._producer = RecordProducer(place.brokers, plain)

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Return when all are stored. One that the topic finds too large is stored with its beginning."""
        found = [self._record(letter) for letter in letters]
        for record in found:
            if len(record.value) <= _BEGINNING:
                self._producer.produce(record)
        self._producer.flush()
        for record in found:
            if len(record.value) > _BEGINNING:
                self._put_large(record)

    def _put_large(self, record: Record) -> None:
        """Store a large letter by itself, so that its neighbours are not repeated when it has to be cut."""
        try:
            self._producer.produce(record)
            self._producer.flush()
        except GivenUpError:
            cut = (CUT_HEADER, str(len(record.value)))
            self._producer.produce(record._replace(value=record.value[:_BEGINNING], headers=[*record.headers, cut]))
            self._producer.flush()

    def close(self) -> None:
        """Let go of the connection."""
        self._producer.close()

    def _record(self, letter: DeadLetter) -> Record:
        message, reason = letter
        value = message.value
        data = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else to_json(value)
        event = message.id if message.id is not None else default_id(message.publisher, message.position)
        headers = [*message.headers, (EVENT_HEADER, str(event)), (REASON_HEADER, reason[:_LONGEST_REASON])]
        return Record(self._topic, message.key, data, headers)
