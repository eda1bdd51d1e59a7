"""Time per event against what a Spark or DuckDB user would write: a join on all the range conditions.

Claim: on `full` with 200,000 subscriptions, at least 40 times shorter than Spark's broadcast nested loop join with
`simple`, and at least 100 times with an indexed matcher, in the same local[2] session.

    python experiments/spark/against_joins.py [--matchers simple,rein] [--n 200000] [--events 5000] [--theirs 100]
"""

from __future__ import annotations

import argparse

import duckdb
import numpy as np
import pyarrow as pa
from common import SCRATCH, record, timed, two_cores
from pyspark.sql import functions

from eventsieve.spark import build_index, match
from eventsieve.spark.generated import event_table
from eventsieve.workload import standard


def wide(workload) -> pa.Table:
    """Return the subscriptions with a low and a high column per attribute; open where nothing is asked."""
    start, attribute, low, high = workload.subscription_arrays()
    owner = np.repeat(np.arange(workload.n), np.diff(start))
    columns = {"id": pa.array(np.arange(workload.n))}
    for a in range(workload.d):
        mine = attribute == a
        for name, bound, rest in (("low", low, -np.inf), ("high", high, np.inf)):
            values = np.full(workload.n, rest)
            values[owner[mine]] = bound[mine]
            columns[f"{name}{a}"] = pa.array(values)
    return pa.table(columns)


def condition(workload) -> str:
    return " AND ".join(f"e.a{a} >= s.low{a} AND e.a{a} <= s.high{a}" for a in range(workload.d))


def matches_found(events, index) -> int:
    """Run the job. A new DataFrame every time: Spark keeps the shuffles of one that has run and skips work."""
    arrays = match(events, index, key="eid", output="arrays")
    return arrays.select(functions.sum(functions.size("subscription_ids"))).collect()[0][0]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--n", type=int, default=200_000)
    arguments.add_argument("--events", type=int, default=5_000)
    arguments.add_argument("--theirs", type=int, default=100)
    arguments.add_argument("--matchers", default="simple,rein")
    asked = arguments.parse_args()
    workload = standard("full", n=asked.n)
    spark = two_cores()
    table = event_table(workload, asked.events).append_column("eid", pa.array(range(asked.events)))
    events = spark.createDataFrame(table).repartition(4).cache()
    events.count()
    few = spark.createDataFrame(table.slice(0, asked.theirs)).cache()
    few.count()

    ours = {}
    for name in asked.matchers.split(","):
        params = dict(workload.matcher_params.get(name, {}))
        index = build_index(workload.subscriptions(), SCRATCH / f"full-{name}", name, spark=spark, **params)
        matches_found(events, index)  # workers start, compiled code loads, snapshots open
        with timed() as clock:
            total = matches_found(events, index)
        ours[name] = {"seconds": clock.seconds, "ms_per_event": clock.seconds / asked.events * 1e3, "matches": total}

    subscriptions = wide(workload)
    s = functions.broadcast(spark.createDataFrame(subscriptions)).alias("s")
    joined = few.alias("e").join(s, functions.expr(condition(workload))).select("e.eid", "s.id")
    joined.limit(1).count()
    with timed() as clock:
        their_matches = joined.count()
    join = {"seconds": clock.seconds, "ms_per_event": clock.seconds / asked.theirs * 1e3, "matches": their_matches}
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastNestedLoopJoin" in plan

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.register("s", subscriptions)
    connection.register("e", table.slice(0, asked.theirs))
    query = f"SELECT count(*) FROM e JOIN s ON {condition(workload)}"
    with timed() as clock:
        duck_matches = connection.execute(query).fetchone()[0]
    duck = {"seconds": clock.seconds, "ms_per_event": clock.seconds / asked.theirs * 1e3, "matches": duck_matches}
    assert duck_matches == their_matches
    record(
        "against_joins",
        workload="full",
        n=asked.n,
        events=asked.events,
        events_of_joins=asked.theirs,
        ours=ours,
        spark_join=join,
        duckdb_join=duck,
        times_shorter_than_spark_join={
            name: join["ms_per_event"] / each["ms_per_event"] for name, each in ours.items()
        },
        times_shorter_than_duckdb={name: duck["ms_per_event"] / each["ms_per_event"] for name, each in ours.items()},
    )
    spark.stop()


if __name__ == "__main__":
    main()
