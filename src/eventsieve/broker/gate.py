"""A gate between matching, which many threads do at once, and changing, which needs the index for itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Any number of readers or one writer. A waiting writer goes first, or a loaded broker would never let it in."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._readers = 0
        self._writers = 0  # waiting, or inside
        self._turns = threading.Lock()  # one writer at a time

    def enter(self) -> None:
        """Begin to read."""
        with self._lock:
            self._lock.wait_for(lambda: not self._writers)
            self._readers += 1

    def leave(self) -> None:
        """End reading."""
        with self._lock:
            self._readers -= 1
            if not self._readers:
                self._lock.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read for the length of a block."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until all readers are out and keep others from coming in, for the length of a block."""
        with self._turns:
            with self._lock:
                self._writers += 1
                self._lock.wait_for(lambda: not self._readers)
            try:
                yield
            finally:
                with self._lock:
                    self._writers -= 1
                    self._lock.notify_all()
