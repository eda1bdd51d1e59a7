"""The Spark job's statistics are the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import eventsieve as es
from eventsieve.cli.profile import _plain, _tables
from eventsieve.model.statistics import statistics_of
from eventsieve.spark import profile
from tests.spark.market import SCHEMA, events, subscriptions
from tests.spark.test_worker import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_job_returns_the_models_record(spark: SparkSession) -> None:
    subs, rows = subscriptions(200), events(100)
    frame = spark.createDataFrame(pa.Table.from_batches([batch(rows)]))
    plain = [{name: value for name, value in row.items() if name != "event_id"} for row in rows]
    sample = es.Events.from_dicts(SCHEMA, plain).columns_for(subs.codes)
    alone = statistics_of(subs.table(), subs.domains(), sample)
    job = profile(subs, frame, parts=3, spark=spark)
    assert job.n_clauses == alone.n_clauses
    for name in ("clauses_of_attribute", "clauses_of_size", "width_classes"):
        np.testing.assert_array_equal(getattr(job, name), getattr(alone, name))
    np.testing.assert_allclose(job.width_sum, alone.width_sum)
    np.testing.assert_array_equal(job.bounds.count, alone.bounds.count)
    np.testing.assert_array_equal(job.bounds.value[:, [0, -1]], alone.bounds.value[:, [0, -1]])
    assert job.sets.top == alone.sets.top
    assert job.match_rate == pytest.approx(alone.match_rate)
    shown = _plain(SCHEMA, job)
    assert shown["attributes"]["price"]["clauses"] == alone.clauses_of_attribute[0]
    assert _tables(SCHEMA, job) is not None


def test_a_single_part_is_the_very_same_record(spark: SparkSession) -> None:
    subs = subscriptions(50)
    job, alone = profile(subs, parts=1, spark=spark), statistics_of(subs.table(), subs.domains())
    assert job.sets.distinct == alone.sets.distinct
    # The order of clauses is the only thing that a partition may change, and quantiles do not depend on it.
    np.testing.assert_allclose(job.bounds.value, alone.bounds.value)
