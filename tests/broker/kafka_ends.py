"""Topics as the ends of a broker: what the Kafka tests share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from eventsieve.broker import Broker
from eventsieve.broker.kafka import KafkaLetters, KafkaSink, KafkaSource, TransactionalKafkaSink
from eventsieve.broker.kafka.records import RecordForm
from eventsieve.broker.wire import Output
from eventsieve.index.index import Index
from eventsieve.kafka import KafkaPlace
from tests.kafka.server import Kafka


class Ends:
    """A topic of events, one of matches, and brokers between them."""

    def __init__(self, kafka: Kafka, partitions: int = 1) -> None:
        self.kafka = kafka
        self.ticks, self.matches = kafka.topic("ticks", partitions), kafka.topic("matches", partitions)

    def place(self, topic: str) -> KafkaPlace:
        return KafkaPlace(self.kafka.address, topic)

    def source(self, **options: Any) -> KafkaSource:
        options = {"group": f"group-{self.ticks}", "follow": False, **options}
        return KafkaSource(self.place(self.ticks), **options)

    def form(self, output: Output = "pairs", with_event: bool = False) -> RecordForm:
        return RecordForm(self.place(self.matches), output, with_event)

    def broker(
        self, index: Index, source: KafkaSource | None = None, exactly_once: bool = False, name: str = "one",
        output: Output = "pairs", with_event: bool = False, **options: Any,
    ) -> Broker:  # fmt: skip
        """Return a broker between the two, attached and not started."""
        source, form = source or self.source(), self.form(output, with_event)
        sink: KafkaSink = KafkaSink(self.place(self.matches), form)
        if exactly_once:
            sink = TransactionalKafkaSink(self.place(self.matches), form, source, f"{name}-{self.ticks}")
        letters = KafkaLetters(self.place(f"{self.ticks}-dead-letter"))
        made = Broker(index, sources=[source], dead_letters=letters, **options)
        made.attach(sink, name="sink", everything=True, when_full="block", when_refused="stop")
        return made

    def run(self, index: Index, **options: Any) -> None:
        """Let a broker match what is there."""
        with self.broker(index, **options) as broker:
            assert broker.wait(60)

    def send(self, rows: Sequence[dict[str, Any]]) -> None:
        """Send events, each with its `n` as the key."""
        self.kafka.send(self.ticks, [{"value": json.dumps(row), "key": str(row.get("n", ""))} for row in rows])

    def found(self) -> list[tuple[Any, Any, Any]]:
        """Return (event, subscription, version) of every match that counts, from the headers."""
        return [match_of(each) for each in self.kafka.read(self.matches)]


def headers_of(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def match_of(message: Any) -> tuple[Any, Any, Any]:
    """Return what names a match, wherever it is told."""
    told = headers_of(message)
    return told["eventsieve-event"], told["eventsieve-subscription"], told["eventsieve-version"]


def events_of(find: Callable[[], list[tuple[Any, Any, Any]]]) -> list[str]:
    return [event for event, _, _ in find()]
