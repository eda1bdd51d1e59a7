"""A broker's numbers for Prometheus. They are read when they are asked for, so matching pays nothing for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from eventsieve.broker.histogram import Window, upper_bounds
from eventsieve.broker.stats import Stats
from eventsieve.errors import BrokerError

_BOUNDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper ends of the buckets that are published, in seconds."""


class Metrics:
    """An HTTP endpoint that serves what `stats` returns."""

    def __init__(self, stats: Callable[[], Stats], port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as cause:
            raise BrokerError("metrics need the Prometheus client: pip install 'eventsieve[metrics]'") from cause
        registry = CollectorRegistry()
        registry.register(_Collector(stats))
        try:
            self._server, self._thread = start_http_server(port, registry=registry)
        except OSError as cause:
            raise BrokerError(f"cannot serve metrics on port {port}: {cause.strerror}; name another port") from cause

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collector:
    """Turns numbers into metrics, under the names of the Spark stream where they mean the same."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def describe(self) -> Iterable[Any]:
        """Say nothing beforehand, or registering would already read the numbers."""
        return ()

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._stats()
        for name, text, value in (
            ("eventsieve_events", "Events matched.", now.events),
            ("eventsieve_matches", "Matches found.", now.matches),
            ("eventsieve_malformed", "Messages that could not be matched.", now.dead_letters),
            ("eventsieve_batches", "Batches matched.", now.batches),
        ):
            yield CounterMetricFamily(name, text, value=value)
        for name, text, gauge in (
            ("eventsieve_waiting_events", "Events in the input queue.", now.waiting),
            ("eventsieve_catalog_version", "Version in force.", now.version),
            ("eventsieve_false_positive_bound", "Share of false positives allowed.", now.false_positive),
        ):
            yield GaugeMetricFamily(name, text, value=gauge)
        yield _histogram("eventsieve_wait_seconds", "From receipt until matching begins.", now.wait)
        yield _histogram("eventsieve_match_seconds", "Matching, per batch.", now.match)
        yield _histogram("eventsieve_latency_seconds", "From receipt until a subscriber has it.", now.latency)
        backlog = GaugeMetricFamily("eventsieve_backlog", "Deliveries not acknowledged.", labels=["subscriber"])
        spilled = GaugeMetricFamily("eventsieve_spilled", "Those of them on disk.", labels=["subscriber"])
        delivered = CounterMetricFamily("eventsieve_delivered", "Deliveries acknowledged.", labels=["subscriber"])
        undelivered = CounterMetricFamily("eventsieve_undelivered", "Deliveries given up.", labels=["subscriber"])
        for each in now.subscribers:
            backlog.add_metric([each.name], each.backlog)
            spilled.add_metric([each.name], each.spilled)
            delivered.add_metric([each.name], each.delivered)
            undelivered.add_metric([each.name], each.undelivered)
        yield from (backlog, spilled, delivered, undelivered)


def _histogram(name: str, text: str, window: Window) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    until = np.cumsum(window.counts)
    ends = upper_bounds()
    # A bucket of ours counts where it ends: what is said to be under a bound is.
    places = [int(np.searchsorted(ends, bound, side="right")) - 1 for bound in _BOUNDS]
    buckets = [(str(bound), int(until[place])) for bound, place in zip(_BOUNDS, places, strict=True)]
    return HistogramMetricFamily(name, text, buckets=[*buckets, ("+Inf", window.n)], sum_value=window.total)
