"""A subscriber: a sink with an outbox, a sender and a thread of its own, and the subscriptions it has asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from eventsieve.broker.engine import Engine
from eventsieve.broker.outbox import Outbox
from eventsieve.broker.output import Output, Target
from eventsieve.broker.sender import Sender
from eventsieve.broker.stats import SubscriberStats
from eventsieve.broker.transport import Interruptible, Sink, TransactionalSink
from eventsieve.errors import BrokerError
from eventsieve.model.ids import Id

_PATIENCE: Final = 10.0
"""Seconds that a sink's own code is given to come back when it is closed."""

WhenRefused: TypeAlias = Literal["disconnect", "stop"]
"""What happens when a sink has refused a delivery too often: it goes, or the whole broker stops."""


class Subscriber:
    """What `Broker.attach` returns."""

    def __init__(
        self, name: str, route: int, sink: Sink, outbox: Outbox, sender: Sender, engine: Engine, output: Output
    ) -> None:
        self.name = name
        self._route = route
        self._sink, self._outbox, self._sender = sink, outbox, sender
        self._engine, self._output = engine, output
        self._thread: threading.Thread | None = None

    def subscribe(self, id: Id, filter: str) -> None:
        """Add a subscription; every event that is published after this returns is matched with it."""
        self._engine.add(id, filter, self._route)

    def unsubscribe(self, id: Id) -> None:
        """Remove a subscription; no event that is published after this returns is matched with it."""
        self._engine.remove(id)

    def disconnect(self, reason: str = "it was disconnected") -> None:
        """Deliver nothing more; what it has not got is given up, and its subscriptions belong to nobody."""
        self._output.remove(self._route)
        self._engine.take_from(self._route)
        self._end(reason, settle=True)

    @property
    def transactional(self) -> bool:
        """Whether its sink commits positions itself."""
        return isinstance(self._sink, TransactionalSink)

    @property
    def backlog(self) -> int:
        """Deliveries that it has not acknowledged."""
        return len(self._outbox)

    @property
    def closed_because(self) -> str | None:
        """Why it was disconnected; None while it is not."""
        return self._outbox.closed_because

    @property
    def failure(self) -> Exception | None:
        """Why the last attempt to deliver failed; None after one that did not."""
        return self._sender.failure

    def stats(self) -> SubscriberStats:
        """Return its numbers."""
        box = self._outbox
        return SubscriberStats(
            self.name, len(box), box.spilled, box.delivered, box.undelivered, not box.closed, str(self.failure or "")
        )

    # -- for the broker ------------------------------------------------------------------------------------

    def target(self, everything: bool) -> Target:
        """Return where the output puts its deliveries."""
        return Target(self._route, self._outbox, everything, self.transactional)

    def start(self, spawn: Callable[[Callable[[], None], str], threading.Thread]) -> None:
        """Begin to send."""
        if self._thread is not None:
            raise BrokerError(f"the subscriber {self.name!r} is attached already")
        self._thread = spawn(self._sender.run, f"sender {self.name}")

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until it has acknowledged everything."""
        return self._outbox.wait_empty(timeout)

    def stop(self) -> None:
        """Send nothing more; what is left stays undone, so that a durable broker delivers it after a restart."""
        self._end("the broker has stopped", settle=False)

    def _end(self, reason: str, settle: bool) -> None:
        self._sender.stop()
        self._outbox.close(reason, settle)
        if isinstance(self._sink, Interruptible):
            self._sink.interrupt()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        self._sink.close()
