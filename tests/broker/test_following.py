"""A broker that follows a catalog: few changes in place, many by exchange, and every delivery names its version."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eventsieve as es
from eventsieve.broker import Broker, Delivery, Message
from eventsieve.broker.engine import Engine
from eventsieve.broker.following import CatalogIndex, Follower
from eventsieve.broker.memory import MemorySink
from eventsieve.broker.wire import records
from eventsieve.catalog import Catalog
from eventsieve.elastic.settings import ElasticSettings
from eventsieve.model.events import Events
from tests.broker.conftest import SCHEMA
from tests.broker.helpers import wait_for


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for n in range(30):
            edit.add(n, f"price >= {n}")
    return made


def followed(catalog: Catalog, in_place: int = 500, **options: Any) -> tuple[Engine, Follower]:
    indexes = CatalogIndex(catalog, "simple", **options)
    engine = Engine(indexes.at(catalog.version), catalog.version)
    return engine, Follower(indexes, engine, in_place)


@pytest.mark.parametrize("in_place", [0, 500])
def test_the_index_is_that_of_the_newest_version(catalog: Catalog, in_place: int) -> None:
    engine, follower = followed(catalog, in_place)
    assert not follower.step()
    before = engine.index
    with catalog.edit() as edit:
        edit.add("new", "price < 5")
        edit.remove(3)
        edit.replace(4, "price > 99")
        edit.pause(5)
    assert follower.step()
    assert (engine.index is before) == (in_place > 0)
    assert engine.version == catalog.version == 2
    assert sorted(engine.index.match({"price": 4}), key=str) == [0, 1, 2, "new"]
    assert set(engine.index.subscriptions.ids.tolist()) == set(catalog.subscriptions().ids.tolist())
    catalog.resume(5)
    assert follower.step()
    assert sorted(engine.index.match({"price": 6})) == [0, 1, 2, 5, 6]


def test_new_attributes_take_a_new_index_and_events_under_way_still_match(catalog: Catalog) -> None:
    engine, follower = followed(catalog)
    under_way = Events.from_dicts(engine.schema, [{"price": 2}])
    catalog.grow_schema({"venue": es.Text()})
    catalog.add("venue", "venue = 'X' AND price > 0")
    assert follower.step()
    assert engine.schema.names[-1] == "venue"
    later = Events.from_dicts(engine.schema, [{"price": 0.5, "venue": "X"}])
    matched = engine.match([under_way, later], 0.0)
    assert matched.ids[: matched.event_start[1]].tolist() == [0, 1, 2]
    assert sorted(matched.ids[matched.event_start[1] :].tolist(), key=str) == [0, "venue"]


def test_routes_follow_subscriptions_through_every_change(catalog: Catalog) -> None:
    for in_place in (0, 500):
        engine, follower = followed(catalog, in_place)
        engine.give([1, f"later-{in_place}"], route=7)
        catalog.replace(1, "price > 50")
        catalog.add(f"later-{in_place}", "price > 60")
        assert follower.step()
        matched = engine.match([Events.from_dicts(engine.schema, [{"price": 70}])], 0.0)
        assert matched.routes is not None
        theirs = matched.ids[matched.routes == 7].tolist()
        assert sorted(theirs, key=str) == [1, f"later-{in_place}"]
        catalog.remove(f"later-{in_place}")
        assert follower.step()
        matched = engine.match([Events.from_dicts(engine.schema, [{"price": 70}])], 0.0)
        assert matched.routes is not None
        assert matched.ids[matched.routes == 7].tolist() == [1]


def test_deliveries_name_the_catalog_version_and_routed_ones_follow_it(catalog: Catalog) -> None:
    sink = MemorySink()
    own: list[Any] = []
    broker = Broker.of_catalog(catalog, matcher="simple")
    broker.attach(sink, everything=True)
    bob = broker.attach(lambda each: own.append((each.ids, each.version)), subscriptions=["later"])
    with broker:
        broker.publish({"price": 0.5})
        assert broker.drain(30)
        catalog.add("later", "price < 1")
        wait_for(lambda: broker.stats().version == 2, "the follower")
        broker.publish({"price": 0.5})
        with pytest.raises(es.BrokerError, match="those of a catalog: change it there"):
            bob.subscribe("mine", "price > 1")
    assert [(each.ids, each.version) for each in sink.deliveries] == [([0], 1), ([0, "later"], 2)]
    assert own == [(["later"], 2)]


def test_an_unreadable_catalog_does_not_stop_the_broker(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    _, follower = followed(catalog)
    looks = threading.Semaphore(0)
    stopping = threading.Event()

    def broken(*_: object) -> bool:
        looks.release()
        raise es.CatalogError("gone for a while")

    monkeypatch.setattr(follower, "step", broken)
    thread = threading.Thread(target=follower.run, args=(stopping, 0.001))
    thread.start()
    for _ in range(3):
        assert looks.acquire(timeout=30)
    stopping.set()
    thread.join()
    assert str(follower.failure) == "gone for a while"


def test_an_elastic_broker_has_plans_for_every_version(catalog: Catalog) -> None:
    settings = ElasticSettings.parse("max=10%,step=5%")
    sample = [{"price": n, "volume": n} for n in range(100)]
    broker = Broker.of_catalog(catalog, elastic=settings, sample=lambda index: sample)
    assert broker.engine.index.matcher.name == "spare-rein"
    with broker:
        catalog.remove(7)
        wait_for(lambda: broker.stats().version == 2, "the follower")
        wait_for(lambda: {"0.05", "0.1"} <= set(broker.engine.index.describe()["plans"]), "the plans")
    with pytest.raises(es.MatcherError, match="'simple' is exact and cannot give way"):
        Broker.of_catalog(catalog, matcher="simple", elastic=settings)


def test_a_delivery_shows_what_it_is() -> None:
    message = Message(b'{"price": 1}', "p", 3)
    delivery = Delivery(message, "e", np.array([1, 2]), np.array([False, True]), 9, 0.001, 0.0)
    assert list(records(delivery, "pairs")) == [
        {"event_id": "e", "subscription_id": 1, "match_mode": "exact", "catalog_version": 9},
        {
            "event_id": "e",
            "subscription_id": 2,
            "match_mode": "approximate",
            "false_positive_bound": 0.001,
            "catalog_version": 9,
        },
    ]
    assert list(records(delivery, "arrays", with_event=True)) == [
        {
            "event_id": "e",
            "subscription_ids": [1, 2],
            "match_mode": "approximate",
            "match_modes": ["exact", "approximate"],
            "false_positive_bound": 0.001,
            "catalog_version": 9,
            "event": {"price": 1},
        }
    ]
