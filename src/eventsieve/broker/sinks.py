"""Ready-made sinks inside the process: a function, an async iterator, a list, another broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eventsieve.broker.transport import Delivery
from eventsieve.errors import BrokerError, QueueFullError

if TYPE_CHECKING:
    from eventsieve.broker.broker import Broker

_LOOK_UP: Final = 0.2
"""Seconds after which a sink that waits looks whether it should still."""


class Callback:
    """Calls a function with every delivery; it is acknowledged when the function returns."""

    def __init__(self, function: Callable[[Delivery], object]) -> None:
        self._function = function

    def send(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._function(delivery)

    def flush(self) -> None:
        """Whatever was sent has been taken."""

    def close(self) -> None:
        """Nothing is open."""


class AsyncDeliveries:
    """Deliveries as an async iterator. Asking for the next one acknowledges the one before.

    Make it inside the event loop that reads from it::

        deliveries = AsyncDeliveries()
        broker.attach(deliveries, everything=True)
        async for delivery in deliveries:
            ...
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Delivery | None] = asyncio.Queue()
        self._lock = threading.Condition()
        self._unacknowledged = 0
        self._interrupted = False
        self._handed_out = False

    def send(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            if self._interrupted:
                raise BrokerError("nobody reads these deliveries any more")
            self._unacknowledged += len(deliveries)
        self._loop.call_soon_threadsafe(self._offer, deliveries)

    def flush(self) -> None:
        """Wait until the reader has asked for another one after the last."""
        with self._lock:
            self._lock.wait_for(lambda: not self._unacknowledged or self._interrupted)
            if self._unacknowledged:
                raise BrokerError(f"{self._unacknowledged} deliveries were not read")

    def interrupt(self) -> None:
        """Stop waiting for the reader."""
        with self._lock:
            self._interrupted = True
            self._lock.notify_all()
        self._end()

    def close(self) -> None:
        """Let the reader's loop come to its end."""
        self._end()

    def __aiter__(self) -> AsyncDeliveries:
        return self

    async def __anext__(self) -> Delivery:
        if self._handed_out:
            self._handed_out = False
            with self._lock:
                self._unacknowledged -= 1
                self._lock.notify_all()
        delivery = await self._queue.get()
        if delivery is None:
            self._queue.put_nowait(None)
            raise StopAsyncIteration
        self._handed_out = True
        return delivery

    def _offer(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._queue.put_nowait(delivery)

    def _end(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)


class NextHop:
    """Another broker: what is delivered here is published there, under the same id and the same publisher.

    It is acknowledged when the other broker has taken it: into its journal, where it has one.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._interrupted = threading.Event()

    def send(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._publish(delivery)

    def _publish(self, delivery: Delivery) -> None:
        message = delivery.message
        while not self._interrupted.is_set():
            try:
                self._broker.publish(
                    delivery.event,
                    publisher=message.publisher,
                    id=delivery.event_id,
                    key=message.key,
                    headers=message.headers,
                    timestamp=message.timestamp,
                    timeout=_LOOK_UP,
                )
            except QueueFullError:
                continue  # its backpressure is ours
            return
        raise BrokerError("stopped while the next broker's queue was full")

    def flush(self) -> None:
        """Whatever was sent has been taken."""

    def interrupt(self) -> None:
        """Stop waiting for room over there."""
        self._interrupted.set()

    def close(self) -> None:
        """The other broker is not ours to stop."""
