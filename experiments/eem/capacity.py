"""How many events per second each matcher carries, for F = 0, 0.1 %, 1 % and 5 %.

    python experiments/eem/capacity.py run [--n 1000000] [--workloads ticks,eem]
    python experiments/eem/capacity.py table

Capacity is what a real broker with one worker carries when it never waits for events: see `lane.capacities`. All
matchers of a workload have their turns, and what counts is the median ratio to REIN. Then constant rates of 75 % and
90 % of that capacity run through a broker for some seconds, to see that latency stays where it is: p95 of the first
half of the events, and of the second, in the turn of three with the median of the second. That is done for exact
matching and for the smallest F.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from lane import MEASURED, built, capacities, run, workloads

import eventsieve as es
from eventsieve.bench.machine import commit, cpu_name, versions

RESULTS = Path(__file__).with_suffix(".results.json")
SHARES = (0.001, 0.01, 0.05)
MATCHERS = ("rein", "sieve", "ada-rein", "wpa-rein", "spare-rein")
ELASTIC = MATCHERS[2:]
STABLE = (0.75, 0.9)
SECONDS = 3.0
STABLE_TURNS = 3


def measured(workload: Any, turns: int, name: str) -> list[dict[str, Any]]:
    """Return a record for every matcher and F."""
    events = workload.events(512, seed=2)
    indexes = {each: built(workload, each, **({"ladder": SHARES} if each in ELASTIC else {})) for each in MATCHERS}
    shares = {each: (0.0, *SHARES) if each in ELASTIC else (0.0,) for each in MATCHERS}
    carried = capacities(indexes, shares, events.part(0, MEASURED), turns)
    true = indexes["rein"].match_batch(events).slots.size
    found = []
    for (matcher, share), rate in carried.items():
        reported = indexes[matcher].match_batch(events, false_positive=share).slots.size
        record = {
            "workload": name,
            "matcher": matcher,
            "F": share,
            "events_per_second": rate,
            "of_rein": rate / carried["rein", 0.0],
            "false_share": 1 - true / reported,
            "matches_per_event": reported / len(events),
        }
        if share in (0.0, SHARES[0]):
            record |= stable(indexes[matcher], workload, rate, share)
        print(record, flush=True)
        found.append(record)
    return found


def stable(index: es.Index, workload: Any, rate: float, share: float) -> dict[str, list[float]]:
    """Return latencies at constant rates below capacity, of the first and of the second half of the events."""
    found = {}
    for part in STABLE:
        arrival = np.arange(0.0, SECONDS, 1.0 / (part * rate))
        events = workload.events(arrival.size, seed=4)
        turns = []
        for _ in range(STABLE_TURNS):
            latency = run(index, events, arrival, fixed_share=share).latency * 1e3
            turns.append([float(np.percentile(half, 95)) for half in np.array_split(latency, 2)])
        found[f"p95_ms_at_{part:g}"] = sorted(turns, key=lambda halves: halves[1])[STABLE_TURNS // 2]
    return found


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| workload | matcher | F | events/s | of REIN | false, measured | p95 ms at 75 %, both halves | at 90 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in records:
        share = "exact" if not each["F"] else f"{each['F']:.1%}"
        stable_at = (", ".join(f"{p95:.0f}" for p95 in each.get(f"p95_ms_at_{part:g}", ())) for part in STABLE)
        lines.append(
            f"| {each['workload']} | {each['matcher']} | {share} | {each['events_per_second']:,.0f} | "
            f"{each['of_rein']:.2f} | {each['false_share']:.3%} | {' | '.join(stable_at)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=9)
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
