"""Matching as a stream: micro-batches of events, each against one exact version of a catalog.

    checkpoint/
      eventsieve.json   what the stream is: a restart with anything else is refused
      versions/         batch -> catalog version, written before the batch runs
      index/            the base that the stream's index stands on
      spark/            Spark's own record of what was read
      dead-letter/      events that cannot be matched, with the reason (unless told to put them elsewhere)

A batch that runs again after a crash reads the same events, uses the recorded version and replaces the same folder of
results: exactly once.
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

from eventsieve.catalog import Catalog
from eventsieve.errors import CatalogError, DataError, EventsieveError, SparkError
from eventsieve.spark.columns import key_columns
from eventsieve.spark.failures import cause_in, clear_errors, reason_in
from eventsieve.spark.journal import Journal
from eventsieve.spark.letters import dead_letters
from eventsieve.spark.live import LiveIndex
from eventsieve.spark.match import Output, Spread, matched
from eventsieve.spark.published import IdType, write_atomically
from eventsieve.spark.sinks import FileSink, Sink
from eventsieve.spark.sources import AVAILABLE, UNREADABLE
from eventsieve.spark.worker import Counters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

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


class _StopAsked(Exception):
    """Raised instead of beginning another batch."""


class MatchStream:
    """A stream of events matched against a catalog that may change meanwhile.

    `events` is a streaming DataFrame with attribute and key columns. Matches go to `sink`; `on_batch` hears of every
    batch that is done.
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
        dead_letter: str | None = None,
        facts: dict[str, Any] | None = None,
        on_batch: Callable[[Progress], None] | None = None,
        **params: Any,
    ) -> None:
        if not events.isStreaming:
            raise DataError("the events are no stream; match() takes them as they are")
        self._spark = events.sparkSession
        self._catalog, self._sink, self._events = catalog, sink, _with_helpers(events)
        self._checkpoint = Path(checkpoint).absolute()
        visible = events.select(*(name for name in events.columns if name not in (UNREADABLE, AVAILABLE)))
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
        self._letters = FileSink(self._spark, "json", dead_letter or (self._checkpoint / "dead-letter").as_uri())
        self._journal = Journal(self._checkpoint / "versions")
        self._live = LiveIndex(
            self._spark, catalog, self._checkpoint / "index", matcher, params, shards, self._record["ids"]
        )
        self._stop = threading.Event()
        self._failure: EventsieveError | None = None

    def stop(self) -> None:
        """Ask the stream to end after the batch it is at; `run` returns then."""
        self._stop.set()

    def run(self, every: float = 0.0, until_empty: bool = False) -> None:
        """Match until there is nothing left (`until_empty`), or until `stop` is called.

        `every` is the least number of seconds between the beginnings of two batches.
        """
        self._prepare()
        writer = self._events.writeStream.option("checkpointLocation", (self._checkpoint / "spark").as_uri())
        writer = writer.trigger(availableNow=True) if until_empty else writer.trigger(processingTime=f"{every} seconds")
        query = writer.foreachBatch(self._batch).start()
        try:
            self._await(query)
        finally:
            self._report_errors(True)
            self._live.wait()

    def _prepare(self) -> None:
        """Build or open the base now, so that the first batch does not wait for it."""
        self._live.at(self._catalog.version)

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

        began = time.time()
        version = self._version(batch)
        index, steps = self._live.at(version)
        context = self._spark.sparkContext
        events_seen, matches, malformed = (context.accumulator(0) for _ in range(3))
        counters = Counters(events_seen, matches, malformed, context.accumulator(0.0))
        seen = Observation(f"batch {batch}")
        observed = events.observe(seen, functions.min(AVAILABLE).alias("first"))
        rows = matched(
            observed, index, self._keys, self._output, self._spread, "skip",
            steps=steps, unreadable=UNREADABLE, counters=counters,
        )  # fmt: skip
        self._sink.write(batch, rows)
        if counters.malformed.value:
            self._letters.claim(self._record["query"])
            hidden = (UNREADABLE, AVAILABLE)
            self._letters.write(batch, dead_letters(events, index.schema, UNREADABLE, hidden))
        ended = time.time()
        first = seen.get.get("first") if counters.events.value else None
        return Progress(
            batch=batch,
            catalog_version=version,
            events=counters.events.value,
            matches=counters.matches.value,
            malformed=counters.malformed.value,
            seconds=ended - began,
            match_seconds=counters.seconds.value,
            lag_seconds=ended - (began if first is None else _timestamp(first)),
            changes=self._live.n_changes,
        )

    def _version(self, batch: int) -> int:
        """Return the version this batch was begun with, or begin it with the newest one."""
        recorded = self._journal.version_of(batch)
        if recorded is not None:
            if recorded > self._catalog.version:
                raise CatalogError(
                    f"batch {batch} was begun with version {recorded} of the catalog, which now ends at "
                    f"{self._catalog.version}; "
                    "restore the catalog, or start with a new checkpoint"
                )
            return recorded
        version = self._catalog.version
        self._journal.begin(batch, version)
        return version


def _with_helpers(events: DataFrame) -> DataFrame:
    """Add the columns that our own sources have and a user's DataFrame lacks."""
    from pyspark.sql import functions

    for name, kind in ((UNREADABLE, "string"), (AVAILABLE, "timestamp")):
        if name not in events.columns:
            events = events.withColumn(name, functions.lit(None).cast(kind))
    return events


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
