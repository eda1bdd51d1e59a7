"""The progress of a broker: rates and latencies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from eventsieve.cli._live_line import SECONDS_BETWEEN_LINES, LiveLine
from eventsieve.elastic.settings import percent

if TYPE_CHECKING:
    from eventsieve.broker.stats import Stats

_SECONDS_BETWEEN_UPDATES: Final = 0.5


class BrokerLine(LiveLine):
    """Shows what happened since it last did."""

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[float, Stats] | None = None

    def show(self, stats: Stats) -> None:
        """Show the rates and latencies since the last line, if it is time for another one."""
        now = time.monotonic()
        if self._before is None:
            self._before = (now, stats)
            return
        then, earlier = self._before
        if now - then < (_SECONDS_BETWEEN_UPDATES if self.rewritten else SECONDS_BETWEEN_LINES):
            return
        self._before = (now, stats)
        self.write(_line(stats, earlier, now - then))


def _line(stats: Stats, earlier: Stats, seconds: float) -> str:
    latency = stats.latency.since(earlier.latency)
    parts = [
        f"{(stats.events - earlier.events) / seconds:,.0f} events/s",
        f"{(stats.matches - earlier.matches) / seconds:,.0f} matches/s",
        f"{stats.waiting:,} waiting",
        f"latency p50 {1000 * latency.percentile(0.5):.1f} ms, p99 {1000 * latency.percentile(0.99):.1f} ms",
        f"catalog version {stats.version}",
        "exact" if not stats.false_positive else f"up to {percent(stats.false_positive)} false",
    ]
    if stats.dead_letters:
        parts.append(f"{stats.dead_letters:,} dead letters")
    parts += [f"{each.name}: {each.failure}" for each in stats.subscribers if each.failure]
    return "  ".join(parts)
