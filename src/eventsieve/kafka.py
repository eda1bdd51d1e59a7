"""What the two runtimes, Spark and the embedded broker, say and understand alike of Kafka: addresses, settings, names.

Nothing here needs a Kafka client: each runtime has its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from eventsieve.errors import DataError

PREFIX: Final = "kafka:"
PATIENCE: Final = 5
"""Seconds within which a cluster has to answer."""
NOBODY: Final = "nobody"
"""Stands for the owner of a subscription that has none."""
EVENT_HEADER: Final = "eventsieve-event"
SUBSCRIPTION_HEADER: Final = "eventsieve-subscription"
VERSION_HEADER: Final = "eventsieve-version"
MODE_HEADER: Final = "eventsieve-mode"
BOUND_HEADER: Final = "eventsieve-bound"
REASON_HEADER: Final = "eventsieve-reason"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PATTERN: Final = re.compile(r"\{(\w+)\}")
LONGEST_PART: Final = 200
"""Characters of a name that becomes part of a topic's name; Kafka allows 249 in all."""

Start: TypeAlias = Literal["earliest", "latest"] | int | Mapping[str, Mapping[str, int]]
"""Where a new reader begins: an end, a time in milliseconds since 1970, or offsets by topic and partition."""


@dataclass(frozen=True)
class KafkaPlace:
    """Topics of a cluster, or a pattern with one name in braces that stands for many topics."""

    brokers: str
    topic: str

    @classmethod
    def parse(cls, text: str) -> KafkaPlace:
        """Read `kafka:BROKERS/TOPIC`.

        >>> KafkaPlace.parse("kafka:one:9092,two:9092/ticks")
        KafkaPlace(brokers='one:9092,two:9092', topic='ticks')
        """
        brokers, slash, topic = text.removeprefix(PREFIX).rpartition("/")
        for name in _PATTERN.sub("x", topic).split(","):
            if not text.startswith(PREFIX) or not slash or _NAME.fullmatch(name) is None:
                raise DataError(
                    f"Kafka is named as kafka:BROKERS/TOPIC, such as kafka:localhost:9092/ticks, not {text!r}"
                )
        for broker in brokers.split(","):
            if re.fullmatch(r"\[?[^/\s,\[\]]+\]?:\d+", broker) is None:
                raise DataError(f"a Kafka broker is HOST:PORT, not {broker!r} in {text!r}")
        return cls(brokers, topic)

    def __str__(self) -> str:
        return f"{PREFIX}{self.brokers}/{self.topic}"

    @property
    def topics(self) -> list[str]:
        return self.topic.split(",")

    @property
    def placeholder(self) -> str | None:
        """The name in braces, None if this is a plain topic."""
        found = _PATTERN.search(self.topic)
        return found[1] if found else None


def read_settings(texts: Iterable[str]) -> dict[str, str]:
    """Read settings of Kafka's clients: each text is KEY=VALUE, or @FILE with such lines.

    >>> read_settings(["security.protocol=SASL_SSL", "kafka.client.id=shop"])
    {'security.protocol': 'SASL_SSL', 'client.id': 'shop'}
    """
    settings: dict[str, str] = {}
    for text in texts:
        for line in _lines(Path(text[1:])) if text.startswith("@") else [text]:
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise DataError("a Kafka setting is KEY=VALUE, such as security.protocol=SASL_SSL, or @FILE")
            settings[name.strip().removeprefix("kafka.")] = value.strip()
    return settings


def _lines(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError as cause:
        raise DataError(f"cannot read Kafka settings from {file}: {cause.strerror}") from cause
    return [line for line in lines if line and not line.startswith("#")]


def parse_start(text: str) -> Start:
    """Read where a new reader begins. A time without a zone is UTC.

    >>> parse_start("1970-01-01T00:01")
    60000
    """
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        if text.startswith("{"):
            offsets = json.loads(text)
            return {
                topic: {str(int(number)): int(at) for number, at in places.items()} for topic, places in offsets.items()
            }
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError, AttributeError) as cause:
        raise DataError(
            "a Kafka source begins at earliest, latest, a time such as 2026-01-31T08:00, or offsets as JSON, not "
            f"{text!r}"
        ) from cause
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return int(moment.timestamp() * 1000)


def why_unreachable(brokers: str) -> str | None:
    """Return why none of the brokers accepts a connection, None if one does; needs no client, so it can come first."""
    reasons = []
    for broker in brokers.split(","):
        host, _, port = broker.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE):
                return None
        except (OSError, OverflowError) as reason:
            reasons.append(f"{broker}: {getattr(reason, 'strerror', None) or reason}")
    return f"no Kafka broker can be reached ({'; '.join(reasons)}); is it running, and is the address right?"


def topic_part(name: str) -> str:
    """Return a name as part of a topic's name.

    Where characters have to be replaced or cut off, a digest of the whole name follows, so that two names never share a
    topic: one subscriber must not get what is another's.

    >>> topic_part("team-1"), topic_part("team/1")
    ('team-1', 'team_1-89b6c50ee0')
    """
    allowed = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:LONGEST_PART]
    if allowed == name and name:
        return name
    return f"{allowed}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
