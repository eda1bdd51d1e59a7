"""The entrance for publishers in this process: decode, reserve room, write to the journal, queue. In that order.

A publication that raises was not taken. One that returns is taken, and with a journal it is on disk: it is delivered,
if need be after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eventsieve.broker.decoding import Decoder, default_id
from eventsieve.broker.engine import Engine
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.journal import Journal
from eventsieve.broker.ledger import Mark
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.stats import Counters
from eventsieve.broker.transport import ColumnMessages, EventId, Message
from eventsieve.errors import DataError
from eventsieve.index.index import EventsLike
from eventsieve.model.events import Events, Unknown
from eventsieve.model.schema import Schema


class Entrance:
    """Publications from any thread. Each publisher's own are kept in order."""

    def __init__(
        self,
        decoder: Decoder,
        unknown: Unknown,
        engine: Engine,
        queue: InputQueue,
        journal: Journal | None,
        counters: Counters,
        clock: Callable[[], float],
        batch: int,
    ) -> None:
        self._decoder, self._unknown, self._engine, self._queue = decoder, unknown, engine, queue
        self._journal, self._counters, self._clock, self._batch = journal, counters, clock, batch
        self._order = threading.Lock()
        self._next = 0

    @property
    def origin(self) -> object:
        """What the positions of publications are filed under."""
        return self if self._journal is None else self._journal

    def one(self, message: Message, timeout: float | None) -> EventId:
        """Take one message, whose position is still open; return what its event is called."""
        received = self._clock()
        decoded = self._decoder.decode(self._engine.schema, [message])
        if decoded.letters:
            raise DataError(decoded.letters[0].reason)
        self._queue.reserve(1, timeout)
        with self._order:
            position = self._position()
            message = message._replace(position=position)
            named = message.id is not None or self._decoder.key is not None
            event_id = decoded.ids[0] if named else default_id(message.publisher, position)
            self._write([message])
            mark = Mark(self.origin, message.publisher, position)
            self._queue.put_reserved(Parcel([message], [event_id], decoded.events, received, mark))
        self._taken(position, 1)
        return event_id

    def many(
        self,
        events: EventsLike,
        publisher: str,
        ids: Sequence[EventId] | None,
        timestamp: float | None,
        timeout: float | None,
    ) -> int:
        """Take a whole batch, or nothing of it; return the number of events."""
        received = self._clock()
        columns = as_events(self._engine.schema, events, self._unknown)
        if ids is not None and len(ids) != len(columns):
            raise DataError(f"{len(ids)} ids were given for {len(columns)} events; give one for each")
        if not len(columns):
            return 0
        self._queue.reserve(len(columns), timeout)
        with self._order:
            first = self._position()
            messages = ColumnMessages(columns, publisher, first, ids, timestamp)
            self._write(messages)
            for at in range(0, len(messages), self._batch):
                part = messages[at : at + self._batch]
                decoded = self._decoder.decode(columns.schema, part)
                mark = Mark(self.origin, publisher, part.first_position + len(part) - 1)
                self._queue.put_reserved(Parcel(part, decoded.ids, decoded.events, received, mark))
        self._taken(first + len(messages) - 1, len(messages))
        return len(messages)

    def _position(self) -> int:
        return self._next if self._journal is None else self._journal.next

    def _write(self, messages: Sequence[Message]) -> None:
        """Write down what has room already; if that fails, the room is free again and nothing was taken."""
        if self._journal is None:
            self._next += len(messages)
            return
        try:
            self._journal.append(messages)
        except BaseException:
            self._queue.release(len(messages))
            raise

    def _taken(self, last: int, n: int) -> None:
        if self._journal is not None:
            self._journal.sync(last)
        self._counters.took(n)


def as_events(schema: Schema, events: EventsLike, unknown: Unknown) -> Events:
    """Return events as columns; raise DataError if one of them is not acceptable."""
    if isinstance(events, Events):
        return events
    if isinstance(events, pa.Table | pa.RecordBatch):
        return Events.from_arrow(schema, events, strict=True, unknown=unknown)
    rows: Sequence[Mapping[str, Any]] = events
    return Events.from_dicts(schema, rows, unknown=unknown)
