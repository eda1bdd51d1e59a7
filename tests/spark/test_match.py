"""`match` gives what the library gives, whatever the subscriptions come from and however the work is spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import eventsieve as es
from eventsieve.catalog import Catalog
from eventsieve.spark import build_index, match
from eventsieve.spark.generated import event_table
from eventsieve.spark.published import read_manifest
from eventsieve.workload import standard, workload_names
from tests.spark.market import SCHEMA, events, expected, filters, subscriptions
from tests.spark.test_worker import batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = events(150)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch(ROWS)])).repartition(2)


def found(matches: DataFrame) -> list[tuple[Any, Any]]:
    if "subscription_ids" in matches.columns:
        return [(row.event_id, id) for row in matches.collect() for id in row.subscription_ids]
    return [(row.event_id, row.subscription_id) for row in matches.collect()]


@pytest.mark.parametrize("spread", ["events", "subscriptions"])
@pytest.mark.parametrize("output", ["pairs", "arrays"])
def test_the_result_is_the_librarys(frame: DataFrame, spread: Any, output: Any) -> None:
    subs = subscriptions()
    matches = match(frame, subs, "simple", key="event_id", output=output, spread=spread, shards=2)
    pairs = found(matches)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected(subs, ROWS)
    named = "subscription_id" if output == "pairs" else "subscription_ids"
    assert matches.columns == ["event_id", named, "catalog_version", "match_mode", "match_bound"]
    said = matches.select("match_mode", "match_bound").distinct().collect()
    assert {(row.match_mode, row.match_bound) for row in said} == {("exact", 0.0)}


def test_a_catalog_a_path_and_a_dataframe_do_as_well(frame: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    subs = subscriptions()
    catalog = Catalog.create(tmp_path / "catalog", SCHEMA)
    with catalog.edit() as edit:
        for id in subs.ids.tolist():
            edit.add(id, subs.text(id))
    catalog.add(1000, "price >= 0")
    wanted = expected(subs, ROWS)
    old = match(frame, catalog, key="event_id", version=1)
    assert set(found(old)) == wanted
    assert {row.catalog_version for row in old.collect()} == {1}
    assert len(found(match(frame, tmp_path / "catalog", key="event_id"))) == len(wanted) + len(ROWS)
    build_index(subs, tmp_path / "index", shards=2, spark=spark)
    assert set(found(match(frame, tmp_path / "index", key="event_id"))) == wanted
    es.build(subs, matcher="rein").save(tmp_path / "one.index")
    assert set(found(match(frame, str(tmp_path / "one.index"), key="event_id"))) == wanted
    texts = spark.createDataFrame([(f"s{id}", text) for id, text in enumerate(filters(60))], "id string, filter string")
    assert set(found(match(frame, texts, key="event_id", shards=2))) == {(event, f"s{id}") for event, id in wanted}


def test_an_index_is_published_anew_in_one_step(spark: SparkSession, tmp_path: Path) -> None:
    first = build_index(subscriptions(10), tmp_path / "index", spark=spark)
    second = build_index(subscriptions(20), tmp_path / "index", "rein", shards=2, spark=spark, buckets=50)
    assert read_manifest(tmp_path / "index") == second
    assert (second.matcher, dict(second.params), second.n_subscriptions) == ("rein", {"buckets": 50}, 20)
    assert not Path(first.path_of(first.shards[0])).exists()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == sorted(
        ["manifest.json", *(shard.file for shard in second.shards)]
    )


def test_what_does_not_fit_is_said_before_anything_runs(frame: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    index = build_index(subscriptions(10), tmp_path / "index", spark=spark)
    with pytest.raises(es.SchemaError, match="did you mean 'event_id'"):
        match(frame, index, key="evnt_id")
    with pytest.raises(es.SchemaError, match="none of the columns"):
        match(frame.select("event_id"), index)
    with pytest.raises(es.SchemaError, match="takes whole numbers"):
        match(frame.selectExpr("event_id", "'x' AS volume"), index)
    with pytest.raises(es.SchemaError, match="every column is an attribute"):
        match(frame.drop("event_id"), index)
    with pytest.raises(es.DataError, match="output is one of"):
        match(frame, index, output="rows")  # type: ignore[arg-type]  # a wrong one is meant
    with pytest.raises(es.MatcherError, match="built with 'simple'"):
        match(frame, index, "rein", key="event_id")
    with pytest.raises(es.SnapshotError, match="does not exist"):
        match(frame, tmp_path / "nowhere")
    with pytest.raises(es.SnapshotError, match="holds neither"):
        match(frame, tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("stay")
    with pytest.raises(es.SnapshotError, match="holds other files"):
        build_index(subscriptions(10), tmp_path / "full", spark=spark)
    bad = spark.createDataFrame([(1, "price >")], "id long, filter string")
    with pytest.raises(es.DataError, match="line 1"):
        build_index(bad, tmp_path / "bad", schema=SCHEMA, spark=spark)
    assert list((tmp_path / "bad").iterdir()) == []


def test_a_streaming_dataframe_is_pinned_to_its_version(frame: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog.create(tmp_path / "catalog", SCHEMA)
    catalog.add("all", "price >= 0")
    frame.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "events"))
    matches = match(stream, catalog, key="event_id")
    catalog.add("more", "price >= 0")
    writer = matches.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start(str(tmp_path / "out"), format="parquet").awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(rows) == len(ROWS)
    assert {(row.subscription_id, row.catalog_version) for row in rows} == {("all", 1)}


@pytest.mark.deep
@pytest.mark.parametrize("name", workload_names())
def test_every_workload_gives_the_same_in_batch_and_stream(spark: SparkSession, name: str, tmp_path: Path) -> None:
    workload = standard(name, n=2000)
    subs = workload.subscriptions()
    table = event_table(workload, 300).append_column("event_id", pa.array(range(300)))
    wanted = {(e, id) for e, ids in enumerate(es.build(subs).match_batch(workload.events(300))) for id in ids}
    frame = spark.createDataFrame(table)
    assert set(found(match(frame, subs, key="event_id"))) == wanted
    frame.repartition(3).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    writer = match(stream, subs, key="event_id", output="arrays").writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.start(str(tmp_path / "out"), format="parquet").awaitTermination()
    assert set(found(spark.read.parquet(str(tmp_path / "out")))) == wanted
