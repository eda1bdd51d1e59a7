"""Back into order: batches are matched by several workers and leave one after the other, as they came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class InOrder(Generic[T]):
    """Calls `release` with items in the order of their tickets 0, 1, 2, ..., one at a time.

    The worker whose item is due releases it, and all that wait behind it; the others go on matching. Nobody runs more
    than `ahead` tickets in front of the one that is due: what waits here is bounded too.
    """

    def __init__(self, release: Callable[[T], None], ahead: int) -> None:
        self._release = release
        self._ahead = ahead
        self._lock = threading.Condition()
        self._held: dict[int, T] = {}
        self._due = 0
        self._releasing = False
        self._broken = False

    def put(self, ticket: int, item: T) -> None:
        """Hand over an item; returns when it is released, or when somebody else will see to it."""
        with self._lock:
            self._lock.wait_for(lambda: ticket - self._due < self._ahead or self._broken)
            if self._broken:
                return
            self._held[ticket] = item
            if self._releasing:
                return
            self._releasing = True
        while (due := self._next()) is not None:
            self._release(due)
            with self._lock:
                self._due += 1
                self._lock.notify_all()

    def _next(self) -> T | None:
        with self._lock:
            if self._broken or self._due not in self._held:
                self._releasing = False
                return None
            return self._held.pop(self._due)

    def give_up(self) -> None:
        """Release nothing more and let everybody go: a ticket will never be handed over."""
        with self._lock:
            self._broken = True
            self._held.clear()
            self._lock.notify_all()
