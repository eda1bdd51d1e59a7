"""The server that the other tests stand on: it keeps what it was given, also over a power cut."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.server import USERS, Kafka, OwnKafka
from tools.kafka.server import new_cluster_id


def test_a_cluster_is_never_named_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([uuid.UUID(int=0xF8 << 120), uuid.UUID(int=1)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert new_cluster_id() == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_what_is_sent_is_read_with_key_and_headers(kafka: Kafka) -> None:
    topic = kafka.topic("echo", partitions=2)
    kafka.send(topic, [{"value": f"{n}", "key": f"k{n}", "headers": {"h": b"x"}} for n in range(100)])
    found = kafka.read(topic)
    assert sorted(int(each.value()) for each in found) == list(range(100))
    assert {(each.key(), tuple(each.headers())) for each in found} == {
        (f"k{n}".encode(), (("h", b"x"),)) for n in range(100)
    }
    assert topic in kafka.topics()


def test_the_secured_listener_knows_its_users(kafka: Kafka) -> None:
    [(name, password)] = USERS.items()
    settings = {
        "bootstrap.servers": kafka.secured,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": password,
    }
    assert AdminClient(settings).list_topics(timeout=20).brokers


@pytest.mark.deep
def test_a_killed_server_comes_back_with_its_data_at_the_same_address(own_kafka: OwnKafka) -> None:
    topic = own_kafka.topic("kept")
    own_kafka.send(topic, ["before"])
    own_kafka.kill()
    own_kafka.restart()
    own_kafka.send(topic, ["after"])
    assert [each.value() for each in own_kafka.read(topic)] == [b"before", b"after"]
