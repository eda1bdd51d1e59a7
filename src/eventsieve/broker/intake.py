"""The input queue: parcels that wait to be matched, up to a number of events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from time import monotonic

from eventsieve.broker.parcel import Parcel
from eventsieve.errors import BrokerError, QueueFullError


class InputQueue:
    """First in, first out; `limit` events at most. Room is reserved before it is used, so the limit is never passed.

    Reserving first lets a publication be written to a journal only when it is certain to be taken.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise BrokerError(f"the input queue holds at least 1 event, not {limit}")
        self.limit = limit
        self.peak = 0
        """The most events it has held or reserved."""
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._emptied = threading.Condition(self._lock)
        self._parcels: deque[Parcel] = deque()
        self._used = 0
        self._waiting = 0
        self._closed = False

    def __len__(self) -> int:
        """Return the number of events that wait."""
        return self._waiting

    @property
    def room(self) -> int:
        """Events that would fit now."""
        return self.limit - self._used

    def reserve(self, weight: int, timeout: float | None = None) -> None:
        """Wait for room and keep it; raise QueueFullError when the timeout is over."""
        if weight > self.limit:
            raise BrokerError(f"{weight} events do not fit into an input queue of {self.limit}; publish fewer at once")
        until = None if timeout is None else monotonic() + timeout
        with self._lock:
            while not self._closed and self._used + weight > self.limit:
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    raise QueueFullError(
                        f"the input queue is full ({self._used} of {self.limit} events) and no room came within "
                        f"{timeout:g} s; publish more slowly, wait longer, or give the broker a larger queue"
                    )
                self._emptied.wait(left)
            if self._closed:
                raise BrokerError("the broker has stopped and takes no more events")
            self._used += weight
            self.peak = max(self.peak, self._used)

    def release(self, weight: int) -> None:
        """Give back room that was reserved and is not needed."""
        with self._lock:
            self._used -= weight
            self._emptied.notify_all()

    def put_reserved(self, parcel: Parcel) -> None:
        """Append a parcel whose room is reserved."""
        with self._lock:
            self._parcels.append(parcel)
            self._waiting += parcel.weight
            self._filled.notify()

    def wait(self, timeout: float | None) -> bool:
        """Wait until something is there; say whether it is."""
        with self._lock:
            return bool(self._filled.wait_for(lambda: self._parcels or self._closed, timeout) and self._parcels)

    def wait_room(self, timeout: float) -> bool:
        """Wait until something would fit; say whether it does."""
        with self._lock:
            return self._emptied.wait_for(lambda: self._used < self.limit or self._closed, timeout)

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until nothing waits; say whether that is so."""
        with self._lock:
            return self._emptied.wait_for(lambda: not self._parcels, timeout)

    def take(self, limit: int) -> list[Parcel]:
        """Take what waits, whole parcels of up to `limit` events together, at least one if there is any."""
        taken: list[Parcel] = []
        weight = 0
        with self._lock:
            while self._parcels and (not taken or weight + self._parcels[0].weight <= limit):
                taken.append(self._parcels.popleft())
                weight += taken[-1].weight
            if taken:
                self._used -= weight
                self._waiting -= weight
                self._emptied.notify_all()
            if self._parcels:
                self._filled.notify()
        return taken

    def discard(self, origin: object, publishers: Collection[str]) -> int:
        """Drop what waits of some publishers; return the number of events."""
        with self._lock:
            kept = deque(
                each
                for each in self._parcels
                if each.mark.origin is not origin or each.mark.publisher not in publishers
            )
            weight = sum(each.weight for each in self._parcels) - sum(each.weight for each in kept)
            self._parcels = kept
            self._used -= weight
            self._waiting -= weight
            self._emptied.notify_all()
        return weight

    def close(self) -> None:
        """Take nothing more; what is there can still be taken."""
        with self._lock:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()

    def abandon(self) -> None:
        """Take nothing more and drop what is there."""
        self.close()
        with self._lock:
            self._parcels.clear()
            self._used = self._waiting = 0
            self._emptied.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed
