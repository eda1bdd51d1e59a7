"""Subscriptions that come over a compacted topic: the catalog follows, exactly, also over a kill."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import eventsieve as es
from eventsieve.broker.kafka.follower import Followed, Follower
from eventsieve.catalog import Catalog
from eventsieve.errors import BrokerError
from eventsieve.kafka import KafkaPlace
from tests.kafka.server import Kafka
from tests.kafka.streams import headers_of
from tests.spark.processes import Command

SCHEMA = es.Schema({"price": es.Float(), "symbol": es.Text()})


@pytest.fixture
def shop(tmp_path: Path) -> Catalog:
    return Catalog.create(tmp_path / "shop", SCHEMA)


def change(id: str, filter: str | None, **more: Any) -> dict[str, Any]:
    return {"key": id, "value": None if filter is None else json.dumps({"filter": filter, **more})}


def follow(catalog: Catalog, kafka: Kafka, topic: str, most: int = 10_000) -> list[Followed]:
    heard: list[Followed] = []
    follower = Follower(catalog, KafkaPlace(kafka.address, topic))
    follower.run(until_empty=True, most=most, on_commit=heard.append)
    return heard


def filters_of(catalog: Catalog) -> dict[str, str]:
    return {row["id_text"]: row["filter"] for row in catalog.rows().to_pylist()}


def test_changes_tombstones_and_bad_filters(kafka: Kafka, shop: Catalog) -> None:
    topic = kafka.topic("subscriptions", partitions=2, cleanup_policy="compact")
    kafka.send(topic, [change("ann", "price < 1", owner="ann"), change("bob", "price < 2"), change("eve", "price < 3")])
    [first] = follow(shop, kafka, topic)
    assert (first.version, first.written, first.removed, first.refused) == (1, 3, 0, 0)
    kafka.send(
        topic,
        [
            change("ann", "price < 10"),
            change("bob", None),
            change("eve", "prise < 3"),
            {"key": "zoe", "value": "not JSON"},
            {"key": "max", "value": '{"filter": "price < 1", "ownr": "max"}'},
        ],
    )
    [second] = follow(shop, kafka, topic)
    assert (second.version, second.written, second.removed, second.refused) == (2, 1, 1, 3)
    assert filters_of(shop) == {"ann": "price < 10", "eve": "price < 3"}
    letters = {each.key(): headers_of(each)["eventsieve-reason"] for each in kafka.read(f"{topic}-dead-letter")}
    assert letters.keys() == {b"eve", b"zoe", b"max"}
    assert "did you mean 'price'?" in letters[b"eve"]
    assert follow(shop, kafka, topic) == []


def test_an_unknown_topic_is_named(kafka: Kafka, shop: Catalog) -> None:
    with pytest.raises(BrokerError, match="has no topic named 'nowhere'"):
        Follower(shop, KafkaPlace(kafka.address, "nowhere"))


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="kills a group of processes")
def test_a_killed_follower_goes_on_exactly_where_the_catalog_is(kafka: Kafka, shop: Catalog, tmp_path: Path) -> None:
    topic = kafka.topic("subscriptions", partitions=2)
    kafka.send(topic, [change(f"s{n % 700}", f"price < {n}") for n in range(3_000)])
    words = ["sub", "follow", f"kafka:{kafka.address}/{topic}", "--catalog", str(shop.path), "--most", "50"]
    command = Command(tmp_path, *words)
    command.wait_for(lambda: shop.version >= 5, "five versions")
    command.kill()
    follow(shop, kafka, topic, most=200)
    wanted = {f"s{n % 700}": f"price < {n}" for n in range(3_000)}
    assert filters_of(shop) == wanted
    # Exactly: no record was taken twice, so none was written more often than it was sent.
    written = sum(sum(entry.operations.values()) for entry in shop.history())
    assert written <= 3_000 + 1  # and the schema
    source = next(entry.author for entry in shop.history(1))
    assert sum(shop.position(f"{source}/{number}") or 0 for number in range(2)) == 3_000
