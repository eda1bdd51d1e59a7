"""What a transport is: where messages come from, where deliveries go, and what is promised between.

A transport is a `Source`, a `Sink`, or both; the broker knows nothing else of it. The promises that make delivery
at-least-once are few:

* A source numbers the messages of each publisher upward. The broker delivers them in that order, and calls `commit`
  with a position only when everything up to it has been delivered and acknowledged, or set aside as a dead letter.
* What a sink was given is acknowledged when `flush` returns. An exception means it was not, and it is given again.
* After a restart a source goes on behind the last committed position. What was in between is delivered once more.

The methods of a source are never called by two threads at once, nor are those of a sink: neither needs a lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.events import Events
from eventsieve.model.ids import Id
from eventsieve.model.jsonl import parse_object

Positions: TypeAlias = Mapping[str, int]
"""Publisher -> position of one of its messages."""
EventId: TypeAlias = str | int


class Message(NamedTuple):
    """An event as it came."""

    value: bytes | str | Mapping[str, Any]
    """A JSON object as bytes or text, or attribute values by name."""
    publisher: str
    """Whose order is kept: a file, a partition of a topic, a name given to `publish`."""
    position: int
    """Rises from message to message of a publisher; there may be gaps."""
    id: EventId | None = None
    """What the event is called in deliveries; None: by publisher and position, or by the decoder's key field."""
    key: bytes | str | None = None
    headers: tuple[tuple[str, bytes | str], ...] = ()
    timestamp: float | None = None
    """When it was published, in seconds since 1970, where the transport knows."""


class Row(Mapping[str, Any]):
    """One event of a batch of columns as a mapping. Its values are made when they are first asked for."""

    def __init__(self, events: Events, e: int) -> None:
        self._event = events.one(e)  # a copy: a delivery that waits must not keep the whole batch in memory
        self._values: dict[str, Any] | None = None

    def _read(self) -> dict[str, Any]:
        if self._values is None:
            self._values = self._event[0]
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


class ColumnMessages(Sequence[Message]):
    """Events that come as columns and stay so: a sequence of messages whose values are made only when asked for."""

    def __init__(
        self,
        events: Events,
        publisher: str,
        first_position: int,
        ids: Sequence[EventId] | None = None,
        timestamp: float | None = None,
    ) -> None:
        self.events = events
        self.publisher = publisher
        self.first_position = first_position
        self.ids = ids
        self.timestamp = timestamp

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, e: int) -> Message: ...
    @overload
    def __getitem__(self, e: slice) -> ColumnMessages: ...
    def __getitem__(self, e: int | slice) -> Message | ColumnMessages:
        if isinstance(e, slice):
            first, stop, _ = e.indices(len(self))
            ids = None if self.ids is None else self.ids[first:stop]
            part = self.events.part(first, stop)
            return ColumnMessages(part, self.publisher, self.first_position + first, ids, self.timestamp)
        if not 0 <= e < len(self):
            raise IndexError(f"message {e} of {len(self)}")
        id = None if self.ids is None else self.ids[e]
        return Message(Row(self.events, e), self.publisher, self.first_position + e, id, timestamp=self.timestamp)

    def __iter__(self) -> Iterator[Message]:
        return (self[e] for e in range(len(self)))


class DeadLetter(NamedTuple):
    """A message that cannot be matched, and why."""

    message: Message
    reason: str


class Delivery(NamedTuple):
    """One event for one subscriber, with those of its subscriptions that want it.

    A repetition after a crash has the same (event_id, subscription id, version), unless the subscriptions have
    changed meanwhile: then the version says so.
    """

    message: Message
    event_id: EventId
    subscriptions: NDArray[Any]
    """Ids: int64, or objects where there are texts."""
    approximate: NDArray[np.bool_] | None
    """For each subscription whether the match may be false; None: all are exact."""
    version: int
    """Of the catalog, or the count of changes where there is none."""
    false_positive: float
    """The bound in force: the share of all matches reported with it that may be false. 0 is exact."""
    received: float
    """When the broker took the message, by the broker's own clock: for latencies."""

    @property
    def ids(self) -> list[Id]:
        """The subscriptions as plain ints and strs."""
        found: list[Id] = self.subscriptions.tolist()
        return found

    @property
    def event(self) -> Mapping[str, Any]:
        """The event's values by name, as they came."""
        value = self.message.value
        return parse_object(value) if isinstance(value, str | bytes) else value

    @property
    def match_modes(self) -> list[str]:
        """For each subscription, "exact" or "approximate"."""
        if self.approximate is None:
            return ["exact"] * len(self.subscriptions)
        return ["approximate" if maybe else "exact" for maybe in self.approximate.tolist()]


class Assignments(Protocol):
    """What a source tells the broker when publishers come and go, as partitions do when a consumer group rebalances.

    Called by the source from inside `poll` or `close`. A source whose publishers are always its own never calls it.
    """

    def assigned(self, publishers: Collection[str]) -> None:
        """These publishers are ours from now on; their messages follow."""

    def revoked(self, publishers: Collection[str]) -> Positions:
        """These are about to go to somebody else: return what can still be committed for them.

        What waits in the queue is dropped, what is under way is given a short while to be acknowledged. Afterwards
        nothing is committed for them.
        """

    def lost(self, publishers: Collection[str]) -> None:
        """These belong to somebody else already: what is under way is never committed."""


class Source(Protocol):
    """Where messages come from."""

    name: str
    """What it is called in messages and metrics."""

    def open(self, assignments: Assignments) -> None:
        """Connect, and raise BrokerError within seconds if that cannot be done; go on behind what was committed."""

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return up to `limit` messages, waiting up to `timeout` seconds for the first.

        A limit of 0 asks for none: the queue is full, and the source should only keep its connection alive.
        """

    @property
    def finished(self) -> bool:
        """Whether there will never be another message: a file that is read to its end, not a stream."""

    def commit(self, positions: Positions) -> None:
        """Remember that each publisher is done up to and including a position."""

    def close(self) -> None:
        """Disconnect. All that can be committed has been."""


@runtime_checkable
class Sink(Protocol):
    """Where deliveries go: a subscriber, many of them behind one connection, or another broker."""

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Take deliveries, in order; they may be kept back until `flush`."""

    def flush(self) -> None:
        """Return when everything sent is safe on the other side; raise if it is not."""

    def close(self) -> None:
        """Let go of files and connections. Nothing is waiting to be flushed."""


@runtime_checkable
class TransactionalSink(Sink, Protocol):
    """A sink that stores deliveries and the source's positions in one step: exactly once.

    The broker then sends, and calls `commit_with` instead of `flush` and of the source's `commit`. It gets every batch,
    those that nothing matched too, since their positions count. Such a sink must be the broker's only subscriber.
    """

    def commit_with(self, positions: Positions) -> None:
        """Make what was sent since the last call visible, together with these positions, or nothing of it."""


@runtime_checkable
class Interruptible(Protocol):
    """A sink whose `send` or `flush` may wait for ever, for another program or a person."""

    def interrupt(self) -> None:
        """Make a call that waits raise, and every later one; called by another thread, when the broker stops."""


class DeadLetters(Protocol):
    """Where messages go that cannot be matched."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Store them; they count as delivered when this returns."""

    def close(self) -> None: ...
