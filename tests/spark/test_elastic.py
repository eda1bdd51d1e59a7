"""Elastic streams: F follows the waits and comes back, is written down before it is used, and never loses a match."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import numpy as np
import pytest

import eventsieve as es
from eventsieve.catalog import Catalog
from eventsieve.cli._progress import ProgressLine, _line
from eventsieve.elastic.audit import Audit
from eventsieve.elastic.settings import ElasticSettings
from eventsieve.spark import FileSink, MatchStream, Progress
from eventsieve.spark.elasticity import Elasticity
from eventsieve.spark.journal import Entry, Journal
from eventsieve.spark.metrics import Metrics
from eventsieve.spark.sources import Key, open_source
from tests.spark.market import as_lines, drop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = es.Schema({f"a{number}": es.Float(0, 1) for number in range(8)})
SETTINGS = ElasticSettings.parse("max=6%,step=2%")
INTERVAL = 1000.0
"""Seconds: far above what the machine takes, so that only the waits that a test makes up count."""
NEVER_IDLE = 900.0


# -- the controller of a stream ----------------------------------------------------------------------------


def test_f_follows_what_events_wait_beyond_one_interval() -> None:
    elastic = Elasticity(ElasticSettings.parse("max=0.06%,step=0.02%"), every=10.0)
    assert (elastic.settings.upper, elastic.settings.lower) == (20.0, 10.0)
    seen, now = [], 0.0
    for lag in (9.0, 29.0, 31.0, 35.0, 40.0, 25.0, 19.0, 12.0, 5.0):
        seen.append(elastic.begin(now))
        assert elastic.end(now, now + 1.0, readable=now + 1.0 - lag, events=5) == max(0.0, lag - 10.0)
        now += 10.0
    assert seen == [0.0, 0.0, 0.0, 0.0002, 0.0004, 0.0006, 0.0006, 0.0004, 0.0002]
    assert elastic.begin(now) == 0.0


def test_where_nobody_knows_when_events_came_a_batch_is_their_wait() -> None:
    elastic = Elasticity(ElasticSettings.parse("on"), every=0.0)
    assert (elastic.settings.upper, elastic.settings.lower) == (2.0, 1.0), "no interval counts as one of a second"
    assert elastic.end(began=5.0, ended=9.0, readable=None, events=1) == 3.0
    assert elastic.begin(9.0) == 0.0002


def test_intervals_without_a_batch_lower_f() -> None:
    elastic = Elasticity(SETTINGS, every=10.0, false_positive=0.06, waited=50.0)
    assert elastic.begin(1000.0) == 0.06, "a restart goes on with the F it had"
    elastic.end(1000.0, 1001.0, readable=975.0, events=1)
    assert elastic.begin(1005.0) == 0.06, "16 s are between the thresholds"
    assert elastic.begin(1022.0) == 0.02


def test_a_window_of_events_can_take_several_batches() -> None:
    elastic = Elasticity(ElasticSettings.parse("max=6%,step=2%,window=25events"), every=1.0)
    shares = []
    for number in range(6):
        elastic.end(number, number, readable=number - 9.0, events=10)
        shares.append(elastic.begin(number))
    assert shares == [0.0, 0.0, 0.02, 0.02, 0.02, 0.04]


# -- whole streams -----------------------------------------------------------------------------------------


def texts(count: int) -> list[str]:
    """Return filters with three ranges each, wide ones and narrow ones."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(count):
        attributes = rng.choice(8, 3, replace=False)
        low = rng.random(3) * 0.5
        ranges = zip(attributes, low, low + rng.random(3) * 0.5, strict=True)
        found.append(" AND ".join(f"a{a} BETWEEN {first:.3f} AND {last:.3f}" for a, first, last in ranges))
    return found


def rows_of(number: int, count: int = 120) -> list[dict[str, Any]]:
    values = np.random.default_rng(100 + number).random((count, 8)).round(4)
    return [
        {"event_id": f"{number}-{e}", **{f"a{a}": float(value) for a, value in enumerate(row)}}
        for e, row in enumerate(values)
    ]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for id, text in enumerate(texts(800)):
            edit.add(id, text)
    return made


class Market:
    """A folder of files that become readable when a test says, and a stream whose clock shows what a test says."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path) -> None:
        self.spark, self.catalog, self.folder = spark, catalog, folder
        self.heard: list[Progress] = []
        self.files = 0
        self.times: list[float] = []

    def publish(self, lag: float) -> None:
        """Add a file whose batch will begin and end `lag` seconds after it became readable."""
        now = 1.0e9 + NEVER_IDLE * self.files
        name = f"{self.files:04d}.json"
        drop(self.folder / "in", name, as_lines(rows_of(self.files)))
        os.utime(self.folder / "in" / name, (now - lag, now - lag))
        self.times.append(now)
        self.files += 1

    def stream(self, first_batch: int = 0, **more: Any) -> MatchStream:
        moments = (moment for moment in self.times[first_batch:] for _ in ("began", "ended"))
        source = open_source(self.spark, f"json:{self.folder / 'in'}", SCHEMA, [Key("event_id")], 1, 1, None)
        sink = FileSink(self.spark, "parquet", str(self.folder / "out"))
        settings = {"matcher": "spare-rein", "elastic": SETTINGS, "audit": 1.0, "learn_from": 100, **more}
        return MatchStream(
            source, self.catalog, sink, self.folder / "checkpoint", key="event_id", on_batch=self._heard,
            clock=moments.__next__, **settings,
        )  # fmt: skip

    def run(self, first_batch: int = 0, **more: Any) -> None:
        self._running = self.stream(first_batch, **more)
        self._running.run(every=INTERVAL, until_empty=True)

    def _heard(self, progress: Progress) -> None:
        self.heard.append(progress)
        self._running._live.wait()

    def forget_that_it_was_done(self, batch: int) -> None:
        """Leave things as if the process had died after writing its results and before Spark noted that."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.folder / "checkpoint" / "spark" / "commits" / name).unlink(missing_ok=True)

    def rows(self, batch: int) -> dict[tuple[str, int], tuple[str, float]]:
        found = self.spark.read.parquet(str(self.folder / "out" / f"batch_id={batch}")).collect()
        pairs = {(row.event_id, row.subscription_id): (row.match_mode, row.match_bound) for row in found}
        assert len(pairs) == len(found)
        return pairs

    def check(self, progress: Progress) -> None:
        """Check a batch against brute force: nothing lost, labels right, the audit's counts those of the rows."""
        index = es.build(self.catalog.subscriptions(progress.catalog_version), matcher="simple")
        rows = rows_of(progress.batch)
        truth = {
            (row["event_id"], id)
            for row, ids in zip(rows, index.match_batch([{k: row[k] for k in SCHEMA} for row in rows]), strict=True)
            for id in ids
        }
        found = self.rows(progress.batch)
        false = set(found) - truth
        assert truth <= set(found), "a match is lost"
        assert all(found[pair][0] == "approximate" for pair in false)
        assert {bound for _, bound in found.values()} == {progress.false_positive or 0.0}
        assert progress.approximate == sum(mode == "approximate" for mode, _ in found.values())
        assert progress.matches == len(found)
        if not progress.false_positive:
            assert not false
        elif audit := progress.audit:
            assert (audit.reported, audit.false, audit.lost) == (len(found), len(false), 0)
            assert audit.share <= progress.false_positive + 2 * audit.error


def test_f_rises_under_load_and_comes_back_and_a_repeated_batch_has_the_f_it_had(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    market = Market(spark, catalog, tmp_path)
    for _ in range(4):
        market.publish(lag=4 * INTERVAL)
    market.run()
    shares = [progress.false_positive for progress in market.heard]
    # Nothing is left out until plans were made by the stream's own events: two batches here.
    assert shares == [0.0, 0.0, 0.04, 0.06]
    for progress in market.heard:
        market.check(progress)
    assert market.heard[-1].approximate > 0
    assert sum(progress.audit.false for progress in market.heard if progress.audit) > 0, "something was left out"

    before = market.rows(3)
    market.forget_that_it_was_done(3)
    for _ in range(4):
        market.publish(lag=INTERVAL / 2)
    market.heard.clear()
    catalog.remove(3)
    market.run(first_batch=3)
    assert [(progress.batch, progress.false_positive) for progress in market.heard] == [
        (3, 0.06), (4, 0.06), (5, 0.04), (6, 0.02), (7, 0.0)
    ]  # fmt: skip
    assert market.rows(3) == before
    for progress in market.heard:
        market.check(progress)
    assert Journal(tmp_path / "checkpoint" / "versions").of(5) == Entry(2, 0.04, 0.0)


@pytest.mark.deep
def test_plans_follow_the_catalog_and_off_is_exact(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    market = Market(spark, catalog, tmp_path)
    for _ in range(3):
        market.publish(lag=4 * INTERVAL)

    def change(progress: Progress) -> None:
        if progress.batch == 2:
            return
        with catalog.edit() as edit:
            for id in range(200 * progress.batch, 200 * progress.batch + 150):
                edit.remove(id)
            edit.add(5000 + progress.batch, "a0 >= 0")

    heard = market._heard
    # A method is replaced, to listen in.
    market._heard = lambda progress: (heard(progress), change(progress))[0]  # type: ignore[method-assign]
    market.run()
    assert [progress.false_positive for progress in market.heard] == [0.0, 0.0, 0.04]
    market.forget_that_it_was_done(2)
    market.publish(lag=4 * INTERVAL)
    market.run(first_batch=2, elastic=ElasticSettings.parse("off"), audit=0.0)
    # The batch that was begun with an F is finished with it; the next one is exact.
    assert [(progress.batch, progress.false_positive) for progress in market.heard[-2:]] == [(2, 0.04), (3, None)]
    for progress in market.heard:
        market.check(progress)


def test_what_cannot_be_elastic_is_refused(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    market = Market(spark, catalog, tmp_path)
    market.publish(lag=0.0)
    with pytest.raises(es.MatcherError, match="'rein' cannot be elastic; choose one of ada-rein, spare-rein, wpa-rein"):
        market.stream(matcher="rein")
    with pytest.raises(es.DataError, match="an audit measures elastic matching; switch elastic on"):
        market.stream(elastic=ElasticSettings.parse("off"))


# -- what people see ---------------------------------------------------------------------------------------


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    served = Metrics(0)
    yield served
    served.close()


def elastic_progress(**more: Any) -> Progress:
    return Progress(3, 7, 100, 2500, 0, 2.0, 0.5, 3.0, 0, **more)


def test_bound_and_measurement_are_served_side_by_side(metrics: Metrics) -> None:
    audit = Audit.of(np.array([900, 100]), np.array([0, 1]))
    metrics.add(elastic_progress(false_positive=0.002, approximate=40, waited_seconds=12.5, audit=audit))
    with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
        text = answer.read().decode()
    for line in (
        "eventsieve_false_positive_bound 0.002",
        "eventsieve_false_positive_measured 0.001",
        "eventsieve_approximate_matches_total 40.0",
        "eventsieve_audited_matches_total 1000.0",
        "eventsieve_audited_false_total 1.0",
        "eventsieve_audited_lost_total 0.0",
        "eventsieve_wait_seconds 12.5",
    ):
        assert line in text


def test_the_progress_line_and_the_summary_say_what_may_be_false(capsys: pytest.CaptureFixture[str]) -> None:
    audit = Audit.of(np.array([900, 100]), np.array([0, 1]))
    assert "exact" not in _line(elastic_progress())
    assert "  exact" in _line(elastic_progress(false_positive=0.0))
    assert "up to 0.2% false (measured 0.100% of 1,000)" in _line(elastic_progress(false_positive=0.002, audit=audit))
    line = ProgressLine()
    assert "approximate" not in line.summary()
    for share in (0.0, 0.004, 0.002):
        line.add(elastic_progress(false_positive=share, approximate=5, audit=audit if share else None))
    summary = line.summary()
    assert summary["false_positive_bound"] == 0.004
    assert summary["approximate"] == 15
    assert (summary["audited"], summary["audited_false"], summary["audited_lost"]) == (2000, 2, 0)
    assert summary["false_positive_measured"] == 0.001
