"""How many events per second each matcher carries at stable latency, for F = 0, 0.1 %, 1 % and 5 %.

    python experiments/eem/capacity.py run [--n 1000000] [--workloads ticks,eem]
    python experiments/eem/capacity.py table

First the rate at which a real broker with one worker works off what is there already: see `lane.capacities`. All
matchers have their turns, and what counts is the median ratio to REIN. It is the most that any constant rate can reach.

Then constant rates, from that one down in steps of a twentieth, each for some seconds. A rate is carried if, in two
turns of at most three, p95 of the latencies in the second half stays within `STABLE_MS`: a queue that grows by as
little as a twentieth of the rate goes beyond that. Matchers take turns here too, so that a slow minute of the machine
meets them all.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from lane import MEASURED, built, capacities, run, workloads
from numpy.typing import NDArray

from eventsieve.bench.machine import commit, cpu_name, versions

RESULTS = Path(__file__).with_suffix(".results.json")
SHARES = (0.001, 0.01, 0.05)
MATCHERS = ("rein", "sieve", "ada-rein", "wpa-rein", "spare-rein")
ELASTIC = MATCHERS[2:]
SECONDS = 4.0
STABLE_MS = 100.0
LEVELS = tuple(np.arange(1.0, 0.45, -0.05).round(2).tolist())


@dataclass
class Ladder:
    """The rates that one matcher tries at one F, from the highest down."""

    highest: float
    level: int = 0
    seen: dict[float, list[list[float]]] = field(default_factory=dict)
    """By level: for each turn, p95 in ms of the first half of the events, and of the second."""

    @property
    def rate(self) -> float:
        """Events per second at the present level; 0 if none was stable."""
        return LEVELS[self.level] * self.highest if self.level < len(LEVELS) else 0.0

    @property
    def turns(self) -> list[list[float]]:
        """What was seen at the present level."""
        return self.seen.setdefault(LEVELS[self.level], [])

    @property
    def done(self) -> bool:
        return not self.rate or sum(second <= STABLE_MS for _, second in self.turns) >= 2

    def note(self, latency: NDArray[np.float64]) -> None:
        """Note one turn at the present level; after two bad ones, go a level down."""
        turns = self.turns
        turns.append([1e3 * float(np.percentile(half, 95)) for half in np.array_split(latency, 2)])
        if sum(second > STABLE_MS for _, second in turns) == 2:
            self.level += 1


def measured(workload: Any, turns: int, name: str) -> list[dict[str, Any]]:
    """Return a record for every matcher and F."""
    events = workload.events(512, seed=2)
    indexes = {each: built(workload, each, **({"ladder": SHARES} if each in ELASTIC else {})) for each in MATCHERS}
    shares = {each: (0.0, *SHARES) if each in ELASTIC else (0.0,) for each in MATCHERS}
    carried = capacities(indexes, shares, events.part(0, MEASURED), turns)
    ladders = {key: Ladder(rate) for key, rate in carried.items()}
    while trying := [key for key, each in ladders.items() if not each.done]:
        for matcher, share in trying:
            ladder = ladders[matcher, share]
            arrival = np.arange(0.0, SECONDS, 1.0 / ladder.rate)
            ticks = workload.events(arrival.size, seed=4)
            rate = ladder.rate
            ladder.note(run(indexes[matcher], ticks, arrival, fixed_share=share).latency)
            print(f"{matcher}, F = {share:g}, {rate:,.0f} events/s: {list(ladder.seen.values())[-1]}", flush=True)
    true = indexes["rein"].match_batch(events).slots.size
    found = []
    for (matcher, share), ladder in ladders.items():
        reported = indexes[matcher].match_batch(events, false_positive=share).slots.size
        record = {
            "workload": name,
            "matcher": matcher,
            "F": share,
            "at_once": ladder.highest,
            "at_stable_latency": ladder.rate,
            "p95_ms": ladder.seen,
            "false_share": 1 - true / reported,
            "matches_per_event": reported / len(events),
        }
        print(record, flush=True)
        found.append(record)
    return found


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| workload | matcher | F | at once, events/s | of REIN | stable, events/s | of REIN | p95 ms | false |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in records:
        (rein,) = (other for other in records if (other["workload"], other["matcher"]) == (each["workload"], "rein"))
        share = "exact" if not each["F"] else f"{each['F']:.1%}"
        turns = list(each["p95_ms"].values())[-1]
        rates = " | ".join(
            f"{each[key]:,.0f} | {each[key] / rein[key]:.2f}" for key in ("at_once", "at_stable_latency")
        )
        p95 = ", ".join(f"{second:.0f}" for _, second in turns)
        lines.append(
            f"| {each['workload']} | {each['matcher']} | {share} | {rates} | {p95} | {each['false_share']:.3%} |"
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
