"""The whole Spark job against `match_batch` in one process on the same cores, and how long a snapshot takes to open.

Claims, on `bop` with a million subscriptions: the job over 20,000 events, with the index already built, takes at most
1.5 times as long as in-process matching with two threads, plus 5 s; a fresh worker opens the snapshot in under 0.5 s
once compiled code is loaded.

    python experiments/spark/against_process.py [--matcher simple] [--n 1000000] [--events 20000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import pyarrow as pa
from common import SCRATCH, record, timed, two_cores
from pyspark.sql import functions

import eventsieve as es
from eventsieve.spark import build_index, match
from eventsieve.spark.generated import event_table
from eventsieve.workload import standard

_OPEN = """
import sys, time
import numpy as np, pyarrow as pa
from pathlib import Path
import eventsieve as es
from eventsieve.spark import worker
from eventsieve.spark.published import Published, Shard, file_checksum, read_manifest
subs = es.Subscriptions(es.Schema({"x": es.Float(0, 1)}))
subs.add(1, "x > 0")
index = read_manifest(Path(sys.argv[1]))
es.build(subs, matcher=index.matcher).save(sys.argv[2])   # loads the compiled code
path = Path(sys.argv[2])
small = Published(str(path.parent), None, index.matcher, {}, subs.schema, "long",
                  (Shard(path.name, path.stat().st_size, file_checksum(path), 1),))
worker.opened(small, 0)
began = time.perf_counter()
worker.opened(index, 0)
print(time.perf_counter() - began)
"""


def matches_found(events, index) -> int:
    """Run the job. A new DataFrame every time: Spark keeps the shuffles of one that has run and skips work."""
    arrays = match(events, index, key="eid", output="arrays")
    return arrays.select(functions.sum(functions.size("subscription_ids"))).collect()[0][0]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--n", type=int, default=1_000_000)
    arguments.add_argument("--events", type=int, default=20_000)
    arguments.add_argument("--matcher", default="simple")
    asked = arguments.parse_args()
    workload = standard("bop", n=asked.n)
    params = dict(workload.matcher_params.get(asked.matcher, {}))
    spark = two_cores()
    with timed() as building:
        index = build_index(
            workload.subscriptions(), SCRATCH / f"bop-{asked.matcher}", asked.matcher, spark=spark, **params
        )
    opening = [_fresh_open(index.folder) for _ in range(3)]
    table = event_table(workload, asked.events).append_column("eid", pa.array(range(asked.events)))
    events = spark.createDataFrame(table).repartition(4).cache()
    events.count()
    with timed() as job:
        total = matches_found(events, index)
    with timed() as again:
        assert matches_found(events, index) == total
    spark.stop()
    alone = es.load(index.path_of(index.shards[0]))
    batch = workload.events(asked.events)
    alone.match_batch(workload.events(10))
    with timed() as process:
        matches = sum(
            alone.match_batch(_part(workload, batch, first), threads=2).slots.size
            for first in range(0, asked.events, 4096)
        )
    assert matches == total
    record(
        f"against_process_{asked.matcher}",
        workload="bop",
        n=asked.n,
        events=asked.events,
        matcher=asked.matcher,
        build_seconds=building.seconds,
        snapshot_bytes=index.bytes,
        open_seconds=opening,
        matches=total,
        job_seconds=job.seconds,
        second_job_seconds=again.seconds,
        process_seconds=process.seconds,
        allowed_seconds=1.5 * process.seconds + 5,
        holds=job.seconds <= 1.5 * process.seconds + 5,
    )


def _part(workload, batch, first: int):
    """Return a slice of the events: results of all 20,000 at once would not fit small machines."""
    from eventsieve.model.codes import Codes
    from eventsieve.model.columns import slice_events

    columns = slice_events(batch.columns_for(Codes()), first, min(first + 4096, len(batch)))
    return es.Events.from_arrays(workload.schema(), *columns)


def _fresh_open(folder: str) -> float:
    ran = subprocess.run(
        [sys.executable, "-c", _OPEN, folder, str(SCRATCH / "small.index")],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


if __name__ == "__main__":
    main()
