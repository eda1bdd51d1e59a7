"""A stream against a changing catalog: every match is right for the version it names, and is there exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

import eventsieve as es
from eventsieve.catalog import Catalog
from eventsieve.spark import FileSink, MatchStream, Progress
from eventsieve.spark.metrics import Metrics
from eventsieve.spark.sources import Key, open_source
from tests.spark.market import SCHEMA, as_lines, drop, events, expected, filters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = [Key("event_id")]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for id, text in enumerate(filters(40)):
            edit.add(id, text)
    return made


def stream(
    spark: SparkSession, catalog: Catalog, folder: Path, heard: Callable[[Progress], None] | None = None, **more: Any
) -> MatchStream:
    source = open_source(spark, f"json:{folder / 'in'}", catalog.schema, KEY, rate=1, files=1, events=None)
    sink = FileSink(spark, "parquet", str(folder / "out"))
    return MatchStream(source, catalog, sink, folder / "checkpoint", key="event_id", on_batch=heard, **more)


def check(spark: SparkSession, catalog: Catalog, folder: Path, rows: list[dict[str, Any]]) -> set[int]:
    """Check all results against the library, version by version; return the versions that were used."""
    found = [
        (row.event_id, row.subscription_id, row.catalog_version)
        for row in spark.read.parquet(str(folder / "out")).collect()
    ]
    assert len(found) == len(set(found))
    version_of = {event: version for event, _, version in found}
    for version in set(version_of.values()):
        mine = [row for row in rows if version_of.get(row["event_id"]) == version]
        wanted = expected(catalog.subscriptions(version), mine)
        assert {(event, id) for event, id, at in found if at == version} == {(event, id) for event, id in wanted}
    return set(version_of.values())


def test_changes_take_effect_with_the_next_batch_and_bad_events_go_aside(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    rows = events(60, seed=1) + events(60, seed=2) + events(60, seed=3)
    heard: list[Progress] = []

    def change(progress: Progress) -> None:
        heard.append(progress)
        if progress.batch == 0:
            with catalog.edit() as edit:
                edit.add(500, "price >= 0")
                edit.remove(3)
                edit.replace(4, "price < 1000")

    bad = ['{"event_id": "b1", "price": "abc"}', "not JSON", '{"event_id": "b2", "volume": 1.5}']
    drop(tmp_path / "in", "1.json", as_lines(rows[:60]))
    drop(tmp_path / "in", "2.json", as_lines(rows[60:120]) + bad)
    catalog.add(600, "price >= 0")  # so that every event matches something, and its version shows
    stream(spark, catalog, tmp_path, change).run(until_empty=True)
    assert [(each.catalog_version, each.changes) for each in heard] == [(2, 0), (3, 4)]
    assert sum(each.events for each in heard) == 123
    assert sum(each.malformed for each in heard) == 3
    assert check(spark, catalog, tmp_path, rows) == {2, 3}
    letters = spark.read.json(str(tmp_path / "checkpoint" / "dead-letter")).collect()
    assert {row.event for row in letters} == set(bad)
    assert any("a number is needed, not 'abc'" in row.reason for row in letters)

    # A second run goes on: the old files are not read again, and the catalog has moved once more.
    drop(tmp_path / "in", "3.json", as_lines(rows[120:]))
    catalog.pause(500)
    stream(spark, catalog, tmp_path, change).run(until_empty=True)
    assert heard[-1].batch == 2
    assert check(spark, catalog, tmp_path, rows) == {2, 3, 4}


def test_a_repeated_batch_uses_the_recorded_version(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    rows = events(40)
    catalog.add(600, "price >= 0")
    drop(tmp_path / "in", "1.json", as_lines(rows))
    stream(spark, catalog, tmp_path).run(until_empty=True)
    # As if the process had died after writing its results and before Spark noted that the batch was done.
    (tmp_path / "checkpoint" / "spark" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "spark" / "commits" / ".0.crc").unlink(missing_ok=True)
    catalog.remove(600)
    stream(spark, catalog, tmp_path).run(until_empty=True)
    assert check(spark, catalog, tmp_path, rows) == {2}


def test_what_belongs_to_another_stream_is_left_alone(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    drop(tmp_path / "in", "1.json", as_lines(events(3)))
    stream(spark, catalog, tmp_path)
    with pytest.raises(es.DataError, match="belongs to another stream: its output is 'pairs'"):
        stream(spark, catalog, tmp_path, output="arrays")
    source = open_source(spark, f"json:{tmp_path / 'in'}", SCHEMA, KEY, 1, 1, None)
    with pytest.raises(es.DataError, match="results of another query"):
        MatchStream(source, catalog, FileSink(spark, "json", str(tmp_path / "out")), tmp_path / "other", key="event_id")
    with pytest.raises(es.DataError, match="not empty and no checkpoint"):
        MatchStream(source, catalog, FileSink(spark, "json", str(tmp_path / "new")), tmp_path / "in", key="event_id")
    with pytest.raises(es.DataError, match="does not exist"):
        open_source(spark, f"json:{tmp_path / 'nowhere'}", SCHEMA, KEY, 1, 1, None)
    with pytest.raises(es.SchemaError, match="did you mean 'event_id'"):
        open_source(spark, f"json:{tmp_path / 'in'}", SCHEMA, [Key("evnt_id")], 1, 1, None)
    with pytest.raises(es.DataError, match="a source is"):
        open_source(spark, "jsn:x", SCHEMA, KEY, 1, 1, None)
    with pytest.raises(es.DataError, match="cannot learn the columns"):
        open_source(spark, f"parquet:{tmp_path / 'in'}", SCHEMA, KEY, 1, 1, None)


def test_metrics_are_served_under_their_names() -> None:
    metrics = Metrics(0)
    try:
        metrics.add(Progress(0, 7, 100, 250, 1, 2.0, 0.5, 3.0, 0))
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    for line in ("eventsieve_matches_total 250.0", "eventsieve_lag_seconds 3.0", "eventsieve_catalog_version 7.0"):
        assert line in text
    assert "eventsieve_match_seconds_count 1.0" in text


@pytest.mark.deep
def test_a_grown_delta_is_folded_in_the_background(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for number in range(4):
        rows += events(20, seed=number)
        drop(tmp_path / "in", f"{number}.json", as_lines(events(20, seed=number)))
    heard: list[Progress] = []
    followed: list[MatchStream] = []

    def change(progress: Progress) -> None:
        heard.append(progress)
        first = 10_000 * (progress.batch + 1)
        with catalog.edit() as edit:
            for id in range(first, first + 2500):
                edit.add(id, f"price > {id % 100}")
        followed[0]._live.wait()

    followed.append(stream(spark, catalog, tmp_path, change))
    followed[0].run(until_empty=True)
    assert [each.changes for each in heard][:3] == [0, 2500, 2500], "batch 2 stands on the base folded after batch 1"
    check(spark, catalog, tmp_path, rows)


@pytest.mark.deep
def test_new_attributes_are_matched_without_a_restart(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    rows = events(20, seed=1) + events(20, seed=2)
    drop(tmp_path / "in", "1.json", as_lines(rows[:20]))
    drop(tmp_path / "in", "2.json", as_lines(rows[20:]))

    def change(progress: Progress) -> None:
        if progress.batch == 0:
            catalog.grow_schema({"colour": es.Text()})
            catalog.add(700, "colour IS NULL AND price >= 0")

    stream(spark, catalog, tmp_path, change).run(until_empty=True)
    assert 700 in {row.subscription_id for row in spark.read.parquet(str(tmp_path / "out")).collect()}
