"""Messages from Kafka topics, with a consumer group: partitions are publishers, offsets are positions.

Offsets are committed by hand, only when the broker says that everything up to them is delivered. When a partition is
taken away, the broker first finishes what it can of it within a few seconds; that is committed, and nothing of it ever
after, since the next owner goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eventsieve.broker.kafka.client import (
    Cluster,
    Complaints,
    client_settings,
    consumer_settings,
    kafka_package,
    make_client,
    reason_of,
)
from eventsieve.broker.transport import Assignments, Message, Positions
from eventsieve.errors import BrokerError, DataError
from eventsieve.kafka import PATIENCE, KafkaPlace, Start

_LOG: Final = logging.getLogger(__name__)
_DEFAULTS: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Records of a transaction that was aborted were never published.
    "isolation.level": "read_committed",
    # A rebalance takes away only the partitions that move; the others are read on.
    "partition.assignment.strategy": "cooperative-sticky",
    # The partitions of a broker that was killed lie idle for so long; a broker is here for milliseconds.
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
    # The input queue is where events wait; what waits here as well only costs memory.
    "queued.max.messages.kbytes": 16_384,
    "fetch.wait.max.ms": 50,
    "topic.metadata.refresh.interval.ms": 10_000,
}
_BEGINNING: Final = -2
_SETTLED: Final = 10.0
"""Seconds after which a member without a partition gets none: a rebalance has given the others theirs by then."""


class KafkaSource:
    """Topics of a cluster, read by one member of a consumer group.

    `start` is where a group begins that has not committed anything yet. Unless `follow`, the source is finished when
    its partitions are read to the end, or when the group has settled and left it none. Events are `named` by topic,
    partition and offset, as the Spark pipeline names them, unless their names are in a field.
    """

    def __init__(
        self, place: KafkaPlace, group: str, settings: Mapping[str, str] | None = None, start: Start = "earliest",
        follow: bool = True, named: bool = True,
    ) -> None:  # fmt: skip
        if place.placeholder is not None:
            raise DataError(f"a source names its topics, separated by commas; {place.topic!r} is a pattern")
        self.name = str(place)
        self.brokers = place.brokers
        self.group = group
        self._place, self._given, self._start = place, dict(settings or {}), start
        self._follow, self._named = follow, named
        self._complaints = Complaints(place.brokers)
        self._consumer: Any = None
        self._assignments: Assignments | None = None
        self._owned: dict[str, Any] = {}
        self._ended: set[str] = set()
        self._idle_since: float | None = None  # the group has given us no partition, or taken our last one
        self._paused: set[str] = set()  # with those that have gone: they would come back as they went
        self._kept: list[Message] = []  # came while none was asked for
        self._done: dict[str, int] = {}  # not known to be committed yet
        self._incremental = True
        self.membership: Any = None
        """Who this member was in its group at the last poll, None if it was none.

        A transaction that commits offsets is checked by it. Kept, because other threads cannot ask for it: a client
        that is being polled lets nobody else in.
        """

    def open(self, assignments: Assignments) -> None:
        """Look at the cluster and join the group; go on behind what it has committed."""
        Cluster(self._place.brokers, self._given).check(self._place.topics)
        self._assignments = assignments
        self._consumer = make_client(kafka_package().Consumer, self._settings())
        self._consumer.subscribe(
            self._place.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _settings(self) -> dict[str, Any]:
        defaults = {
            **_DEFAULTS,
            "group.id": self.group,
            "auto.offset.reset": self._start if isinstance(self._start, str) else "earliest",
            "enable.partition.eof": not self._follow,
            "on_commit": self._committed,
        }
        given = consumer_settings(self._given)
        if given.get("group.protocol", "classic").lower() == "consumer":
            del defaults["partition.assignment.strategy"]  # the group's coordinator has its own
        self._incremental = "cooperative" in given.get("partition.assignment.strategy", "cooperative")
        return client_settings(self._place.brokers, self._complaints, given, defaults)

    # -- reading -------------------------------------------------------------------------------------------

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return what has come, waiting for the first message only: an event should not wait for others."""
        self._complaints.check()
        if not limit:
            self._stay_alive()
            return []
        self._resume()
        if self._kept:
            found, self._kept = self._kept[:limit], self._kept[limit:]
            return found
        first = self._polled(timeout)
        if first is None:
            return []
        return self._messages([first, *(self._consumer.consume(limit - 1, 0.0) if limit > 1 else ())])

    def _polled(self, timeout: float) -> Any:
        """Ask for one message; rebalances and finished commits are told meanwhile."""
        message = self._consumer.poll(timeout)
        self.membership = self._consumer.consumer_group_metadata() if self._consumer.memberid() else None
        return message

    @property
    def finished(self) -> bool:
        if self._follow or self._kept:
            return False
        if self._owned:
            return self._ended >= self._owned.keys()
        return self._idle_since is not None and time.monotonic() - self._idle_since >= _SETTLED

    def _stay_alive(self) -> None:
        """Let the group know that this member is alive, and hear of rebalances, without taking messages.

        A client cannot be asked for the one without the other. A first message is kept; if there is still no room the
        next time, partitions are paused. Not at once: that throws away what was fetched ahead.
        """
        if self._kept and (running := self._owned.keys() - self._paused):
            self._consumer.pause([self._owned[publisher] for publisher in running])
            self._paused |= running
        message = self._polled(0)
        if message is not None:
            self._kept += self._messages([message])

    def _resume(self) -> None:
        if paused := self._paused & self._owned.keys():
            self._consumer.resume([self._owned[publisher] for publisher in paused])
            self._paused -= paused

    def _messages(self, polled: Sequence[Any]) -> list[Message]:
        found: list[Message] = []
        for each in polled:
            if each.error() is not None:
                self._noticed(each)
                continue
            publisher = _publisher(each.topic(), each.partition())
            self._ended.discard(publisher)
            if publisher in self._owned:
                found.append(_message(each, publisher, self._named))
        return found

    def _noticed(self, event: Any) -> None:
        """Take note of what comes in place of a message."""
        errors, error = kafka_package().KafkaError, event.error()
        if error.code() == errors._PARTITION_EOF:
            self._ended.add(_publisher(event.topic(), event.partition()))
        elif error.code() in (errors.UNKNOWN_TOPIC_OR_PART, errors._UNKNOWN_TOPIC):
            raise BrokerError(f"the Kafka cluster at {self._place.brokers} has lost a topic: {error.str()}")
        elif error.code() in (errors.TOPIC_AUTHORIZATION_FAILED, errors.GROUP_AUTHORIZATION_FAILED) or error.fatal():
            raise BrokerError(f"the Kafka cluster at {self._place.brokers} does not let us read: {error.str()}")
        else:
            _LOG.warning("%s: %s", self.name, error.str())

    # -- committing ----------------------------------------------------------------------------------------

    def commit(self, positions: Positions) -> None:
        """Commit in the background; what does not succeed is committed with the next call, or at the end."""
        self._done.update((publisher, at) for publisher, at in positions.items() if publisher in self._owned)
        if self._done:
            try:
                self._consumer.commit(offsets=offsets_of(self._done), asynchronous=True)
            except kafka_package().KafkaException as cause:
                _LOG.warning("%s: offsets are not committed yet: %s", self.name, reason_of(cause))

    def _committed(self, error: Any, offsets: Sequence[Any]) -> None:
        for place in offsets:
            publisher = _publisher(place.topic, place.partition)
            if error is None and place.error is None and self._done.get(publisher, -1) < place.offset:
                self._done.pop(publisher, None)

    def _commit_now(self, positions: Positions) -> None:
        """Commit and wait for it, before partitions go. If it fails, their next owner delivers a little again."""
        if positions:
            try:
                self._consumer.commit(offsets=offsets_of(positions), asynchronous=False)
            except kafka_package().KafkaException as cause:
                _LOG.warning("%s: last offsets are not committed: %s", self.name, reason_of(cause))

    def close(self) -> None:
        """Commit what is not yet, and leave the group, which gives our partitions to others."""
        if self._consumer is None:
            return
        self._commit_now(self._done)
        self._consumer.close()

    # -- partitions that come and go -----------------------------------------------------------------------

    def _assigned(self, consumer: Any, places: Sequence[Any]) -> None:
        if not isinstance(self._start, str):
            self._place_starts(consumer, places)
        self._owned |= {_publisher(place.topic, place.partition): place for place in places}
        self._idle_since = None if self._owned else time.monotonic()
        assert self._assignments is not None, "a source is opened before it is polled"
        self._assignments.assigned([_publisher(place.topic, place.partition) for place in places])

    def _revoked(self, consumer: Any, places: Sequence[Any]) -> None:
        publishers = [_publisher(place.topic, place.partition) for place in places]
        assert self._assignments is not None, "a source is opened before it is polled"
        safe = self._assignments.revoked(publishers)
        unconfirmed = {publisher: self._done[publisher] for publisher in publishers if publisher in self._done}
        self._commit_now({**unconfirmed, **safe})
        self._let_go(publishers)
        self._idle_since = None if self._owned else time.monotonic()

    def _lost(self, consumer: Any, places: Sequence[Any]) -> None:
        publishers = [_publisher(place.topic, place.partition) for place in places]
        assert self._assignments is not None, "a source is opened before it is polled"
        self._assignments.lost(publishers)
        self._let_go(publishers)

    def _let_go(self, publishers: Sequence[str]) -> None:
        gone = set(publishers)
        self._kept = [message for message in self._kept if message.publisher not in gone]
        self._ended -= gone
        for publisher in publishers:
            self._owned.pop(publisher, None)
            self._done.pop(publisher, None)

    def _place_starts(self, consumer: Any, places: Sequence[Any]) -> None:
        """Begin at a time or at given offsets where the group has committed nothing yet."""
        committed = consumer.committed(list(places), timeout=PATIENCE)
        known = [place for place in committed if place.offset >= 0]
        fresh = [place for place in committed if place.offset < 0]
        for place in fresh:
            if isinstance(self._start, int):
                place.offset = self._start
            elif isinstance(self._start, Mapping):
                # As Spark has it, -2 is the beginning of a partition and -1 its end; the client has it so, too.
                place.offset = self._start.get(place.topic, {}).get(str(place.partition), _BEGINNING)
        if fresh and isinstance(self._start, int):
            fresh = consumer.offsets_for_times(fresh, timeout=PATIENCE)
        assign = consumer.incremental_assign if self._incremental else consumer.assign
        assign([*known, *fresh])


def _publisher(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def offsets_of(positions: Positions) -> list[Any]:
    """Return positions as the offsets behind them, which is what Kafka commits."""
    place = kafka_package().TopicPartition
    cut = [(publisher.rpartition("/"), at) for publisher, at in positions.items()]
    return [place(topic, int(partition), at + 1) for (topic, _, partition), at in cut]


def _message(record: Any, publisher: str, named: bool) -> Message:
    kind, milliseconds = record.timestamp()
    headers = record.headers() or ()
    value = record.value()
    return Message(
        b"" if value is None else value,
        publisher,
        record.offset(),
        id=f"{publisher}/{record.offset()}" if named else None,
        key=record.key(),
        headers=tuple((name, b"" if held is None else held) for name, held in headers),
        timestamp=milliseconds / 1000 if kind else None,
    )
