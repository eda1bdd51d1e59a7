"""A transport in memory: a source that is fed by hand, and a sink that keeps what it gets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from eventsieve.broker.transport import Assignments, DeadLetter, Delivery, Message, Positions
from eventsieve.errors import BrokerError, QueueFullError


class MemorySource:
    """Messages that are given with `feed`. It keeps `committed`, and can take publishers away as a group would.

    What was polled and not committed is given again after `open`, as a log on another machine would.
    """

    def __init__(self, limit: int = 10_000, name: str = "memory") -> None:
        self.name = name
        self.limit = limit
        self.committed: dict[str, int] = {}
        self._lock = threading.Condition()
        self._kept: deque[Message] = deque()
        self._polled = 0
        self._next: dict[str, int] = {}
        self._ended = False
        self._assignments: Assignments | None = None
        self._revoked: list[tuple[str, bool]] = []

    def feed(
        self, value: bytes | str | Mapping[str, Any], publisher: str = "", timeout: float | None = None
    ) -> Message:
        """Append a message; wait while `limit` of them are not committed."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._kept) < self.limit or self._ended, timeout):
                raise QueueFullError(f"{self.limit} messages are not committed yet and none was within {timeout:g} s")
            if self._ended:
                raise BrokerError("the source has ended and takes no more messages")
            position = self._next.get(publisher, 0)
            self._next[publisher] = position + 1
            message = Message(value, publisher, position)
            self._kept.append(message)
            self._lock.notify_all()
        return message

    def end(self) -> None:
        """Say that nothing more will come."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def take_away(self, publisher: str, lost: bool = False) -> None:
        """Give a publisher to somebody else, at the next poll."""
        with self._lock:
            self._revoked.append((publisher, lost))
            self._lock.notify_all()

    def open(self, assignments: Assignments) -> None:
        """Begin behind what is committed."""
        self._assignments = assignments
        with self._lock:
            self._polled = 0
            self._ended = False

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return the next messages."""
        self._rebalance()
        with self._lock:
            self._lock.wait_for(lambda: self._polled < len(self._kept) or self._ended or self._revoked, timeout)
            found = [self._kept[at] for at in range(self._polled, min(len(self._kept), self._polled + limit))]
            self._polled += len(found)
        return found

    @property
    def finished(self) -> bool:
        return self._ended and self._polled >= len(self._kept)

    def commit(self, positions: Positions) -> None:
        """Forget what is done."""
        with self._lock:
            self.committed.update(positions)
            before = len(self._kept)
            self._kept = deque(each for each in self._kept if each.position > self.committed.get(each.publisher, -1))
            self._polled -= before - len(self._kept)
            self._lock.notify_all()

    def close(self) -> None:
        """Nothing is open."""

    def _rebalance(self) -> None:
        with self._lock:
            gone, self._revoked = self._revoked, []
        for publisher, lost in gone:
            assert self._assignments is not None, "a source is opened before it is polled"
            if lost:
                self._assignments.lost([publisher])
            else:
                self.commit(self._assignments.revoked([publisher]))
            with self._lock:
                polled = sum(each.publisher == publisher for at, each in enumerate(self._kept) if at < self._polled)
                self._kept = deque(each for each in self._kept if each.publisher != publisher)
                self._polled -= polled


class MemorySink:
    """Keeps every delivery, and every dead letter if it is given those."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.letters: list[DeadLetter] = []

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self.deliveries.extend(deliveries)

    def flush(self) -> None:
        """Whatever was sent is here."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        self.letters.extend(letters)

    def close(self) -> None:
        """Nothing is open."""

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return (event id, subscription id) for every match, in the order they came."""
        return [(each.event_id, id) for each in self.deliveries for id in each.ids]
