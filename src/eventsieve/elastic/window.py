"""The window of PAD: waits are summed up until a decision is due.

Paper: EEM section 4.3, the W events that the average latency is taken over. Here a window is a number of events, or a
time, or whatever is added at once (a micro-batch).
"""

from __future__ import annotations


class WaitWindow:
    """Takes the waits of events; says when a decision is due, and what the mean wait was.

    >>> window = WaitWindow(events=100)
    >>> window.add(waited=2.0, events=60, now=10.0), window.add(waited=4.0, events=60, now=11.0)
    (False, True)
    >>> window.close()
    3.0
    """

    def __init__(self, events: int | None = None, seconds: float | None = None) -> None:
        self._least_events, self._least_seconds = events, seconds
        self._events = 0
        self._waited = 0.0
        self._began: float | None = None

    def add(self, waited: float, events: int, now: float) -> bool:
        """Take the mean wait of some events; return whether the window is full."""
        self._events += events
        self._waited += waited * events
        if self._began is None:
            self._began = now
        if self._least_events is not None:
            return self._events >= self._least_events
        return self._least_seconds is None or now - self._began >= self._least_seconds

    def close(self) -> float | None:
        """Return the mean wait, None if there was no event, and begin anew."""
        mean = self._waited / self._events if self._events else None
        self._events, self._waited, self._began = 0, 0.0, None
        return mean
