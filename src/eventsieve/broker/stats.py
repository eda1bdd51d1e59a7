"""What a broker has done and is at: counters, queue lengths, latencies."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from eventsieve.broker.histogram import Histogram, Window


@dataclass(frozen=True)
class SubscriberStats:
    """One subscriber."""

    name: str
    backlog: int
    """Deliveries in its queue, those being sent included."""
    spilled: int
    """Deliveries of its backlog that are on disk."""
    delivered: int
    undelivered: int
    """Deliveries that were given up: it was disconnected."""
    connected: bool
    failure: str
    """Why the last attempt to deliver failed, where it did."""


@dataclass(frozen=True)
class Stats:
    """A moment in the life of a broker. Counters are since the start, times in seconds."""

    received: int
    dead_letters: int
    events: int
    """Events matched."""
    matches: int
    batches: int
    waiting: int
    """Events in the input queue."""
    queue_peak: int
    in_flight: int
    """Batches that are matched or being delivered, and not acknowledged."""
    false_positive: float
    """The bound in force; 0 is exact."""
    version: int
    wait: Window
    """From receipt until matching begins."""
    match: Window
    """Matching, per batch."""
    latency: Window
    """From receipt until a subscriber has acknowledged, per delivery."""
    subscribers: tuple[SubscriberStats, ...]

    @property
    def delivered(self) -> int:
        """Deliveries that were acknowledged."""
        return sum(each.delivered for each in self.subscribers)

    def summary(self) -> dict[str, Any]:
        """Return plain values for people and JSON."""
        return {
            "received": self.received,
            "events": self.events,
            "matches": self.matches,
            "delivered": self.delivered,
            "dead_letters": self.dead_letters,
            "batches": self.batches,
            "catalog_version": self.version,
            "false_positive_bound": self.false_positive,
            "wait_ms": self.wait.as_milliseconds(),
            "latency_ms": self.latency.as_milliseconds(),
        }


@dataclass
class Counters:
    """Sums that the parts of a broker add to, once per batch."""

    received: int = 0
    dead_letters: int = 0
    events: int = 0
    matches: int = 0
    batches: int = 0
    wait: Histogram = field(default_factory=Histogram)
    match: Histogram = field(default_factory=Histogram)
    latency: Histogram = field(default_factory=Histogram)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, received: int, dead_letters: int = 0) -> None:
        """Count what a receiver took."""
        with self.lock:
            self.received += received
            self.dead_letters += dead_letters

    def matched(self, events: int, matches: int) -> None:
        """Count a batch."""
        with self.lock:
            self.batches += 1
            self.events += events
            self.matches += matches
