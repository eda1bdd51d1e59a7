"""Kills in the middle of a stream over Kafka: nothing is lost, and what is sent twice can be told by its headers."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eventsieve.catalog import Catalog
from tests.kafka.server import Kafka, OwnKafka
from tests.kafka.streams import Runner, headers_of
from tests.spark.market import as_lines, events, expected

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("connector")]


def matches_in(messages: list[Any]) -> set[tuple[str, int]]:
    """Return (event, subscription) of records with a subscription each, or with many."""
    found: set[tuple[str, int]] = set()
    for message in messages:
        value = json.loads(message.value())
        ids = value["subscription_ids"] if "subscription_ids" in value else [value["subscription_id"]]
        found.update((value["event_id"], id) for id in ids)
    return found


def test_a_hundred_thousand_events_with_the_driver_killed_give_what_one_process_gives(
    kafka: Kafka, catalog: Catalog, runner: Runner
) -> None:
    rows = events(100_000, seed=9)
    ticks, matches = kafka.topic("ticks", partitions=3), kafka.topic("matches", partitions=2)
    kafka.send(ticks, as_lines(rows))
    source, sink = (f"kafka:{kafka.address}/{topic}" for topic in (ticks, matches))
    words = ("--key", "event_id", "--output", "arrays", "--rate", "20000", "--until-empty")
    first = runner.start(catalog, source, sink, *words)
    first.wait_for(lambda: runner.done("state") >= 2, "two finished batches")
    first.kill()
    catalog.add(2000, "price < 0")  # a new version, which batches that were begun before must not use
    second = runner.start(catalog, source, sink, *words)
    assert second.finish() == 0, second.errors()
    found = kafka.read(matches)
    assert matches_in(found) == expected(catalog.subscriptions(), rows)
    # Every event matches something, so there is a record for each; one that came twice says the same twice.
    names = Counter((headers["eventsieve-event"], headers["eventsieve-version"]) for headers in map(headers_of, found))
    assert len(names) == len(rows)
    values = {(headers_of(each)["eventsieve-event"], each.value()) for each in found if repeated(names, each)}
    assert len(values) == sum(1 for count in names.values() if count > 1)


def repeated(names: Counter[tuple[str, str]], message: Any) -> bool:
    headers = headers_of(message)
    return names[headers["eventsieve-event"], headers["eventsieve-version"]] > 1


def test_a_stream_outlives_a_power_cut_of_kafka(own_kafka: OwnKafka, catalog: Catalog, runner: Runner) -> None:
    rows = events(3_000, seed=3)
    ticks, matches = own_kafka.topic("ticks", partitions=2), own_kafka.topic("matches")
    own_kafka.send(ticks, as_lines(rows[:2_000]))
    source, sink = (f"kafka:{own_kafka.address}/{topic}" for topic in (ticks, matches))
    command = runner.start(catalog, source, sink, "--key", "event_id", "--rate", "250")
    command.wait_for(lambda: runner.done("state") >= 2, "two finished batches")
    own_kafka.kill()
    own_kafka.restart()
    own_kafka.send(ticks, as_lines(rows[2_000:]))
    wanted = expected(catalog.subscriptions(), rows)
    command.wait_for(lambda: ends_at(runner.folder, 3_000), "the last batch")
    command.process.send_signal(signal.SIGTERM)
    assert command.finish() == 0, command.errors()
    assert matches_in(own_kafka.read(matches)) == wanted


def ends_at(folder: Path, total: int) -> bool:
    """Return whether the last finished batch ends where the topic does."""
    finished = sorted((folder / "state" / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    if not finished:
        return False
    last = (folder / "state" / "spark" / "offsets" / finished[-1].name).read_text().splitlines()[-1]
    return sum(end for ends in json.loads(last).values() for end in ends.values()) == total
