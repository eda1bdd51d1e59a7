"""Topic to topic through a broker in this process: what comes along, what is refused, where it begins, how it waits."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from eventsieve.broker import Broker, Delivery
from eventsieve.broker.kafka import KafkaLetters, KafkaSink, KafkaSource, TransactionalKafkaSink
from eventsieve.broker.kafka.records import IDS_IN_RECORD, RecordForm
from eventsieve.broker.memory import MemorySink
from eventsieve.errors import BrokerError, DataError
from eventsieve.index.index import Index
from eventsieve.kafka import KafkaPlace, parse_start, read_settings
from tests.broker.helpers import wait_for
from tests.broker.kafka_ends import Ends, headers_of
from tests.kafka.server import Kafka

MakeIndex = Callable[..., Index]
NOISE = random.Random(1).randbytes(100_000)
"""Cannot be compressed: what is too large stays so."""


@pytest.fixture
def ends(kafka: Kafka) -> Ends:
    return Ends(kafka)


def test_a_match_has_the_key_and_headers_of_its_event_and_names_itself(ends: Ends, make_index: MakeIndex) -> None:
    tick = {"value": b'{"price": 7, "symbol": "A"}', "key": "A", "headers": {"trace": b"t1"}}
    ends.kafka.send(ends.ticks, [tick, {"value": b'{"price": 70}'}])
    ends.run(make_index(), with_event=True)
    *first, second = ends.kafka.read(ends.matches)
    named = {"eventsieve-event": f"{ends.ticks}/0/0", "eventsieve-version": "0", "eventsieve-mode": "exact"}
    assert {headers_of(each)["eventsieve-subscription"] for each in first} == {"low", "all"}
    for each in first:
        told = headers_of(each)
        assert told.items() >= {**named, "trace": "t1"}.items()
        assert json.loads(each.value()) == {
            "event_id": f"{ends.ticks}/0/0", "subscription_id": told["eventsieve-subscription"],
            "match_mode": "exact", "catalog_version": 0, "event": {"price": 7, "symbol": "A"},
        }  # fmt: skip
        assert each.key() == b"A"
    assert second.key() == f"{ends.ticks}/0/1".encode(), "without a key of its own, the event's name"


def test_one_record_per_event_has_all_its_subscriptions(ends: Ends, make_index: MakeIndex) -> None:
    ends.send([{"n": 1, "price": 7}, {"n": 2, "price": 70}])
    ends.run(make_index(), output="arrays", key="n")
    values = [json.loads(each.value()) for each in ends.kafka.read(ends.matches)]
    found = {value["event_id"]: sorted(value["subscription_ids"]) for value in values}
    assert found == {f"{ends.ticks}/0/0": ["all", "low"], f"{ends.ticks}/0/1": ["all"]}


@pytest.mark.deep
def test_events_can_be_named_by_a_field(ends: Ends, make_index: MakeIndex) -> None:
    ends.send([{"n": 17, "price": 70}])
    ends.run(make_index(), source=ends.source(named=False), key="n")
    assert ends.found() == [("17", "all", "0")]


def test_poison_goes_to_the_dead_letter_topic_as_it_came_and_the_stream_goes_on(
    ends: Ends, make_index: MakeIndex
) -> None:
    poison = {
        b"not JSON": "JSON",
        b'{"price": "abc"}': "price",
        b'{"price": 1': "JSON",
        b"[1, 2]": "object",
        b'{"symbol": "\xff\xfe"}': "UTF-8",
        b'{"symbol": "' + b"x" * 5_000_000 + b'"}': "5,000,014 bytes",
    }
    records = [{"value": value, "key": "poison", "headers": {"trace": b"p"}} for value in poison]
    ends.kafka.send(ends.ticks, [b'{"price": 70}', *records, b'{"price": 71}'])
    ends.run(make_index())
    assert [event for event, _, _ in ends.found()] == [f"{ends.ticks}/0/0", f"{ends.ticks}/0/7"]
    letters = ends.kafka.read(f"{ends.ticks}-dead-letter")
    assert {each.value() for each in letters} == poison.keys()
    for letter in letters:
        number, told = 1 + list(poison).index(letter.value()), headers_of(letter)
        assert poison[letter.value()] in told["eventsieve-reason"]
        assert (told["eventsieve-event"], told["trace"], letter.key()) == (f"{ends.ticks}/0/{number}", "p", b"poison")


@pytest.mark.deep
def test_a_letter_that_is_too_large_for_its_topic_is_cut(kafka: Kafka, make_index: MakeIndex) -> None:
    ends = Ends(kafka)
    small = kafka.topic("letters", max_message_bytes="200000")
    kafka.send(ends.ticks, [random.Random(2).randbytes(2_000_000), b"short"])
    letters = KafkaLetters(ends.place(small))
    sink = MemorySink()
    with Broker(make_index(), sources=[ends.source()], dead_letters=letters) as broker:
        broker.attach(sink, everything=True)
        assert broker.wait(60)
    whole, cut = sorted(kafka.read(small), key=lambda each: len(each.value()))
    assert (len(cut.value()), headers_of(cut)["eventsieve-cut"], whole.value()) == (1 << 16, "2000000", b"short")


def test_each_subscriber_can_have_a_topic(ends: Ends, make_index: MakeIndex) -> None:
    place = ends.place(f"{ends.matches}-{{owner}}")
    owners = {"low": "team/1", "all": None}
    sink = KafkaSink(place, RecordForm(place, "pairs", owner_of=lambda id, version: owners[str(id)]))
    ends.send([{"n": 1, "price": 7}])
    with Broker(make_index(), sources=[ends.source()], unknown="ignore") as broker:
        broker.attach(sink, everything=True)
        assert broker.wait(60)
    made = {name for name in ends.kafka.topics() if name.startswith(f"{ends.matches}-")}
    assert made == {f"{ends.matches}-team_1-89b6c50ee0", f"{ends.matches}-nobody"}
    assert {name: len(ends.kafka.read(name)) for name in made} == dict.fromkeys(made, 1)


def test_a_member_that_the_group_leaves_without_a_partition_is_finished(
    ends: Ends, make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventsieve.broker.kafka.source._SETTLED", 0.5)
    ends.send([{"n": 1, "price": 70}])
    with ends.broker(make_index(), source=ends.source(follow=True), unknown="ignore") as first:
        wait_for(lambda: first.stats().events == 1, "the only partition")
        with ends.broker(make_index(), unknown="ignore") as second:
            assert second.wait(60)
            assert second.stats().events == 0
        ends.send([{"n": 2, "price": 71}])
        wait_for(lambda: first.stats().events == 2, "the partition read on")


def test_a_group_goes_on_behind_what_it_has_committed(ends: Ends, make_index: MakeIndex) -> None:
    ends.send([{"n": 1, "price": 70}])
    ends.run(make_index(), unknown="ignore")
    ends.send([{"n": 2, "price": 71}])
    ends.run(make_index(), unknown="ignore")
    assert [event for event, _, _ in ends.found()] == [f"{ends.ticks}/0/0", f"{ends.ticks}/0/1"]


@pytest.mark.deep
@pytest.mark.parametrize(("start", "first"), [(12_000, 2), ({"0": 3}, 3), ({"0": -2}, 0), ("earliest", 0)])
def test_a_new_group_begins_where_it_is_told(kafka: Kafka, make_index: MakeIndex, start: Any, first: int) -> None:
    ends = Ends(kafka)
    kafka.send(ends.ticks, [{"value": b'{"price": 70}', "timestamp": 10_000 + 1_000 * n} for n in range(4)])
    sink = MemorySink()
    source = ends.source(start={ends.ticks: start} if isinstance(start, dict) else start)
    with Broker(make_index(), sources=[source]) as broker:
        broker.attach(sink, everything=True)
        assert broker.wait(60)
    assert [each.message.position for each in sink.deliveries] == list(range(first, 4))


@pytest.mark.deep
def test_a_new_group_can_begin_with_what_comes(ends: Ends, make_index: MakeIndex) -> None:
    ends.send([{"n": n, "price": 70} for n in range(4)])
    sink = MemorySink()
    with Broker(make_index(), sources=[ends.source(start="latest", follow=True)], unknown="ignore") as broker:
        broker.attach(sink, everything=True)
        while not sink.deliveries:  # nobody tells when the group has looked where the end is
            ends.send([{"n": 5, "price": 71}])
    assert min(each.message.position for each in sink.deliveries) >= 4


@pytest.mark.deep
def test_a_full_queue_pauses_the_partitions_and_nothing_is_lost(kafka: Kafka, make_index: MakeIndex) -> None:
    ends = Ends(kafka, partitions=2)
    ends.send([{"n": n, "price": 70} for n in range(400)])
    gate, got = threading.Event(), []

    def slow(delivery: Delivery) -> None:
        gate.wait()
        got.append(delivery.event_id)

    source = ends.source()
    with Broker(make_index(), sources=[source], queue=8, batch=4, unknown="ignore") as broker:
        broker.attach(slow, everything=True, limit=2, when_full="block")
        wait_for(lambda: bool(source._paused), "paused partitions")
        assert broker.stats().queue_peak <= 8
        gate.set()
        assert broker.wait(60)
    assert len(got) == len(set(got)) == 400


def test_an_approximate_match_says_so_with_its_bound(ends: Ends, make_index: MakeIndex) -> None:
    import numpy as np

    from eventsieve.broker.transport import Message

    maybe = np.array([False, True])
    delivery = Delivery(Message(b"{}", "p", 1), 1, np.array(["a", "b"], object), maybe, 3, 0.001, 0.0)
    exact, approximate = (dict(record.headers) for record in ends.form().records(delivery))
    assert "eventsieve-bound" not in exact
    assert (approximate["eventsieve-mode"], approximate["eventsieve-bound"]) == ("approximate", "0.001")
    many = delivery._replace(subscriptions=np.arange(IDS_IN_RECORD + 5), approximate=None)
    parts = [json.loads(record.value)["subscription_ids"] for record in ends.form("arrays").records(many)]
    assert [id for part in parts for id in part] == list(range(IDS_IN_RECORD + 5))
    assert len(parts) == 2


def test_what_cannot_be_is_said_within_seconds_and_says_which(
    kafka: Kafka, make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventsieve.broker.kafka.client.PATIENCE", 1)
    ends = Ends(kafka)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    secured = KafkaPlace(kafka.secured, ends.matches)
    cases: list[tuple[KafkaPlace, dict[str, str], str]] = [
        (KafkaPlace("127.0.0.1:1", "x"), {}, "no Kafka broker can be reached (127.0.0.1:1: "),
        (KafkaPlace("no-such-host.invalid:9092", "x"), {}, "no Kafka broker can be reached"),
        (ends.place("tickz"), {}, "has no topic named 'tickz'"),
        (secured, {**login, "sasl.password": "guessed"}, "refuses the credentials"),
        (secured, {}, "does not answer, though it can be reached"),
        (ends.place(ends.matches), {"no.such": "1"}, 'refuses its settings: No such configuration property: "no.such"'),
    ]
    for place, settings, said in cases:
        with pytest.raises(BrokerError) as told:
            KafkaSink(place, RecordForm(place), settings)
        assert said in str(told.value)
        with pytest.raises(BrokerError) as told:
            Broker(make_index(), sources=[KafkaSource(place, "g", settings)]).start()
        assert said in str(told.value)
    right = {**login, "sasl.password": "alice-knows"}
    KafkaSink(secured, RecordForm(secured), right).close()


@pytest.mark.deep
def test_a_record_that_no_attempt_can_deliver_stops_the_broker(kafka: Kafka, make_index: MakeIndex) -> None:
    ends = Ends(kafka)
    ends.matches = kafka.topic("matches", max_message_bytes="50000")
    kafka.send(ends.ticks, [json.dumps({"price": 1, "symbol": NOISE.hex()})])
    broker = ends.broker(make_index(), with_event=True)
    broker.start()
    assert broker.wait(60)
    with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
        broker.stop()


@pytest.mark.deep
def test_the_older_of_two_brokers_with_one_transactional_id_is_fenced_off(ends: Ends, make_index: MakeIndex) -> None:
    broker = ends.broker(make_index(), source=ends.source(follow=True), exactly_once=True, unknown="ignore")
    broker.start()
    source = KafkaSource(ends.place(ends.ticks), "another")
    younger = TransactionalKafkaSink(ends.place(ends.matches), ends.form(), source, f"one-{ends.ticks}")
    ends.send([{"n": 1, "price": 70}])
    assert broker.wait(60)
    with pytest.raises(BrokerError, match=r"give each its own \(--kafka transactional.id=NAME\)"):
        broker.stop()
    younger.close()
    assert ends.found() == []
    ends.run(make_index(), exactly_once=True, unknown="ignore")
    assert [event for event, _, _ in ends.found()] == [f"{ends.ticks}/0/0"]


def test_places_settings_and_starts_that_make_no_sense_are_refused(tmp_path: Any) -> None:
    place = KafkaPlace.parse("kafka:a:1/x")
    with pytest.raises(DataError, match="one topic, or a pattern"):
        RecordForm(KafkaPlace.parse("kafka:a:1/x,y"))
    with pytest.raises(DataError, match=r"not by \{symbol\}"):
        RecordForm(KafkaPlace.parse("kafka:a:1/x-{symbol}"), "pairs")
    with pytest.raises(DataError, match="output pairs"):
        RecordForm(KafkaPlace.parse("kafka:a:1/x-{subscription}"), "arrays")
    with pytest.raises(DataError, match="only subscriptions of a catalog have owners"):
        RecordForm(KafkaPlace.parse("kafka:a:1/x-{owner}"), "pairs")
    with pytest.raises(DataError, match="is a pattern"):
        KafkaSource(KafkaPlace.parse("kafka:a:1/x-{owner}"), "g")
    with pytest.raises(DataError, match="dead letters go to one topic"):
        KafkaLetters(KafkaPlace.parse("kafka:a:1/x,y"))
    for text in ("kafka:a:1", "kafka:a/x", "a:1/x", "kafka:a:1/x y"):
        with pytest.raises(DataError, match=r"kafka:BROKERS/TOPIC|HOST:PORT"):
            KafkaPlace.parse(text)
    for text in ("yesterday", "{1}", '{"x": [1]}'):
        with pytest.raises(DataError, match="a Kafka source begins at"):
            parse_start(text)
    file = tmp_path / "client"
    file.write_text("# a comment\n\nclient.id = shop\n")
    assert read_settings([f"@{file}", "kafka.acks=1"]) == {"client.id": "shop", "acks": "1"}
    with pytest.raises(DataError, match="KEY=VALUE"):
        read_settings(["acks"])
    with pytest.raises(DataError, match="cannot read Kafka settings"):
        read_settings([f"@{tmp_path}/none"])
    assert str(place) == "kafka:a:1/x"
