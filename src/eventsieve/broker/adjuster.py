"""The adjuster: how long events wait decides how exactly the next ones are matched.

Paper: EEM section 4.1, Figure 2, and Algorithm 2. The decision is `elastic.controller`'s; this part measures the
windows it decides by. A window ends after a number of events or a time, and a stretch without any event counts as empty
windows, since nothing would otherwise end one when the load is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from eventsieve.elastic.settings import ElasticSettings

UPPER: Final = 0.020
LOWER: Final = 0.015
"""The paper's thresholds, in seconds."""
WINDOW_EVENTS: Final = 100
_LONGEST_WINDOW: Final = 1.0
"""Seconds after which a window of few events ends too, so that F comes back soon after a peak."""
_EMPTY_WINDOW: Final = 0.1
"""Seconds without an event that count as one window."""


class Adjuster:
    """Sets F for the batches that follow. Safe to use from any thread.

    >>> settings = ElasticSettings.parse("max=0.1%,step=0.05%,upper=20ms,lower=15ms,window=2events")
    >>> adjuster = Adjuster(settings, now=0.0)
    >>> adjuster.observe(waited=0.100, events=2, now=1.0)
    >>> adjuster.false_positive
    0.0005
    >>> adjuster.idle(now=5.0)
    >>> adjuster.false_positive
    0.0
    """

    def __init__(
        self, settings: ElasticSettings, now: float, on_change: Callable[[float, float], None] | None = None
    ) -> None:
        self._settings = settings.filled(upper=UPPER, lower=LOWER, window_events=WINDOW_EVENTS)
        self._controller = self._settings.controller()
        self._lock = threading.Lock()
        self._waited = 0.0
        self._events = 0
        self._began = now
        self._on_change = on_change
        self.false_positive = 0.0
        """F in force: the rung of the ladder that plans are prepared for."""

    def observe(self, waited: float, events: int, now: float) -> None:
        """Take the time that a number of events waited, summed."""
        if not self._settings.enabled:
            return
        with self._lock:
            self._waited += waited
            self._events += events
            if self._complete(now):
                self._decide(self._waited / self._events, now)

    def idle(self, now: float) -> None:
        """Say that nothing waits."""
        if not self._settings.enabled:
            return
        with self._lock:
            if self._events and self._complete(now):
                self._decide(self._waited / self._events, now)
            while not self._events and now - self._began >= _EMPTY_WINDOW and self._controller.false_positive > 0.0:
                self._decide(None, self._began + _EMPTY_WINDOW)
            if not self._events:
                self._began = max(self._began, now - _EMPTY_WINDOW)

    def _complete(self, now: float) -> bool:
        settings, age = self._settings, now - self._began
        if settings.window_seconds is not None:
            return self._events > 0 and age >= settings.window_seconds
        return self._events >= (settings.window_events or WINDOW_EVENTS) or age >= _LONGEST_WINDOW

    def _decide(self, latency: float | None, now: float) -> None:
        self._waited, self._events, self._began = 0.0, 0, now
        before = self.false_positive
        self.false_positive = self._settings.rung(self._controller.observe(latency))
        if self._on_change is not None and self.false_positive != before:
            self._on_change(now, self.false_positive)
