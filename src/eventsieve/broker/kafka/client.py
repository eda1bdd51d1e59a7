"""Clients of a Kafka cluster: their settings, a look at the cluster before anything begins, and errors that say which.

A client never gives up by itself: a wrong address, a wrong password and a server that restarts look alike to whoever
waits for a message. So the cluster is asked once at the start, with a time limit, and what the client reports meanwhile
decides what is said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from eventsieve.errors import BrokerError, suggestion
from eventsieve.kafka import PATIENCE, why_unreachable

_LOG: Final = logging.getLogger(__name__)
_SLICE: Final = 0.25
"""Seconds that one attempt to ask a cluster takes."""
_SECONDS_BETWEEN_COMPLAINTS: Final = 10.0
"""A server that is away is complained about many times a second; the log hears of it now and then."""


def kafka_package() -> Any:
    """Return the Kafka client package; raise BrokerError with the remedy where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as cause:
        raise BrokerError("Kafka needs its client: pip install 'eventsieve[kafka]'") from cause
    return confluent_kafka


def _admin() -> Any:
    kafka_package()
    from confluent_kafka import admin

    return admin


class Complaints:
    """What a client reports on its own account: it is told to the log, and what cannot get better is kept."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self.last = ""
        self._told_at = -_SECONDS_BETWEEN_COMPLAINTS
        self.refused: str | None = None
        """Why this client will never get anywhere: wrong credentials, or it was fenced off."""

    def __call__(self, error: Any) -> None:
        self.last = text = error.str()
        now = time.monotonic()
        if now - self._told_at >= _SECONDS_BETWEEN_COMPLAINTS:
            _LOG.warning("Kafka at %s: %s", self._brokers, text)
            self._told_at = now
        if error.code() == kafka_package().KafkaError._AUTHENTICATION:
            self.refused = f"the Kafka cluster at {self._brokers} refuses the credentials: {text}"
        elif error.fatal():
            self.refused = f"Kafka's client at {self._brokers} has given up: {text}"

    def check(self) -> None:
        """Raise BrokerError if there is no hope."""
        if self.refused is not None:
            raise BrokerError(self.refused)


def client_settings(
    brokers: str, complaints: Complaints, given: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of a client: defaults, then what the user has given, by librdkafka's names."""
    # Its own log goes to standard error, past any logging; what matters of it comes as complaints.
    base = {"log_level": 0, **(defaults or {})}
    return {**base, **given, "bootstrap.servers": brokers, "error_cb": complaints}


def make_client(kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    """Return a client of a kind; raise BrokerError if it refuses its settings."""
    try:
        return kind(dict(settings))
    except (kafka_package().KafkaException, ValueError, TypeError) as cause:
        raise BrokerError(f"Kafka's client refuses its settings: {reason_of(cause)}") from cause


def reason_of(cause: BaseException) -> str:
    """Return what an exception of the client says, without its wrapping."""
    error = cause.args[0] if cause.args else cause
    return str(error.str() if hasattr(error, "str") else error)


class Cluster:
    """A look at a cluster, and topics made in it. Used at the start, or where something is missing: not on the path."""

    def __init__(self, brokers: str, given: Mapping[str, str]) -> None:
        self.brokers = brokers
        self._complaints = Complaints(brokers)
        settings = client_settings(brokers, self._complaints, shared_settings(given))
        self._client = make_client(_admin().AdminClient, settings)

    def check(self, topics: Iterable[str]) -> None:
        """Raise BrokerError within seconds if the cluster does not answer, or a topic is not there."""
        there = self.topics()
        for topic in topics:
            if topic not in there:
                raise BrokerError(
                    f"the Kafka cluster at {self.brokers} has no topic named {topic!r}"
                    f"{suggestion(topic, sorted(name for name in there if not name.startswith('__')))}; create it, or "
                    "name another one"
                )

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return set(self._metadata().topics)

    def identity(self) -> str:
        """Return the cluster's own name for itself, which stays when its addresses change."""
        return str(self._metadata().cluster_id)

    def _metadata(self) -> Any:
        unreachable = why_unreachable(self.brokers)
        if unreachable is not None:
            raise BrokerError(unreachable)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._client.list_topics(timeout=_SLICE)
            except kafka_package().KafkaException as cause:
                self._client.poll(0)  # lets the client tell its complaints
                self._complaints.check()
                if time.monotonic() > until:
                    raise BrokerError(
                        f"the Kafka cluster at {self.brokers} does not answer, though it can be reached "
                        f"({self._complaints.last or reason_of(cause)}); it may want other security settings, or give "
                        "its clients an address that cannot be reached from here"
                    ) from cause

    def make_topics(self, names: Sequence[str]) -> None:
        """Make those topics that are not there, as the cluster makes topics by default."""
        missing = sorted(set(names) - self.topics())
        if not missing:
            return
        # -1: the cluster's own defaults.
        made = self._client.create_topics([_admin().NewTopic(name, -1, -1) for name in missing])
        for name, future in made.items():
            try:
                future.result(PATIENCE)
            except kafka_package().KafkaException as cause:
                if cause.args[0].code() != kafka_package().KafkaError.TOPIC_ALREADY_EXISTS:
                    raise BrokerError(
                        f"the Kafka cluster at {self.brokers} does not make the topic {name!r}: {reason_of(cause)}"
                    ) from cause


_CONSUMER_ONLY: Final = ("group.", "auto.", "fetch.", "isolation.", "partition.", "session.", "heartbeat.", "max.poll.")
_PRODUCER_ONLY: Final = (
    "transaction",
    "acks",
    "compression.",
    "linger.",
    "batch.",
    "message.timeout",
    "queue.buffering.",
)


def shared_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that clients of all kinds take: where to log in, not how to read or write."""
    return {name: value for name, value in given.items() if not name.startswith((*_CONSUMER_ONLY, *_PRODUCER_ONLY))}


def consumer_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a consumer takes."""
    return {name: value for name, value in given.items() if not name.startswith(_PRODUCER_ONLY)}


def producer_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a producer takes."""
    return {name: value for name, value in given.items() if not name.startswith(_CONSUMER_ONLY)}
