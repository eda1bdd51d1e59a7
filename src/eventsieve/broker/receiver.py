"""The receiver: pulls messages from one source, decodes them, and puts them into the input queue while there is room.

It also tells the source how far it is done, between two pulls, and lets go of publishers that are taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Final

from eventsieve.broker.decoding import Decoder
from eventsieve.broker.engine import Engine
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.ledger import Ledger, Mark
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.stats import Counters
from eventsieve.broker.transport import ColumnMessages, DeadLetter, Message, Positions, Source
from eventsieve.broker.worker import Dispatch
from eventsieve.errors import QueueFullError

DRAIN_TIMEOUT: Final = 5.0
"""Seconds that messages under way of a publisher are waited for when it is taken away."""
_COMMIT_EVERY: Final = 0.5
"""Seconds between two commits: each costs the source a write, and delays only what a crash repeats."""
_KEEP_ALIVE: Final = 1.0
"""Seconds that a source is left alone while the queue is full."""


class Receiver:
    """One source's receiver. `origin` is what its positions are filed under: the source, or what it stands for."""

    def __init__(
        self,
        source: Source,
        decoder: Decoder,
        engine: Engine,
        queue: InputQueue,
        dispatch: Dispatch,
        ledger: Ledger,
        counters: Counters,
        letters: Callable[[Sequence[DeadLetter]], None],
        clock: Callable[[], float],
        at_once: int,
        commits: bool = True,
        origin: object | None = None,
        drain_timeout: float = DRAIN_TIMEOUT,
    ) -> None:
        self.source = source
        self._decoder, self._engine, self._queue, self._dispatch = decoder, engine, queue, dispatch
        self._ledger, self._counters, self._letters, self._clock = ledger, counters, letters, clock
        self._at_once, self._commits, self._drain_timeout = min(at_once, queue.limit), commits, drain_timeout
        self._origin = source if origin is None else origin
        self._held: list[Parcel] = []
        self._committed_at = clock()

    def open(self) -> None:
        """Connect the source."""
        self.source.open(self)

    @property
    def finished(self) -> bool:
        """Whether everything the source will ever give is in the queue."""
        return self.source.finished and not self._held

    def step(self, timeout: float) -> int:
        """Pull once, if there is room; return the number of messages."""
        if self._clock() - self._committed_at >= _COMMIT_EVERY:
            self.commit()
        room = self._queue.room
        if room < 1:
            self._queue.wait_room(min(timeout, _KEEP_ALIVE))
            self.source.poll(0, 0.0)
            return 0
        messages = self.source.poll(min(room, self._at_once), timeout)
        if messages:
            self.accept(messages)
        return len(messages)

    def accept(self, messages: Sequence[Message]) -> None:
        """Queue messages; while there is no room, keep the source's connection alive."""
        self._held = [self._parcel(part) for part in _runs(messages)]
        self._counters.took(len(messages), len(messages) - sum(len(each.messages) for each in self._held))
        while self._held:
            parcel = self._held[0]
            try:
                self._queue.reserve(parcel.weight, _KEEP_ALIVE)
            except QueueFullError:
                self.source.poll(0, 0.0)  # this may take publishers away, whose parcels are then gone from the list
                continue
            del self._held[0]
            self._queue.put_reserved(parcel)

    def commit(self) -> None:
        """Tell the source what has become safe since the last time."""
        self._committed_at = self._clock()
        safe = self._ledger.take_safe(self._origin)
        if safe and self._commits:
            self.source.commit(safe)

    def close(self) -> None:
        """Commit what is safe and disconnect."""
        self._drain_timeout = 0.0  # nobody delivers any more what is still under way
        self.commit()
        self.source.close()

    def _parcel(self, messages: Sequence[Message]) -> Parcel:
        received = self._clock()
        last = messages[-1]
        decoded = self._decoder.decode(self._engine.schema, messages)
        if decoded.letters:
            self._letters(decoded.letters)
        mark = Mark(self._origin, last.publisher, last.position)
        return Parcel(decoded.messages, decoded.ids, decoded.events, received, mark)

    # -- publishers that come and go -------------------------------------------------------------------------

    def assigned(self, publishers: Collection[str]) -> None:
        """Nothing is known of them yet, and nothing needs to be."""

    def revoked(self, publishers: Collection[str]) -> Positions:
        """Drop what waits, give what is under way a short while, and return what can be committed."""
        self._drop_waiting(publishers)
        self._ledger.wait_for(self._origin, publishers, self._drain_timeout)
        safe = self._ledger.forget(self._origin, publishers)
        return safe if self._commits else {}

    def lost(self, publishers: Collection[str]) -> None:
        """Drop what waits, and never commit what is under way."""
        self._drop_waiting(publishers)
        self._ledger.forget(self._origin, publishers)

    def _drop_waiting(self, publishers: Collection[str]) -> None:
        self._held = [parcel for parcel in self._held if parcel.mark.publisher not in publishers]
        self._dispatch.discard(self._origin, list(publishers))


def _runs(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Cut messages into runs of one publisher each. Not sorted by publisher: a journal's positions rise over all."""
    if isinstance(messages, ColumnMessages):
        return [messages]
    return [list(run) for _, run in groupby(messages, lambda message: message.publisher)]
