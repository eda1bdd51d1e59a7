"""How many events per second each matcher carries, for F = 0, 0.1 %, 1 % and 5 %.

    python experiments/eem/capacity.py run [--n 1000000] [--workloads ticks,eem]
    python experiments/eem/capacity.py table

Capacity is events per second of processor time on one worker, ids included: the broker's `Engine`. All matchers of a
workload are timed in turns, and what counts is the median ratio to REIN. Then a constant rate of 90 % of that capacity
runs through a real broker for some seconds, to see that latency stays where it is: p95 of the first half of the events,
and of the second.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from lane import built, costs, run, workloads

import eventsieve as es
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.broker.engine import Engine

RESULTS = Path(__file__).with_suffix(".results.json")
SHARES = (0.001, 0.01, 0.05)
MATCHERS = ("rein", "sieve", "ada-rein", "wpa-rein", "spare-rein")
ELASTIC = MATCHERS[2:]
STABLE = 0.9
SECONDS = 5.0


def measured(workload: Any, turns: int, name: str) -> list[dict[str, Any]]:
    """Return a record for every matcher and F."""
    events = workload.events(512, seed=2)
    indexes = {each: built(workload, each, **({"ladder": SHARES} if each in ELASTIC else {})) for each in MATCHERS}
    shares = {each: (0.0, *SHARES) if each in ELASTIC else (0.0,) for each in MATCHERS}
    seconds = costs({each: Engine(index, 0) for each, index in indexes.items()}, shares, events, turns)
    true = indexes["rein"].match_batch(events).slots.size
    found = []
    for (matcher, share), each in seconds.items():
        reported = indexes[matcher].match_batch(events, false_positive=share).slots.size
        record = {
            "workload": name,
            "matcher": matcher,
            "F": share,
            "events_per_second": 1.0 / each,
            "of_rein": seconds["rein", 0.0] / each,
            "false_share": 1 - true / reported,
            "matches_per_event": reported / len(events),
        }
        record |= stable(indexes[matcher], workload, each, share)
        print(record, flush=True)
        found.append(record)
    return found


def stable(index: es.Index, workload: Any, seconds: float, share: float) -> dict[str, float]:
    """Return latencies at a constant rate below capacity, of the first and of the second half of the events."""
    arrival = np.arange(0.0, SECONDS, seconds / STABLE)
    latency = run(index, workload.events(arrival.size, seed=4), arrival, fixed_share=share).latency * 1e3
    halves = latency[: latency.size // 2], latency[latency.size // 2 :]
    return {f"p95_ms_half_{number}": float(np.percentile(half, 95)) for number, half in enumerate(halves, 1)}


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| workload | matcher | F | events/s | of REIN | false, measured | p95 ms at 90 %, both halves |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in records:
        share = "exact" if not each["F"] else f"{each['F']:.1%}"
        lines.append(
            f"| {each['workload']} | {each['matcher']} | {share} | {each['events_per_second']:,.0f} | "
            f"{each['of_rein']:.2f} | {each['false_share']:.3%} | "
            f"{each['p95_ms_half_1']:.1f}, {each['p95_ms_half_2']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--workloads", default="ticks,eem")
    arguments = parser.parse_args()
    if arguments.what == "run":
        wanted = tuple(arguments.workloads.split(","))
        chosen = {name: each for name, each in workloads(arguments.n).items() if name.startswith(wanted)}
        records = [record for name, each in chosen.items() for record in measured(each, arguments.turns, name)]
        facts = {"n": arguments.n, "commit": commit(), "cpu": cpu_name(), "versions": versions()}
        RESULTS.write_text(json.dumps({**facts, "records": records}, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(f"n = {stored['n']:,}\n\n{table(stored['records'])}")


if __name__ == "__main__":
    main()
