"""Topic to topic through Spark, as commands in processes of their own: what goes in and what comes out."""

from __future__ import annotations

import json

import pytest

from eventsieve.catalog import Catalog
from tests.kafka.server import Kafka
from tests.kafka.streams import Runner, headers_of
from tests.spark.market import as_lines, events, expected

# A Spark session of its own for each: some thirty seconds of two cores.
pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("connector")]


def test_matches_and_dead_letters_reach_their_topics_with_all_that_came_along(
    kafka: Kafka, catalog: Catalog, runner: Runner
) -> None:
    rows = events(300, seed=5)
    ticks, matches = kafka.topic("ticks", partitions=2), kafka.topic("matches")
    good = [
        {"value": line, "key": row["symbol"], "headers": {"trace": row["event_id"].encode()}}
        for row, line in zip(rows, as_lines(rows), strict=True)
    ]
    poison: dict[bytes | None, str] = {
        b"not JSON": "not a JSON object",
        b'{"event_id": "b1", "price": "abc"}': "price",
        b'{"event_id": "b2", "price": ': "not a JSON object",
        b'{"event_id": "b6" "price": 1}': "JSON",
        b'[{"event_id": "b3", "price": 1}]': "not a JSON object",
        b'{"event_id": "b4", "symbol": "\xff\xfe"}': "UTF-8",
        b'{"event_id": "b5", "symbol": "' + b"x" * 5_000_000 + b'"}': "5000032 bytes",
        None: "no value",
    }
    kafka.send(ticks, good[:150])
    kafka.send(ticks, [{"value": value, "key": "poison", "headers": {"trace": b"p"}} for value in poison])
    kafka.send(ticks, good[150:])
    place = f"kafka:{kafka.address}/{{}}"
    command = runner.start(
        catalog, place.format(ticks), place.format(matches), "--key", "event_id", "--rate", "200", "--until-empty",
        "--keep", "value", "--keep", "key", "--keep", "headers", "--keep", "offset",
    )  # fmt: skip
    assert command.finish() == 0, command.errors()
    summary = json.loads(command.output())
    assert (summary["events"], summary["malformed"]) == (308, 8)
    assert "behind" in command.errors()

    found = kafka.read(matches)
    values = [json.loads(each.value()) for each in found]
    assert len(found) == summary["matches"]
    assert {(value["event_id"], value["subscription_id"]) for value in values} == expected(
        catalog.subscriptions(), rows
    )
    row_of = {row["event_id"]: row for row in rows}
    for message, value in zip(found, values, strict=True):
        row = row_of[value["event_id"]]
        assert value["event"] == row
        assert message.key().decode() == row["symbol"]
        assert headers_of(message) == {
            "trace": row["event_id"],
            "eventsieve-event": row["event_id"],
            "eventsieve-subscription": str(value["subscription_id"]),
            "eventsieve-version": "1",
            "eventsieve-mode": "exact",
        }

    letters = kafka.read(f"{ticks}-dead-letter")
    assert {each.value(): each.key() for each in letters} == dict.fromkeys(poison, b"poison")
    for letter in letters:
        told = headers_of(letter)
        assert poison[letter.value()] in told["eventsieve-reason"]
        assert told["eventsieve-event"].startswith(f"{ticks}/")
        assert told["trace"] == "p"


def test_subscriptions_and_owners_can_have_topics_of_their_own(kafka: Kafka, catalog: Catalog, runner: Runner) -> None:
    rows = events(60, seed=6)
    ticks = kafka.topic("ticks")
    kafka.send(ticks, as_lines(rows))
    source, name = f"kafka:{kafka.address}/{ticks}", f"m-{ticks}"
    commands = [
        runner.start(catalog, source, f"kafka:{kafka.address}/{name}-{{{by}}}", "--until-empty", checkpoint=by)
        for by in ("owner", "subscription")
    ]
    for command in commands:
        assert command.finish() == 0, command.errors()
    wanted = expected(catalog.subscriptions(), rows)
    topics = [topic for topic in kafka.topics() if topic.startswith(f"{name}-")]
    places = {topic: [json.loads(each.value()) for each in kafka.read(topic)] for topic in topics}
    ids = {id for _, id in wanted}
    by_subscription = {id: places.pop(f"{name}-{id}") for id in ids}
    assert all({each["subscription_id"] for each in found} == {id} for id, found in by_subscription.items())
    assert sum(map(len, by_subscription.values())) == len(wanted)
    # Without keys of the user's, an event is named by its place; owners' names are made fit for topics.
    assert {each["kafka_topic"] for found in by_subscription.values() for each in found} == {ticks}
    owner_of = {topic.removeprefix(f"{name}-").partition("-")[0]: found for topic, found in places.items()}
    assert set(owner_of) == {"team_0", "team_1", "team_2", "nobody"}
    assert {each["subscription_id"] for each in owner_of["nobody"]} == {1000}
    assert {each["subscription_id"] % 3 for each in owner_of["team_1"]} == {1}
    assert sum(map(len, places.values())) == len(wanted)
