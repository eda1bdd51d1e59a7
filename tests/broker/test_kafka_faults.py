"""Topic to topic while things go wrong: servers and brokers are killed, and members of a group come and go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from eventsieve.catalog import Catalog
from eventsieve.index.index import Index
from tests.broker.helpers import wait_for
from tests.broker.kafka_ends import Ends
from tests.kafka.server import Kafka, OwnKafka
from tests.spark.market import SCHEMA, events, expected, filters
from tests.spark.processes import Command

pytestmark = pytest.mark.deep


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for id, text in enumerate(filters(25)):
            edit.add(id, text)
        edit.add(1000, "price >= 0")  # every event matches, so that a lost one shows
    return made


class Commands:
    """`eventsieve broker` in processes of their own, between two topics."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.catalog = folder, catalog
        self.all: list[Command] = []

    def start(self, ends: Ends, *more: str) -> Command:
        folder = self.folder / f"command-{len(self.all)}"
        folder.mkdir()
        words = ["broker", "--catalog", str(self.catalog.path), "--key", "event_id", "--matcher", "sieve"]
        words += ["--source", str(ends.place(ends.ticks)), "--sink", str(ends.place(ends.matches))]
        # A member with a name is itself again after a restart; else the group first waits for the dead one.
        words += ["--kafka", "group.instance.id=only", *more]
        self.all.append(Command(folder, *words))
        return self.all[-1]


@pytest.fixture
def commands(tmp_path: Path, catalog: Catalog) -> Iterator[Commands]:
    made = Commands(tmp_path, catalog)
    yield made
    for command in made.all:
        if not command.ended():
            command.kill()


class Watch:
    """How many records a topic has. Counts markers of transactions too, so it is no more than a measure of progress."""

    def __init__(self, kafka: Kafka, topic: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "watch", "log_level": 0})
        self._places = [TopicPartition(topic, number) for number in range(partitions)]

    def count(self) -> int:
        return sum(self._consumer.get_watermark_offsets(place, timeout=30)[1] for place in self._places)

    def close(self) -> None:
        self._consumer.close()


def sent(ends: Ends, count: int) -> list[dict[str, Any]]:
    rows = events(count, seed=11)
    ends.kafka.send(ends.ticks, [json.dumps(row) for row in rows])
    return rows


def pairs_of(ends: Ends) -> list[tuple[str, int]]:
    """Return (event, subscription) of every record, one after the other, those that came twice too."""
    found = (json.loads(each.value()) for each in ends.kafka.read(ends.matches))
    return [(value["event_id"], id) for value in found for id in value["subscription_ids"]]


def test_100_000_events_while_the_server_is_killed_and_comes_back(
    own_kafka: OwnKafka, catalog: Catalog, commands: Commands
) -> None:
    ends = Ends(own_kafka, partitions=4)
    rows = sent(ends, 100_000)
    watch = Watch(own_kafka, ends.matches, 4)
    command = commands.start(ends, "--until-empty")
    command.wait_for(lambda: watch.count() > 10_000, "the first matches")
    own_kafka.kill()
    own_kafka.restart()
    assert command.finish() == 0, command.errors()
    assert json.loads(command.output())["dead_letters"] == 0
    assert set(pairs_of(ends)) == expected(catalog.subscriptions(), rows), "what came twice has the same names"
    watch.close()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_broker_that_is_killed_goes_on_where_it_was(
    kafka: Kafka, catalog: Catalog, commands: Commands, exactly_once: bool
) -> None:
    ends = Ends(kafka, partitions=2)
    rows = sent(ends, 30_000)
    watch = Watch(kafka, ends.matches, 2)
    options = ["--until-empty", *(["--exactly-once"] if exactly_once else [])]
    for least in (2_000, 12_000):
        command = commands.start(ends, *options)
        command.wait_for(lambda least=least: watch.count() > least, "more matches")
        command.kill()
    assert (last := commands.start(ends, *options)).finish() == 0, last.errors()
    found = pairs_of(ends)
    assert set(found) == expected(catalog.subscriptions(), rows)
    if exactly_once:
        assert len(found) == len(set(found)), "nothing came twice"
    watch.close()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_member_that_joins_and_leaves_takes_its_share_and_nothing_is_lost(
    kafka: Kafka, make_index: Callable[..., Index], exactly_once: bool
) -> None:
    ends = Ends(kafka, partitions=4)
    index = {"low": "price < 50", "all": "price >= 0"}
    options: dict[str, Any] = {"exactly_once": exactly_once, "unknown": "ignore", "batch": 32, "key": "n"}
    sources = [ends.source(follow=True, named=False) for _ in range(2)]
    count, early = 12_000, 4_000
    ends.send([{"n": n, "price": n % 100} for n in range(early)])
    first = ends.broker(make_index(filters=index), source=sources[0], name="first", **options)
    first.start()
    wait_for(lambda: first.stats().delivered > 500, "the first deliveries")
    second = ends.broker(make_index(filters=index), source=sources[1], name="second", **options)
    second.start()
    wait_for(lambda: len(sources[1]._owned) == 2, "two partitions of four for the second")
    # Whatever the first was quick to deliver before: of these, the second has its share.
    ends.send([{"n": n, "price": n % 100} for n in range(early, count)])
    wait_for(lambda: second.stats().delivered > 500, "deliveries of the second")
    second.stop()
    wait_for(lambda: len(sources[0]._owned) == 4, "all partitions back with the first")
    ends.send([{"n": n, "price": n % 100} for n in range(count, count + 500)])
    found: list[Any] = []

    def complete() -> bool:
        found[:] = ends.found()
        return {int(event) for event, _, _ in found} == set(range(count + 500))

    wait_for(complete, "every event")
    first.stop()
    found = ends.found()
    assert len(set(found)) == sum(1 + (n % 100 < 50) for n in range(count + 500))
    if exactly_once:
        assert len(found) == len(set(found)), "nothing came twice"
