"""The progress of a broker on standard error: one live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from eventsieve.cli._io import say
from eventsieve.elastic.settings import percent

if TYPE_CHECKING:
    from eventsieve.broker.stats import Stats

_SECONDS_BETWEEN_LINES: Final = 5.0
_SECONDS_BETWEEN_UPDATES: Final = 0.5


class BrokerLine:
    """Shows what happened since it last did."""

    def __init__(self) -> None:
        self._live: Any = None
        self._before: tuple[float, Stats] | None = None

    def __enter__(self) -> BrokerLine:
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

    def show(self, stats: Stats) -> None:
        """Show the rates and latencies since the last line, if it is time for another one."""
        now = time.monotonic()
        if self._before is None:
            self._before = (now, stats)
            return
        then, earlier = self._before
        if now - then < (_SECONDS_BETWEEN_LINES if self._live is None else _SECONDS_BETWEEN_UPDATES):
            return
        self._before = (now, stats)
        text = _line(stats, earlier, now - then)
        if self._live is not None:
            self._live.update(text)
        else:
            say(text)


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
