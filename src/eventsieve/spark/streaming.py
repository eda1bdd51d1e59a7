"""Matching as a stream: micro-batches of events, each against one exact version of a catalog.

    checkpoint/
      eventsieve.json   what the stream is: a restart with anything else is refused
      versions/         batch -> catalog version and F, written before the batch runs
      index/            the base that the stream's index stands on, and the events that an elastic one has learned from
      spark/            Spark's own record of what was read
      dead-letter/      events that cannot be matched, with the reason (unless told to put them elsewhere)

A batch that runs again after a crash reads the same events, uses the recorded version and F, and replaces the same
folder of results: exactly once.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from eventsieve.catalog import Catalog
from eventsieve.elastic.audit import Audit
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.errors import CatalogError, DataError, EventsieveError, MatcherError, SparkError
from eventsieve.matchers.registry import elastic_matchers
from eventsieve.spark.columns import attribute_columns, key_columns
from eventsieve.spark.elasticity import Elasticity
from eventsieve.spark.failures import cause_in, clear_errors, reason_in
from eventsieve.spark.journal import Entry, Journal
from eventsieve.spark.letters import REASON, RECORD, dead_letters, of_record
from eventsieve.spark.live import LiveIndex
from eventsieve.spark.match import Output, Spread, matched
from eventsieve.spark.published import IdType, Published, write_atomically
from eventsieve.spark.sinks import FileSink, Sink
from eventsieve.spark.sources import AVAILABLE, UNREADABLE
from eventsieve.spark.worker import AuditSum, Counters, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

LEARN_FROM: Final = 2_000
"""Events that a stream learns from before it may leave anything out."""
HELPERS: Final = (UNREADABLE, AVAILABLE, RECORD, REASON)
"""Columns of our own sources that are no part of an event."""
_POLL: Final = 1
"""Seconds between two looks at whether the stream has ended or is asked to."""
_SPARK_STREAMING: Final = "org.apache.spark.sql.execution.streaming"


@dataclass(frozen=True)
class Progress:
    """One finished batch."""

    batch: int
    catalog_version: int
    events: int
    matches: int
    malformed: int
    seconds: float
    match_seconds: float
    """Summed over all workers."""
    lag_seconds: float
    """From the moment the oldest event of the batch could be read to the moment its matches are out."""
    changes: int
    """Changes of the catalog that the index carries beside its base."""
    false_positive: float | None = None
    """F: the share of the matches that may be false, 0 while matching is exact, None where it always is."""
    approximate: int = 0
    """Matches that may be false."""
    waited_seconds: float = 0.0
    """How long events waited beyond one trigger interval, on average: what F follows."""
    audit: Audit | None = None
    """What was found when some of the events were matched exactly as well."""
    behind: int | None = None
    """Events that wait in the source behind this batch, where the source can say so."""


class _StopAsked(Exception):
    """Raised instead of beginning another batch."""


class MatchStream:
    """A stream of events matched against a catalog that may change meanwhile.

    `events` is a streaming DataFrame with attribute and key columns. Matches go to `sink`; `on_batch` hears of every
    batch that is done.

    With `elastic` settings and an elastic matcher, a share of false matches is allowed while events wait too long. F
    stays 0 until `learn_from` events of the stream have been seen and plans are made by them. `audit` is the share of
    the events that are then matched exactly as well, to measure what is false.
    """

    def __init__(
        self,
        events: DataFrame,
        catalog: Catalog,
        sink: Sink,
        checkpoint: str | Path,
        *,
        key: str | Sequence[str] | None = None,
        output: Output = "pairs",
        matcher: str = "auto",
        spread: Spread = "events",
        shards: int | None = None,
        ids: IdType | None = None,
        dead_letter: str | Sink | None = None,
        behind: Callable[[Path, int], int | None] | None = None,
        facts: dict[str, Any] | None = None,
        on_batch: Callable[[Progress], None] | None = None,
        elastic: ElasticSettings = OFF,
        audit: float = 0.0,
        learn_from: int = LEARN_FROM,
        clock: Callable[[], float] = time.time,
        **params: Any,
    ) -> None:
        if not events.isStreaming:
            raise DataError("the events are no stream; match() takes them as they are")
        _check_elastic(elastic, audit, matcher)
        self._spark = events.sparkSession
        self._catalog, self._sink, self._events = catalog, sink, _with_helpers(events)
        self._checkpoint = Path(checkpoint).absolute()
        visible = events.select(*(name for name in events.columns if name not in HELPERS))
        self._keys = key_columns(visible, catalog.schema, key)
        self._output, self._spread, self._on_batch = output, spread, on_batch
        identity = {
            "catalog": str(catalog.path.absolute()),
            "key": self._keys,
            "output": output,
            "matcher": matcher,
            "params": params,
            **(facts or {}),
        }
        self._record = _claimed(self._checkpoint, identity, lambda: ids or _id_type(catalog))
        sink.claim(self._record["query"])
        self._letters = self._letter_box(dead_letter)
        self._behind = behind
        self._journal = Journal(self._checkpoint / "versions")
        if elastic.enabled and matcher == "auto":
            params = {"false_positive": elastic.maximum, **params}
        self._live = LiveIndex(
            self._spark,
            catalog,
            self._checkpoint / "index",
            matcher,
            params,
            shards,
            self._record["ids"],
            elastic.ladder,
        )
        self._elastic, self._audit, self._learn_from, self._clock = elastic, audit, learn_from, clock
        self._elasticity: Elasticity | None = None
        self._sampled: list[pa.Table] = []
        self._stop = threading.Event()
        self._failure: EventsieveError | None = None

    def stop(self) -> None:
        """Ask the stream to end after the batch it is at; `run` returns then."""
        self._stop.set()

    def run(self, every: float = 0.0, until_empty: bool = False) -> None:
        """Match until there is nothing left (`until_empty`), or until `stop` is called.

        `every` is the least number of seconds between the beginnings of two batches.
        """
        self._prepare(every)
        writer = self._events.writeStream.option("checkpointLocation", (self._checkpoint / "spark").as_uri())
        writer = writer.trigger(availableNow=True) if until_empty else writer.trigger(processingTime=f"{every} seconds")
        query = writer.foreachBatch(self._batch).start()
        try:
            self._await(query)
        finally:
            self._report_errors(True)
            self._live.wait()

    def _prepare(self, every: float) -> None:
        """Build or open the base now, so that the first batch does not wait for it."""
        self._live.at(self._catalog.version)
        if self._elastic.enabled:
            last = self._journal.last() or Entry(0)
            self._elasticity = Elasticity(self._elastic, every, last.false_positive, last.waited)

    def _await(self, query: StreamingQuery) -> None:
        from pyspark.errors import PySparkException

        try:
            while not query.awaitTermination(_POLL):
                if self._stop.is_set():
                    self._report_errors(False)
                    # Between two batches nothing is lost by stopping; within one, the next beginning ends it.
                    if not query.status["isTriggerActive"] or not query.isActive:
                        query.stop()
        except PySparkException as failure:
            if self._failure is not None:
                raise self._failure from failure
            if self._stop.is_set():
                return
            ours = cause_in(str(failure))
            raise ours or SparkError(f"the stream ended with an error: {reason_in(str(failure))}") from failure

    def _report_errors(self, wanted: bool) -> None:
        """Keep Spark from writing stack traces about an end that is asked for; afterwards it may again."""
        jvm: Any = self._spark._jvm
        log4j = jvm.org.apache.logging.log4j
        level = log4j.LogManager.getRootLogger().getLevel() if wanted else log4j.Level.OFF
        log4j.core.config.Configurator.setLevel(_SPARK_STREAMING, level)

    # -- one batch -----------------------------------------------------------------------------------------

    def _batch(self, events: DataFrame, batch: int) -> None:
        if self._stop.is_set():
            self._report_errors(False)
            raise _StopAsked
        try:
            with clear_errors():
                progress = self._matched(events, batch)
        except EventsieveError as failure:
            # Spark would hand over a stack trace with the text in it; the driver is one process and can keep the error.
            self._failure = failure
            self._report_errors(False)
            raise
        if self._on_batch is not None:
            self._on_batch(progress)

    def _matched(self, events: DataFrame, batch: int) -> Progress:
        from pyspark.sql import Observation, functions

        began = self._clock()
        entry, index, steps = self._begun(batch, began)
        counters = self._counters()
        seen = Observation(f"batch {batch}")
        observed = events.observe(
            seen,
            functions.min(AVAILABLE).alias("first"),
            functions.avg(functions.col(AVAILABLE).cast("double")).alias("mean"),
        )
        rows = matched(
            observed, index, self._keys, self._output, self._spread, "skip",
            steps=steps, unreadable=UNREADABLE, counters=counters,
            false_positive=entry.false_positive, audit=self._audit, seed=batch,
        )  # fmt: skip
        self._sink.write(batch, rows)
        if counters.malformed.value:
            self._letters.claim(self._record["query"])
            self._letters.write(batch, dead_letters(events, index.schema, UNREADABLE, HELPERS, of_record(events)))
        ended = self._clock()
        times = seen.get if counters.events.value else {}
        first = times.get("first")
        waited = 0.0
        if self._elasticity is not None:
            waited = self._elasticity.end(began, ended, times.get("mean"), counters.events.value)
            self._learn(events, counters.events.value, batch)
        return Progress(
            batch=batch,
            catalog_version=entry.catalog_version,
            events=counters.events.value,
            matches=counters.matches.value,
            malformed=counters.malformed.value,
            seconds=ended - began,
            match_seconds=counters.seconds.value,
            lag_seconds=ended - (began if first is None else _timestamp(first)),
            changes=self._live.n_changes,
            # A repeated batch can be elastic in a run that is not.
            false_positive=entry.false_positive or (None if self._elasticity is None else 0.0),
            approximate=counters.approximate.value,
            waited_seconds=waited,
            audit=counters.audit.value if self._audit and entry.false_positive else None,
            behind=None if self._behind is None else self._behind(self._checkpoint, batch),
        )

    def _letter_box(self, dead_letter: str | Sink | None) -> Sink:
        """Return where events go that cannot be matched: a sink of the user's, or a folder."""
        if dead_letter is None or isinstance(dead_letter, str):
            return FileSink(self._spark, "json", dead_letter or (self._checkpoint / "dead-letter").as_uri())
        return dead_letter

    def _counters(self) -> Counters:
        context = self._spark.sparkContext
        events, matches, malformed, approximate = (context.accumulator(0) for _ in range(4))
        audit = context.accumulator(Audit(), AuditSum())  # type: ignore[arg-type]  # it has the two methods
        return Counters(events, matches, malformed, context.accumulator(0.0), approximate, audit)

    def _begun(self, batch: int, now: float) -> tuple[Entry, Published, tuple[Step, ...]]:
        """Return what a batch is matched with: what it was begun with before, else the newest version and F."""
        recorded = self._journal.of(batch)
        version = self._catalog.version if recorded is None else self._still_there(batch, recorded.catalog_version)
        index, steps = self._live.at(version)
        if recorded is not None:
            return recorded, index, steps
        share = 0.0
        if self._elasticity is not None:
            wanted = self._elasticity.begin(now)
            share = wanted if self._live.prepared else 0.0
        entry = Entry(version, share, 0.0 if self._elasticity is None else self._elasticity.waited)
        self._journal.begin(batch, entry)
        return entry, index, steps

    def _still_there(self, batch: int, version: int) -> int:
        if version > self._catalog.version:
            raise CatalogError(
                f"batch {batch} was begun with version {version} of the catalog, which now ends at "
                f"{self._catalog.version}; "
                "restore the catalog, or start with a new checkpoint"
            )
        return version

    def _learn(self, events: DataFrame, n_events: int, batch: int) -> None:
        """Take a sample of a batch, until there are enough events for the plans to learn from."""
        if not n_events or not self._live.needs_sample:
            return
        missing = self._learn_from - sum(map(len, self._sampled))
        good = events.where(events[UNREADABLE].isNull()).select(*attribute_columns(events, self._catalog.schema))
        # A little more than is missing is drawn, since a sample by chance can fall short.
        drawn = good.sample(fraction=min(1.0, 1.2 * missing / n_events), seed=batch).limit(missing)
        self._sampled.append(drawn.toArrow())
        if sum(map(len, self._sampled)) >= self._learn_from:
            self._live.learn(pa.concat_tables(self._sampled))
            self._sampled.clear()


def _with_helpers(events: DataFrame) -> DataFrame:
    """Add the columns that our own sources have and a user's DataFrame lacks."""
    from pyspark.sql import functions

    for name, kind in ((UNREADABLE, "string"), (AVAILABLE, "timestamp")):
        if name not in events.columns:
            events = events.withColumn(name, functions.lit(None).cast(kind))
    return events


def _check_elastic(elastic: ElasticSettings, audit: float, matcher: str) -> None:
    if elastic.enabled and matcher not in ("auto", *elastic_matchers()):
        raise MatcherError(
            f"matcher {matcher!r} cannot be elastic; choose one of {', '.join(elastic_matchers())}, or "
            "leave elastic off"
        )
    if not 0.0 <= audit <= 1.0:
        raise DataError(f"audit is the share of the events to match twice, from 0 to 1, not {audit!r}")
    if audit and not elastic.enabled:
        raise DataError("an audit measures elastic matching; switch elastic on, or leave the audit out")


def _timestamp(moment: datetime) -> float:
    """Return seconds since 1970. Spark hands out moments in the driver's zone, without saying so."""
    return moment.timestamp() if moment.tzinfo is None else moment.astimezone(UTC).timestamp()


def _id_type(catalog: Catalog) -> IdType:
    """Return what the ids of a catalog are now: texts may come to texts later, but not to whole numbers."""
    rows = catalog.rows()
    return "long" if len(rows) and rows.column("id_text").null_count == len(rows) else "string"


def _claimed(checkpoint: Path, identity: dict[str, Any], ids: Callable[[], IdType]) -> dict[str, Any]:
    """Return the checkpoint's record, made if the folder is new; raise DataError if it is another stream's."""
    path = checkpoint / "eventsieve.json"
    if not path.exists():
        if checkpoint.is_dir() and any(checkpoint.iterdir()):
            raise DataError(f"{checkpoint} is not empty and no checkpoint of eventsieve; name a new folder")
        record = {**identity, "ids": ids(), "query": uuid.uuid4().hex}
        write_atomically(path, json.dumps(record, indent=2))
        return record
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as cause:
        raise DataError(
            f"the checkpoint {checkpoint} is damaged: {path.name} is not JSON; name a new folder"
        ) from cause
    for name, value in identity.items():
        if record.get(name) != value:
            raise DataError(
                f"the checkpoint {checkpoint} belongs to another stream: its {name} is {record.get(name)!r}, not "
                f"{value!r}; "
                "name a new checkpoint, or go on as before"
            )
    return record
