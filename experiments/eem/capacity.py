"""How many events per second each matcher carries, for F = 0, 0.1 %, 1 % and 5 %.

    python experiments/eem/capacity.py run [--n 1000000] [--workloads ticks,eem]
    python experiments/eem/capacity.py table

Capacity is events per second of processor time on one worker, in batches as they form under load, ids included: the
broker's `Engine`. All matchers of a workload are timed in turns, and the ratio to REIN is the median over the turns.
Then a constant rate of 90 % of that capacity runs through the worker, to see that latency stays where it is.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from lane import built, run, workloads

import eventsieve as es
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.broker.engine import Engine
from eventsieve.model.events import Events

RESULTS = Path(__file__).with_suffix(".results.json")
SHARES = (0.001, 0.01, 0.05)
EXACT = ("rein", "sieve")
ELASTIC = ("ada-rein", "wpa-rein", "spare-rein")
BATCH = 64
STABLE = 0.9


def spent(engine: Engine, events: Events, share: float) -> float:
    begin = time.thread_time()
    engine.match([events], share)
    return (time.thread_time() - begin) / len(events)


def measured(workload: Any, repeat: int, name: str) -> list[dict[str, Any]]:
    events = workload.events(BATCH * 8, seed=2)
    parts = [events.part(first, first + BATCH) for first in range(0, len(events), BATCH)]
    indexes = {matcher: built(workload, matcher) for matcher in EXACT}
    indexes |= {matcher: built(workload, matcher, ladder=SHARES) for matcher in ELASTIC}
    true = indexes["rein"].match_batch(events).slots.size
    lanes: list[tuple[str, float, Engine]] = []
    for matcher, index in indexes.items():
        engine = Engine(index, 0)
        lanes += [(matcher, share, engine) for share in ((0.0, *SHARES) if matcher in ELASTIC else (0.0,))]
    seconds: list[list[float]] = [[] for _ in lanes]
    for turn in range(repeat + 1):
        for times, (_, share, engine) in zip(seconds, lanes, strict=True):
            took = spent(engine, parts[turn % len(parts)], share)
            if turn:
                times.append(took)
    found = []
    for times, (matcher, share, engine) in zip(seconds, lanes, strict=True):
        rate = 1.0 / median(times)
        reported = engine.index.match_batch(events, false_positive=share).slots.size
        found.append(
            {
                "workload": name,
                "matcher": matcher,
                "F": share,
                "events_per_second": rate,
                "of_rein": median(one / other for one, other in zip(seconds[0], times, strict=True)),
                "false_share": 1 - true / reported,
                "matches_per_event": reported / len(events),
                "ms": [1e3 * each for each in times],
                **(stable(engine.index, events, STABLE * rate) if not share else {}),
            }
        )
        print(json.dumps({key: value for key, value in found[-1].items() if key != "ms"}), flush=True)
    return found


def stable(index: es.Index, events: Events, rate: float) -> dict[str, float]:
    """Return latencies at a constant rate, of the first and of the second half of the events."""
    latency = np.array(run(index, events, np.arange(len(events)) / rate).latency) * 1e3
    halves = latency[: latency.size // 2], latency[latency.size // 2 :]
    return {f"p95_ms_half_{number}": float(np.percentile(half, 95)) for number, half in enumerate(halves, 1)}


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| workload | matcher | F | events/s | of REIN | false, measured |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in records:
        share = "exact" if not each["F"] else f"{each['F']:.1%}"
        lines.append(
            f"| {each['workload']} | {each['matcher']} | {share} | {each['events_per_second']:,.0f} | "
            f"{each['of_rein']:.2f} | {each['false_share']:.3%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--workloads", default="ticks,eem")
    arguments = parser.parse_args()
    if arguments.what == "run":
        wanted = tuple(arguments.workloads.split(","))
        chosen = {name: each for name, each in workloads(arguments.n).items() if name.startswith(wanted)}
        records = [record for name, each in chosen.items() for record in measured(each, arguments.repeat, name)]
        facts = {"n": arguments.n, "commit": commit(), "cpu": cpu_name(), "versions": versions()}
        RESULTS.write_text(json.dumps({**facts, "records": records}, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(f"n = {stored['n']:,}\n\n{table(stored['records'])}")


if __name__ == "__main__":
    main()
