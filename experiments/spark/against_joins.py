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


def joined(few, subscriptions, workload) -> int:
    """Run the join that a Spark user would write."""
    s = functions.broadcast(subscriptions).alias("s")
    pairs = few.alias("e").join(s, functions.expr(condition(workload))).select("e.eid", "s.id")
    assert "BroadcastNestedLoopJoin" in pairs._jdf.queryExecution().executedPlan().toString()
    return pairs.count()


def _ratios(times, names, other: str) -> dict[str, list[float]]:
    """Return, round by round, how many times shorter ours is."""
    return {name: [theirs / ours for ours, theirs in zip(times[name], times[other], strict=True)] for name in names}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--n", type=int, default=200_000)
    arguments.add_argument("--events", type=int, default=5_000)
    arguments.add_argument("--theirs", type=int, default=100)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--matchers", default="simple,rein-o")
    asked = arguments.parse_args()
    workload = standard("full", n=asked.n)
    spark = two_cores()
    table = event_table(workload, asked.events).append_column("eid", pa.array(range(asked.events)))
    events = spark.createDataFrame(table).repartition(4).cache()
    events.count()
    few = spark.createDataFrame(table.slice(0, asked.theirs)).cache()
    few.count()

    indexes = {}
    for name in asked.matchers.split(","):
        params = dict(workload.matcher_params.get(name, {}))
        indexes[name] = build_index(workload.subscriptions(), SCRATCH / f"full-{name}", name, spark=spark, **params)
        matches_found(events, indexes[name])  # workers start, compiled code loads, snapshots open
    subscriptions = wide(workload)
    theirs = spark.createDataFrame(subscriptions).cache()
    theirs.count()
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.register("s", subscriptions)
    connection.register("e", table.slice(0, asked.theirs))

    # Interleaved: other load on the machine meets all of them alike.
    times = {name: [] for name in (*indexes, "spark_join", "duckdb_join")}
    for _ in range(asked.rounds):
        for name, index in indexes.items():
            with timed() as clock:
                matches_found(events, index)
            times[name].append(clock.seconds / asked.events * 1e3)
        with timed() as clock:
            their_matches = joined(few, theirs, workload)
        times["spark_join"].append(clock.seconds / asked.theirs * 1e3)
        with timed() as clock:
            query = f"SELECT count(*) FROM e JOIN s ON {condition(workload)}"
            assert connection.execute(query).fetchone()[0] == their_matches
        times["duckdb_join"].append(clock.seconds / asked.theirs * 1e3)
    record(
        "against_joins",
        workload="full",
        n=asked.n,
        events=asked.events,
        events_of_joins=asked.theirs,
        ms_per_event=times,
        times_shorter_than_spark_join=_ratios(times, indexes, "spark_join"),
        times_shorter_than_duckdb=_ratios(times, indexes, "duckdb_join"),
    )
    spark.stop()


if __name__ == "__main__":
    main()
