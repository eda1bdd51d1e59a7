"""How far is `auto` from the best matcher? Time every matcher on a workload, ask the planner, and divide.

python experiments/planner/regret.py 100000 [WORKLOAD ...] [--matchers sieve,be-tree,...]

A ratio of 1 says that `auto` takes the fastest matcher of all for what it was told: single events (batch=1), batches of
512, or nothing (then the worse of its two ratios counts). The planner sees other events than those that are timed.
Processor time of one thread, ids delivered; matchers take turns, and of each event the best of three rounds counts.
Records are kept beside this file; `table.py` makes the table.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np

import eventsieve as es
from eventsieve.bench.check import single_event
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.index.automatic import plan_for
from eventsieve.matchers.registry import elastic_matchers
from eventsieve.workload import Workload, standard

RESULTS = Path(__file__).with_suffix(".results.jsonl")
CASES: dict[str, dict[str, Any]] = {
    name + suffix: settings
    for name in ("bop", "full", "gem", "hem", "htree", "eem", "ticks")
    for suffix, settings in (("", {}), (", Zipf 1", {"attribute_skew": 1.0}))
    if not (name in ("hem", "ticks", "eem") and suffix)  # one set of attributes, an order of its own, Zipf by itself
}
EXACT = [name for name in es.matchers() if name not in elastic_matchers()]
ROUNDS = 3
HINTS: tuple[int | None, ...] = (1, 512, None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("workloads", nargs="*", default=list(CASES))
    parser.add_argument("--matchers", default=",".join(EXACT))
    parser.add_argument("--again", action="store_true", help="ask the planner again, for times that were taken before")
    asked = parser.parse_args()
    taken = (
        {(r["workload"], r["n"]): r for r in map(json.loads, RESULTS.read_text().splitlines())} if asked.again else {}
    )
    for name in asked.workloads:
        if asked.again and (name, asked.n) not in taken:
            continue
        times = taken[name, asked.n]["ms"] if asked.again else measured(name, asked.n, asked.matchers.split(","))
        record = {"workload": name, "n": asked.n, "ms": times, "choices": choices(name, asked.n, times)}
        record |= {"cpu": cpu_name(), "versions": versions(), "commit": commit()}
        with RESULTS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(name, asked.n, *(f"{c['batch']}: {c['chosen']} {c['ratio']:.2f}" for c in record["choices"]), flush=True)


def measured(name: str, n: int, matchers: list[str]) -> dict[str, Any]:
    """Return the times of every matcher."""
    workload = drawn(name, n)
    subscriptions, small = workload.subscriptions(seed=1), drawn(name, 2000).subscriptions(seed=1)
    columns = workload.event_arrays(60, seed=3)
    singles = [single_event(workload, columns, e) for e in range(60)]
    batch = workload.events(512, seed=4)
    indexes = {}
    for matcher in matchers:
        for each in (small, subscriptions):  # the first one loads the code
            indexes[matcher] = es.build(each, matcher, **workload.matcher_params.get(matcher, {}))
            indexes[matcher].match_batch(batch)
    return timed(indexes, singles, batch)


def drawn(name: str, n: int) -> Workload:
    return standard(name.partition(",")[0], n=n, **CASES[name])


def choices(name: str, n: int, times: dict[str, Any]) -> list[dict[str, Any]]:
    workload = drawn(name, n)
    subscriptions, sample = workload.subscriptions(seed=1), workload.events(256, seed=5)
    plan_for(subscriptions, {"events": sample})  # loads the code of the candidates
    return [choice(subscriptions, sample, hint, times) for hint in HINTS]


def timed(indexes: dict[str, es.Index], singles: list[es.Events], batch: es.Events) -> dict[str, dict[str, float]]:
    """Return processor milliseconds per event, alone and in a batch, and the size."""
    best = {name: np.full(len(singles) + 1, np.inf) for name in indexes}
    gc.collect()
    for _ in range(ROUNDS):
        for name, index in indexes.items():
            for e, events in enumerate([*singles, batch]):
                begin = thread_time()
                index.match_batch(events).ids  # noqa: B018  (made when asked for)
                best[name][e] = min(best[name][e], (thread_time() - begin) * 1e3)
    return {
        name: {
            "single": float(times[:-1].mean()),
            "batch": float(times[-1]) / len(batch),
            "bytes": indexes[name].describe()["index_bytes"],
        }
        for name, times in best.items()
    }


def choice(
    subscriptions: es.Subscriptions, sample: es.Events, hint: int | None, times: dict[str, Any]
) -> dict[str, Any]:
    begin = process_time()
    plan = plan_for(subscriptions, {"events": sample, "batch": hint})
    took = process_time() - begin
    best = {kind: min(each[kind] for each in times.values()) for kind in ("single", "batch")}
    name = plan.chosen.matcher
    ratios = {kind: times[name][kind] / best[kind] for kind in best}
    ratio = max(ratios.values()) if hint is None else ratios["single" if hint == 1 else "batch"]
    least = min(max(each[kind] / best[kind] for kind in best) for each in times.values()) if hint is None else 1.0
    return {
        "batch": hint,
        "chosen": name,
        "ratio": ratio,
        "least_possible": least,
        "predicted_bytes": plan.chosen.index_bytes,
        "bytes": times[name]["bytes"],
        "planning_s": took,
    }


if __name__ == "__main__":
    main()
