"""The progress of a stream: a line about its last batch, and the sums over all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from eventsieve.cli._live_line import SECONDS_BETWEEN_LINES, LiveLine
from eventsieve.elastic.audit import Audit
from eventsieve.elastic.settings import percent

if TYPE_CHECKING:
    from eventsieve.spark.streaming import Progress


class ProgressLine(LiveLine):
    """Sums over all batches, and a line about the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.events = self.matches = self.malformed = self.batches = 0
        self.match_seconds = self.busy_seconds = 0.0
        self.version = -1
        self.false_positive: float | None = None
        self.approximate = 0
        self.audit = Audit()
        self._began = time.monotonic()
        self._said = float("-inf")

    def add(self, progress: Progress) -> None:
        """Count a batch and show it."""
        self.batches += 1
        self.events += progress.events
        self.matches += progress.matches
        self.malformed += progress.malformed
        self.match_seconds += progress.match_seconds
        self.busy_seconds += progress.seconds
        self.version = progress.catalog_version
        if progress.false_positive is not None:
            self.false_positive = max(self.false_positive or 0.0, progress.false_positive)
        self.approximate += progress.approximate
        if progress.audit is not None:
            self.audit = Audit.total((self.audit, progress.audit))
        if self.rewritten or time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self.write(_line(progress))

    def summary(self) -> dict[str, Any]:
        """Return the sums as plain values."""
        busy = max(self.busy_seconds, 1e-9)
        return {
            "batches": self.batches,
            "events": self.events,
            "matches": self.matches,
            "malformed": self.malformed,
            "catalog_version": self.version,
            "seconds": round(time.monotonic() - self._began, 3),
            "match_seconds": round(self.match_seconds, 3),
            "events_per_second": round(self.events / busy, 1),
            "matches_per_second": round(self.matches / busy, 1),
            **self._elastic(),
        }

    def _elastic(self) -> dict[str, Any]:
        """Return what an elastic run adds: the largest F, the matches that may be false, and the audit of them."""
        if self.false_positive is None:
            return {}
        found = {"false_positive_bound": self.false_positive, "approximate": self.approximate}
        if self.audit.events:
            found |= {
                "audited": self.audit.reported,
                "audited_false": self.audit.false,
                "audited_lost": self.audit.lost,
                "false_positive_measured": round(self.audit.share, 6),
            }
        return found


def _line(progress: Progress) -> str:
    seconds = max(progress.seconds, 1e-9)
    parts = [
        f"batch {progress.batch}",
        f"{progress.events / seconds:,.0f} events/s",
        f"{progress.matches / seconds:,.0f} matches/s",
        f"lag {progress.lag_seconds:.1f} s",
        f"matching {progress.match_seconds:.2f} s of {progress.seconds:.2f} s",
        f"catalog version {progress.catalog_version}",
    ]
    if progress.behind is not None:
        parts.append(f"{progress.behind:,} behind")
    if progress.false_positive is not None:
        parts.append(_elastic(progress))
    if progress.changes:
        parts.append(f"{progress.changes:,} changes since the index was built")
    if progress.malformed:
        parts.append(f"{progress.malformed:,} malformed")
    return "  ".join(parts)


def _elastic(progress: Progress) -> str:
    """Return F, and beside it what an audit has measured."""
    if not progress.false_positive:
        return "exact"
    text = f"up to {percent(progress.false_positive)} false"
    audit = progress.audit
    if audit is None or not audit.reported:
        return text
    lost = f", {audit.lost:,} LOST" if audit.lost else ""
    return f"{text} (measured {audit.share:.3%} of {audit.reported:,}{lost})"
