"""Kafka as Spark sees it: addresses, client settings, and a look at the cluster before a stream begins.

The look is taken with the Java client that the connector uses, and with the same settings: what works here works in the
stream, and what does not is said within seconds instead of after minutes of retries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventsieve import kafka
from eventsieve.errors import DataError, SparkError, suggestion
from eventsieve.kafka import why_unreachable
from eventsieve.spark.connector import check_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 20
"""Seconds for an answer. A refusal comes at once; a cluster may be slow, and so is Java before it is warm."""
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class KafkaOptions:
    """How a Kafka source is read, and how clients of the connector log in."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client settings by Kafka's own names; never shown, since there are passwords among them."""
    start: str = "earliest"
    """Where a new stream begins: earliest, latest, a time, or offsets as JSON."""
    most: int = 100_000
    """Records in a batch, at most."""
    largest: int = 1 << 20
    """Bytes of a value beyond which it is not read as an event."""


def read_settings(texts: Iterable[str]) -> dict[str, str]:
    """Read client settings; `sasl.username` and `sasl.password` are a short form of the login Java's clients want."""
    return _with_login(kafka.read_settings(texts))


def _with_login(settings: dict[str, str]) -> dict[str, str]:
    name, password = settings.pop("sasl.username", None), settings.pop("sasl.password", None)
    if name is None and password is None:
        return settings
    mechanism = settings.setdefault("sasl.mechanism", "PLAIN")
    module = _LOGIN_MODULES.get(mechanism)
    if name is None or password is None or module is None:
        raise DataError(
            "a Kafka login is sasl.username and sasl.password together, with sasl.mechanism "
            f"{', '.join(_LOGIN_MODULES)}; for others give sasl.jaas.config"
        )
    words = (re.sub(r'(["\\])', r"\\\1", word) for word in (name, password))
    settings["sasl.jaas.config"] = '{} required username="{}" password="{}";'.format(module, *words)
    return settings


def check_reachable(brokers: str) -> None:
    """Raise SparkError if none of the brokers accepts a connection; needs no Java, so it can come first."""
    reason = why_unreachable(brokers)
    if reason is not None:
        raise SparkError(reason)


class KafkaCluster:
    """A look at a cluster with the connector's own client, whose failures become errors that say what is the case.

    The client lives as long as the process: a stream asks it after every batch how many records wait.
    """

    def __init__(
        self, spark: SparkSession, brokers: str, settings: Mapping[str, str], patience: int = _PATIENCE
    ) -> None:
        from py4j.protocol import Py4JJavaError

        check_reachable(brokers)
        check_connector(spark)
        self.brokers, self._patience, self._jvm = brokers, patience, _jvm_of(spark)
        properties = self._jvm.java.util.Properties()
        timeouts = {"default.api.timeout.ms": str(patience * 1000), "request.timeout.ms": str(_PATIENCE * 1000)}
        for name, value in (timeouts | dict(settings) | {"bootstrap.servers": brokers}).items():
            properties.setProperty(name, value)
        try:
            self._client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except Py4JJavaError as cause:
            reason = cause.java_exception
            while reason.getCause() is not None:
                reason = reason.getCause()
            raise SparkError(f"Kafka's client refuses its settings: {reason.getMessage()}") from cause

    def identity(self) -> str:
        """Return the cluster's own name for itself, which stays when its addresses change."""
        return str(self._answer(self._client.describeCluster().clusterId()))

    def check_topics(self, topics: Sequence[str]) -> None:
        """Raise SparkError if a topic is not there, or must not be seen."""
        there = self._topics()
        for topic in topics:
            if topic not in there:
                raise SparkError(
                    f"the Kafka cluster at {self.brokers} has no topic named {topic!r}"
                    f"{suggestion(topic, sorted(there))}; create it, or name another one"
                )

    def make_topics(self, topics: Iterable[str]) -> None:
        """Make those topics that are not there, as the cluster makes topics by default."""
        new_topic, default = self._jvm.org.apache.kafka.clients.admin.NewTopic, self._jvm.java.util.Optional.empty()
        missing = sorted(set(topics) - self._topics())
        if missing:
            made = self._client.createTopics([new_topic(name, default, default) for name in missing]).values()
            for name in missing:
                self._answer(made.get(name), but="TopicExistsException")

    def waiting(self, read: Mapping[str, Mapping[str, int]]) -> int:
        """Return how many records stand behind the offsets that were read, by topic and partition."""
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        asked, ends = self._jvm.java.util.HashMap(), []
        for topic, end_of_partition in read.items():
            for number, end in end_of_partition.items():
                place = self._jvm.org.apache.kafka.common.TopicPartition(topic, int(number))
                asked.put(place, latest)
                ends.append((place, end))
        found = self._client.listOffsets(asked)
        return sum(max(0, self._answer(found.partitionResult(place)).offset() - end) for place, end in ends)

    def _topics(self) -> set[str]:
        return set(self._answer(self._client.listTopics().names()))

    def _answer(self, future: Any, but: str = "") -> Any:
        """Wait for an answer; raise SparkError for a failure, unless it is of the kind `but`."""
        from py4j.protocol import Py4JJavaError

        try:
            return future.get(2 * self._patience, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as cause:
            reason = cause.java_exception.getCause() or cause.java_exception
            kind, told = str(reason.getClass().getSimpleName()), str(reason.getMessage())
            if kind == but:
                return None
            raise SparkError(f"{_diagnosis(kind, self.brokers)}: {told}") from cause


def _jvm_of(spark: SparkSession) -> Any:
    return spark._jvm


def _diagnosis(kind: str, brokers: str) -> str:
    if "Authentication" in kind:
        return f"the Kafka cluster at {brokers} refuses the credentials"
    if "Authorization" in kind:
        return f"the Kafka cluster at {brokers} knows these credentials, but does not allow this to them"
    if kind == "TimeoutException":
        return (
            f"the Kafka cluster at {brokers} does not answer, though it can be reached; it may want other security "
            "settings, or give its clients an address that cannot be reached from here"
        )
    return f"the Kafka cluster at {brokers} fails ({kind})"


def read_offsets(checkpoint: Path, batch: int) -> dict[str, dict[str, int]]:
    """Return where a batch of a Kafka stream ends, by topic and partition, as Spark wrote it before the batch ran."""
    return dict(
        json.loads((checkpoint / "spark" / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[-1])
    )
