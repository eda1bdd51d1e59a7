"""EEM, section 5.2: a load that rises above what exact REIN carries, and what that does to latency and to F.

    python experiments/eem/load.py run [--n 1000000] [--peak 1.2]
    python experiments/eem/load.py beyond [--matcher spare-rein]
    python experiments/eem/load.py draw

30 seconds of ticks whose rate is that of a trading morning: quiet, the burst of the open, then less and less. The peak
is 1.2 times what a broker with exact REIN was seen to carry just before. REIN, Ada-REIN, WPA-REIN and Spare-REIN get
the same events at the same moments, in turns, with the paper's controller (F up to 0.1 % in steps of 0.02 %, 20 ms and
15 ms). The broker and its time are real: see `lane`. Every report is compared with the exact answer afterwards: nothing
may be missing, and the false share stands beside F.

`beyond` gives one elastic matcher a peak of 1.2 times what it carries itself, which others could not take at all, and
prints what it did; nothing is stored.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from lane import MEASURED, Run, built, capacities, run, workloads
from lines import Chart, Line, page
from numpy.typing import NDArray

from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.workload.ticks import trading_rate

RESULTS = Path(__file__).with_suffix(".results.json")
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "img"
COLUMNS = (
    "workload", "matcher", "exact, events/s", "mean ms (all turns)", "p95 ms", "deviation ms", "longest ms",
    "REIN / this", "largest F", "F, by match", "false", "F afterwards",
)  # fmt: skip
SECONDS = 30
QUIET = 5
MATCHERS = ("rein", "ada-rein", "wpa-rein", "spare-rein")
SETTINGS = ElasticSettings.parse("max=0.1%,step=0.02%,upper=20ms,lower=15ms,window=100events")
_OPEN = 9.5 * 3600
_MORNING = 1.5 * 3600
_QUIET_LEVEL = 0.4
_PROBES = 7
_LINES = (("F", "F"), ("measured", "measured_F"))


def arrivals(peak_rate: float) -> NDArray[np.float64]:
    """Return the moments at which events come: a trading morning in half a minute."""
    moment = np.linspace(0.0, SECONDS, 100 * SECONDS + 1)
    day = _OPEN + (moment - QUIET) / (SECONDS - QUIET) * _MORNING
    level = np.where(moment < QUIET, _QUIET_LEVEL, trading_rate(np.maximum(day, _OPEN)))
    count = np.concatenate([[0.0], np.cumsum(level[:-1])]) * peak_rate / 100
    return np.interp(np.arange(int(count[-1])), count, moment)


def measured(workload: Any, peak: float, turns: int, name: str, matchers: tuple[str, ...] = MATCHERS) -> dict[str, Any]:
    """Run one load through all matchers, in turns. Its peak is a multiple of what the first one carries."""
    indexes = {each: built(workload, each, *([] if each == "rein" else [SETTINGS])) for each in matchers}
    carried = capacities(indexes, dict.fromkeys(indexes, (0.0,)), workload.events(MEASURED, seed=4), _PROBES)
    capacity = {each: carried[each, 0.0] for each in indexes}
    arrival = arrivals(peak * capacity[matchers[0]])
    events = workload.events(arrival.size, seed=5)
    true = np.diff(indexes[matchers[0]].match_batch(events).event_start)
    found: dict[str, Any] = {
        "workload": name,
        f"{matchers[0]}_events_per_second": capacity[matchers[0]],
        "events": int(arrival.size),
        "matches_per_event": float(true.mean()),
        "rate": np.bincount(arrival.astype(np.int64), minlength=SECONDS).tolist(),
        "matchers": {each: {"exact_capacity": capacity[each], "turns": []} for each in matchers},
    }
    for turn in range(turns):
        for matcher, index in indexes.items():
            seen = run(index, events, arrival, OFF if matcher == "rein" else SETTINGS)
            assert (seen.reported >= true).all(), "a match was lost"
            record = facts_of(seen, arrival, true)
            found["matchers"][matcher]["turns"].append(record)
            print(turn, matcher, {k: v for k, v in record.items() if not isinstance(v, list)}, flush=True)
    return found


def facts_of(seen: Run, arrival: NDArray[np.float64], true: NDArray[np.int64]) -> dict[str, Any]:
    """Return the figures of one run."""
    latency, false = seen.latency, seen.reported - true
    of_second = [arrival.astype(np.int64) == each for each in range(SECONDS)]
    return {
        "mean_ms": 1e3 * float(latency.mean()),
        "p95_ms": 1e3 * float(np.percentile(latency, 95)),
        "deviation_ms": 1e3 * float(latency.std()),
        "longest_ms": 1e3 * float(latency.max()),
        "publisher_late_ms": 1e3 * seen.late,
        "false_share": float(false.sum() / seen.reported.sum()),
        "mean_F": float((seen.share * seen.reported).sum() / seen.reported.sum()),
        "largest_F": float(seen.share.max()),
        "last_F": seen.last_share,
        "latency_ms": [1e3 * float(latency[each].mean()) for each in of_second],
        "F": [float(seen.share[each].mean()) for each in of_second],
        "measured_F": [float(false[each].sum() / seen.reported[each].sum()) for each in of_second],
    }


def middle(one: dict[str, Any]) -> dict[str, Any]:
    """Return the turn of a matcher whose mean latency is the median of its turns."""
    ordered: list[dict[str, Any]] = sorted(one["turns"], key=lambda turn: turn["mean_ms"])
    return ordered[(len(ordered) - 1) // 2]


def draw(results: dict[str, Any]) -> None:
    seconds = [at + 0.5 for at in range(SECONDS)]
    for kind, each in zip(("uniform", "zipf"), results["records"], strict=True):
        shown = {name: middle(one) for name, one in each["matchers"].items()}
        exact = [each["rein_events_per_second"]] * SECONDS
        charts = [
            Chart("events per second", seconds, [Line("arriving", each["rate"]), Line("exact REIN carries", exact)]),
            Chart(
                "mean latency, ms", seconds, [Line(name, one["latency_ms"]) for name, one in shown.items()], log=True
            ),
        ]
        charts += [
            Chart(
                f"{name}: percent of the matches that may be false (F), and that were",
                seconds,
                [Line(line, [100 * share for share in shown[name][key]]) for line, key in _LINES],
            )
            for name in MATCHERS[1:]
        ]
        title = f"A load that peaks at {results['peak']:g} times what exact REIN carries: {each['workload']}"
        (PICTURES / f"elastic-load-{kind}.svg").write_text(page(title, charts), encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
    ]
    for each in results["records"]:
        base = middle(next(iter(each["matchers"].values())))["mean_ms"]
        for name, one in each["matchers"].items():
            shown = middle(one)
            means = ", ".join(f"{turn['mean_ms']:.0f}" for turn in one["turns"])
            times = " | ".join(f"{shown[key]:.1f}" for key in ("p95_ms", "deviation_ms", "longest_ms"))
            shares = " | ".join(f"{shown[key]:.4%}" for key in ("largest_F", "mean_F", "false_share", "last_F"))
            lines.append(
                f"| {each['workload']} | {name} | {one['exact_capacity']:.0f} | {shown['mean_ms']:.1f} ({means}) | "
                f"{times} | {base / shown['mean_ms']:.1f} | {shares} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "beyond", "draw"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--peak", type=float, default=1.2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--matcher", default="spare-rein")
    arguments = parser.parse_args()
    chosen = {name: each for name, each in workloads(arguments.n).items() if "attributes" in name}
    if arguments.what == "beyond":
        alone = (arguments.matcher,)
        records = [measured(each, arguments.peak, arguments.turns, name, alone) for name, each in chosen.items()]
        print(table({"records": records}))
        return
    if arguments.what == "run":
        records = [measured(each, arguments.peak, arguments.turns, name) for name, each in chosen.items()]
        facts = {"n": arguments.n, "peak": arguments.peak, "elastic": str(SETTINGS)}
        facts |= {"commit": commit(), "cpu": cpu_name(), "versions": versions()}
        RESULTS.write_text(json.dumps({**facts, "records": records}, indent=1) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    draw(results)
    print(f"n = {results['n']:,}\n\n{table(results)}")


if __name__ == "__main__":
    main()
