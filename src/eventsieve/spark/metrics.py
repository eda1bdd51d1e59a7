"""The progress of a stream for Prometheus, under the names that dashboards expect."""

from __future__ import annotations

from eventsieve.errors import SparkError
from eventsieve.spark.streaming import Progress


class Metrics:
    """An HTTP endpoint that serves the sums of all batches until now."""

    def __init__(self, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
        except ImportError as cause:
            raise SparkError("metrics need the Prometheus client: pip install 'eventsieve[metrics]'") from cause
        registry = CollectorRegistry()
        self._events = Counter("eventsieve_events", "Events read.", registry=registry)
        self._matches = Counter("eventsieve_matches", "Matches found.", registry=registry)
        self._malformed = Counter("eventsieve_malformed", "Events that could not be matched.", registry=registry)
        self._match = Histogram("eventsieve_match_seconds", "Matching per batch, over all workers.", registry=registry)
        self._batch = Histogram("eventsieve_batch_seconds", "Whole batches.", registry=registry)
        self._lag = Gauge("eventsieve_lag_seconds", "From readable to matched, in the last batch.", registry=registry)
        self._behind = Gauge("eventsieve_behind_events", "Events that wait in the source.", registry=registry)
        self._version = Gauge("eventsieve_catalog_version", "Catalog version of the last batch.", registry=registry)
        self._bound = Gauge("eventsieve_false_positive_bound", "Share of false positives allowed.", registry=registry)
        self._measured = Gauge(
            "eventsieve_false_positive_measured", "Share that the last audit found false.", registry=registry
        )
        self._approximate = Counter("eventsieve_approximate_matches", "Matches that may be false.", registry=registry)
        self._audited = Counter("eventsieve_audited_matches", "Matches that were audited.", registry=registry)
        self._false = Counter("eventsieve_audited_false", "Audited matches that are false.", registry=registry)
        self._lost = Counter("eventsieve_audited_lost", "Audited matches never reported: 0.", registry=registry)
        self._wait = Gauge("eventsieve_wait_seconds", "Mean wait beyond one trigger interval.", registry=registry)
        try:
            self._server, self._thread = start_http_server(port, registry=registry)
        except OSError as cause:
            raise SparkError(f"cannot serve metrics on port {port}: {cause.strerror}; name another port") from cause

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def add(self, progress: Progress) -> None:
        """Count a finished batch."""
        self._events.inc(progress.events)
        self._matches.inc(progress.matches)
        self._malformed.inc(progress.malformed)
        self._match.observe(progress.match_seconds)
        self._batch.observe(progress.seconds)
        self._lag.set(progress.lag_seconds)
        if progress.behind is not None:
            self._behind.set(progress.behind)
        self._version.set(progress.catalog_version)
        self._bound.set(progress.false_positive or 0.0)
        self._approximate.inc(progress.approximate)
        self._wait.set(progress.waited_seconds)
        if progress.audit is not None:
            self._measured.set(progress.audit.share)
            self._audited.inc(progress.audit.reported)
            self._false.inc(progress.audit.false)
            self._lost.inc(progress.audit.lost)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
