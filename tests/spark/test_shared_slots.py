"""Workers follow a catalog on a shard whose equal subscriptions share their slots; a plan comes along with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import eventsieve as es
from eventsieve.spark.planning import decide
from eventsieve.spark.worker import OpenShard, Step
from eventsieve.workload import standard

SCHEMA = es.Schema({"price": es.Float(0, 100), "symbol": es.Text()})


def test_steps_move_members_in_and_out(tmp_path: Path) -> None:
    subs = es.Subscriptions(SCHEMA)
    for id in range(50):
        subs.add(id, "price < 10" if id % 2 else "symbol = 'A'")
    es.build(subs, matcher="sieve", share=True).save(tmp_path / "shard")
    shard = OpenShard(es.load(tmp_path / "shard"), "long", 1)
    gone = tuple(range(1, 50, 2))  # a whole class
    shard.apply(Step(1, 2, gone, ((100, "price < 10"), (101, "price < 10"))), 0, 1)
    assert shard.index.describe()["indexed_clauses"] == 2
    found = shard.index.match_batch([{"price": 5.0}, {"symbol": "A"}])
    assert shard.ids_of(np.sort(found.slots[: found.event_start[1]])).to_pylist() == found.of(0)
    assert sorted(found.of(0)) == [100, 101]
    assert found.of(1) == list(range(0, 50, 2))


def test_the_driver_decides_once_for_parts_of_the_whole() -> None:
    workload = standard("bop", n=3000)
    decision = decide(workload.subscriptions(seed=1), "auto", {"memory": "1GB"}, workload.schema(), 2)
    assert decision.matcher in es.matchers()
    assert decision.plan is not None
    assert decision.plan["n_clauses"] == 1500
    assert decision.plan["batch"] == 4096
    assert decide(workload.subscriptions(seed=1), "rein", {"buckets": 5}, workload.schema(), 2) == (
        "rein",
        {"buckets": 5},
        None,
    )


def test_what_is_no_wish_goes_to_the_elastic_matcher_that_is_chosen() -> None:
    workload = standard("bop", n=300)
    given = {"false_positive": 0.01, "ladder": [0.005, 0.01]}
    decision = decide(workload.subscriptions(seed=1), "auto", given, workload.schema(), 1)
    assert decision.params == {"ladder": [0.005, 0.01]}
    assert decision.plan is not None
