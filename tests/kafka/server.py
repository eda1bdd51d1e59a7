"""Fixtures with a real Kafka server: `kafka`, one for the whole test run, and `own_kafka`, to be killed.

A `conftest.py` beside tests that need them has `from tests.kafka.server import kafka, own_kafka`. Where the jars cannot
be had, tests that ask for a server are left out with one line that says why; with EVENTSIEVE_REQUIRE_KAFKA=1 they fail.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tools.kafka.jars import JarsMissingError, server_jars
from tools.kafka.server import KafkaServer

USERS = {"alice": "alice-knows"}
PATIENCE = 60.0


@dataclass(frozen=True)
class Kafka:
    """Where a server is, and the few things that tests do with it."""

    address: str
    secured: str
    """A listener that asks for one of USERS."""

    def topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Make a topic whose name nobody else uses; return the name. Dots in settings are underscores here."""
        from confluent_kafka.admin import AdminClient, NewTopic

        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        admin.create_topics([NewTopic(unique, partitions, 1, config=config)])[unique].result(PATIENCE)
        return unique

    def send(self, topic: str, records: Sequence[bytes | str | Mapping[str, Any] | None]) -> None:
        """Send values, or mappings with value, key, headers, partition and timestamp; return when all are stored."""
        from confluent_kafka import Producer

        producer = Producer({
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.max.bytes": 8 << 20,
            "log_level": 0,
        })  # fmt: skip
        failures: list[Any] = []
        for record in records:
            fields = dict(record) if isinstance(record, Mapping) else {"value": record}
            while True:
                try:
                    producer.produce(topic, on_delivery=lambda error, _: error and failures.append(error), **fields)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE) == 0, "not all records were stored"
        assert not failures, failures[:3]

    def read(self, topic: str) -> list[Any]:
        """Return all messages of a topic from its beginning to its present end."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({
            "bootstrap.servers": self.address,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        })  # fmt: skip
        try:
            numbers = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
            places = [TopicPartition(topic, number, 0) for number in numbers]
            ends = {place.partition: consumer.get_watermark_offsets(place, timeout=PATIENCE)[1] for place in places}
            consumer.assign(places)
            found: list[Any] = []
            while any(place.offset < ends[place.partition] for place in _positions(consumer, places)):
                found += [each for each in consumer.consume(10_000, timeout=0.2) if each.error() is None]
            return [each for each in found if each.offset() < ends[each.partition()]]
        finally:
            consumer.close()

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        from confluent_kafka.admin import AdminClient

        return set(
            AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=PATIENCE).topics
        )


def _positions(consumer: Any, places: list[Any]) -> list[Any]:
    """Return where the consumer is; a partition it has not read from yet is at its beginning."""
    found = consumer.position(places)
    for place in found:
        place.offset = max(place.offset, 0)
    return found


def jars() -> Path:
    """Return the server's jars; leave the test out, or fail it, where there are none."""
    try:
        return server_jars()
    except JarsMissingError as missing:
        left_out(missing)


def left_out(missing: JarsMissingError) -> NoReturn:
    """Leave the test out, or fail it where Kafka is required."""
    if os.environ.get("EVENTSIEVE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Kafka is required here: {missing}")
    pytest.skip(f"Kafka tests are left out: {missing}")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The server that all tests of a run share, over all worker processes. Nobody may stop it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    with open(root / "kafka.users", "w") as users, open(root / "kafka.lock", "w") as changing:
        # Whoever uses the server holds `users` shared; whoever can have it alone afterwards is the last one.
        fcntl.flock(changing, fcntl.LOCK_EX)
        state = root / "kafka.json"
        if not state.exists():
            server = KafkaServer(root / "kafka", jars(), USERS)
            server.start()
            state.write_text(json.dumps({"pid": server.leave(), "address": server.address, "secured": server.secured}))
        running = json.loads(state.read_text())
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(changing, fcntl.LOCK_UN)
        yield Kafka(running["address"], running["secured"])
        fcntl.flock(changing, fcntl.LOCK_EX)
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state.unlink()
            os.kill(running["pid"], signal.SIGKILL)  # its data go with the folder, so nothing needs to be finished
            with suppress(ChildProcessError):  # another worker started it
                os.waitpid(running["pid"], 0)


class OwnKafka(Kafka):
    """A server of one test alone."""

    def __init__(self, server: KafkaServer) -> None:
        super().__init__(server.address, server.secured)
        object.__setattr__(self, "server", server)

    server: KafkaServer

    def kill(self) -> None:
        """End it as a power cut would."""
        self.server.kill()

    def restart(self) -> None:
        """Start it again with its data, at the same address."""
        self.server.start()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[OwnKafka]:
    """A server that the test may kill and restart."""
    server = KafkaServer(tmp_path / "kafka", jars(), USERS)
    server.start()
    yield OwnKafka(server)
    server.kill()
