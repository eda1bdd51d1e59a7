"""F of a stream, batch by batch: what the events of the last batches waited decides what the next one may leave out.

An event of an idle stream waits for up to one trigger interval, so only what lies beyond one interval counts: from the
moment an event could be read to the moment its matches are out, less one interval, as a mean over the events. By
default F rises at two intervals and falls at one; that is when batches take twice the interval, or a third longer.
"""

from __future__ import annotations

from eventsieve.elastic.settings import ElasticSettings
from eventsieve.elastic.window import WaitWindow

INTERVAL_OF_NONE = 1.0
"""Seconds that stand for the trigger interval of a stream that has none and begins a batch as soon as it can."""


class Elasticity:
    """The controller of one stream. It reads no clock: moments are given to it, in seconds."""

    def __init__(self, settings: ElasticSettings, every: float, false_positive: float = 0.0, waited: float = 0.0):
        self.interval = every or INTERVAL_OF_NONE
        self.settings = settings.filled(upper=2 * self.interval, lower=self.interval)
        self._pad = self.settings.controller()
        # A restart goes on with the F it had: the events that came meanwhile have not waited less for it.
        self._pad.false_positive = min(false_positive, self.settings.maximum)
        self._pad.latency = waited
        self._window = WaitWindow(self.settings.window_events, self.settings.window_seconds)
        self._ended: float | None = None

    @property
    def waited(self) -> float:
        """What the controller saw last."""
        return self._pad.latency

    def begin(self, now: float) -> float:
        """Return F for a batch that begins now. Intervals without any batch have lowered it."""
        if self._ended is not None:
            empty = int((now - self._ended) / max(self.interval, self.settings.window_seconds or 0.0))
            while empty > 0 and self._pad.false_positive > 0.0:
                self._pad.observe(None)
                empty -= 1
        return self.settings.rung(self._pad.false_positive)

    def end(self, began: float, ended: float, readable: float | None, events: int) -> float:
        """Take note of a batch; return how long its events waited beyond one interval.

        `readable` is when they could be read, on average; where nobody knows, they waited for the batch itself.
        """
        waited = max(0.0, ended - (began if readable is None else readable) - self.interval)
        self._ended = ended
        if self._window.add(waited, events, ended):
            self._pad.observe(self._window.close())
        return waited
