"""The progress of a stream on standard error: one live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from eventsieve.cli._io import say

if TYPE_CHECKING:
    from eventsieve.spark.streaming import Progress

_SECONDS_BETWEEN_LINES: Final = 5.0


class ProgressLine:
    """Sums over all batches, and a line about the last one."""

    def __init__(self) -> None:
        self.events = self.matches = self.malformed = self.batches = 0
        self.match_seconds = self.busy_seconds = 0.0
        self.version = -1
        self._began = time.monotonic()
        self._said = float("-inf")
        self._live: Any = None

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=False, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, progress: Progress) -> None:
        """Count a batch and show it."""
        self.batches += 1
        self.events += progress.events
        self.matches += progress.matches
        self.malformed += progress.malformed
        self.match_seconds += progress.match_seconds
        self.busy_seconds += progress.seconds
        self.version = progress.catalog_version
        text = _line(progress)
        if self._live is not None:
            self._live.update(text)
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            say(text)

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
        }


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
    if progress.changes:
        parts.append(f"{progress.changes:,} changes since the index was built")
    if progress.malformed:
        parts.append(f"{progress.malformed:,} malformed")
    return "  ".join(parts)
