"""EEM, Table 3: how many predicates are skipped for F, what share of the matches is then false, and what it gains.

    python experiments/eem/table3.py run [--n 1000000] [--widths varied,fixed] [--only spare-rein]
    python experiments/eem/table3.py table

The paper's setting: n = 1M, d = 500, k = 5, attributes Zipf with alpha = 2, L = 5, 1000 buckets, events that carry all
attributes; widths uniform from 0 to 1, and all of 0.5. REIN is timed in turns with each matcher, by processor time, and
the gain R is one less the median ratio. Every plan is checked: all true matches are among the reported ones.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import EventColumns, slice_events
from eventsieve.workload import standard

RESULTS = Path(__file__).with_suffix(".results.jsonl")
PAGES = Path(__file__).resolve().parents[2] / "docs" / "matchers"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
LADDER = (0.001, 0.003, 0.005, 0.01, 0.03, 0.05)
WIDTHS: dict[str, float | str] = {"varied": "0..1", "fixed": 0.5}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("ada-rein", {}),
    ("wpa-rein", {}),
    ("spare-rein", {}),
    ("ada-rein", {"budget": "paper"}),
    ("wpa-rein", {"budget": "paper"}),
]
PAPER: dict[str, dict[float, tuple[int, float, float]]] = {
    "ada-rein": dict(
        zip(
            LADDER,
            [
                (2131, 0.09, 2.97),
                (7404, 0.29, 6.25),
                (16681, 0.49, 9.96),
                (21218, 0.97, 14.77),
                (82395, 2.98, 21.07),
                (139333, 4.97, 24.19),
            ],
            strict=True,
        )
    ),
    "wpa-rein": dict(
        zip(
            LADDER,
            [
                (4173, 0.08, 37.20),
                (12536, 0.26, 38.93),
                (20912, 0.40, 44.95),
                (41924, 0.65, 47.20),
                (127064, 1.57, 50.01),
                (214074, 2.50, 55.17),
            ],
            strict=True,
        )
    ),
}
"""Y, F and R (in percent) as the paper prints them."""


def spent(work: Any) -> float:
    begin = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begin) / 1e6


def keys(event_start: NDArray[np.int64], slots: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    return np.repeat(np.arange(event_start.size - 1), np.diff(event_start)) * n + slots


def measured(
    rein: Matcher, matcher: Matcher, share: float, timed: EventColumns, repeat: int, verify: bool = False
) -> tuple[list[float], list[float]]:
    """Return milliseconds per event of REIN and of the matcher, in turns."""
    n_events = timed.start.size - 1
    shares = np.full(n_events, share)
    matcher.match_elastic(timed, shares, 1, verify)
    rein.match_batch(timed)
    pairs = [
        (spent(lambda: rein.match_batch(timed)), spent(lambda: matcher.match_elastic(timed, shares, 1, verify)))
        for _ in range(repeat)
    ]
    return [one / n_events for one, _ in pairs], [other / n_events for _, other in pairs]


def gain_of(rein: list[float], own: list[float]) -> float:
    return 1 - median(b / a for a, b in zip(rein, own, strict=True))


def run(arguments: argparse.Namespace) -> None:
    facts = {"commit": commit(), "cpu": cpu_name(), "versions": versions()}
    for widths in arguments.widths.split(","):
        workload = standard("eem", n=arguments.n, attribute_skew=2, width=WIDTHS[widths])
        subscriptions = workload.subscriptions(seed=1)
        events = workload.event_arrays(arguments.events, seed=2)
        timed = slice_events(events, 0, arguments.timed)
        rein = es.build(subscriptions, matcher="rein").matcher
        true_keys = keys(*rein.match_batch(events), arguments.n)
        for name, params in SETTINGS:
            if arguments.only and name not in arguments.only.split(","):
                continue
            index = es.build(subscriptions, matcher=name, ladder=LADDER, **params)
            matcher: Any = index.matcher
            costs = matcher.calibrate()
            common = {"widths": widths, "n": arguments.n, "matcher": name, "budget": matcher.budget, **facts}
            matcher.skip_plan(0.0)  # Spare-REIN has a plan for exact matching too
            times = measured(rein, matcher, 0.0, timed, arguments.repeat)
            write({**common, "F": 0.0, "gain": gain_of(*times), "rein_ms": times[0], "own_ms": times[1]})
            for share in LADDER:
                begin = time.perf_counter()
                plan = matcher.skip_plan(share)
                prepared = time.perf_counter() - begin
                found = matcher.match_elastic(events, np.full(arguments.events, share))
                assert np.isin(true_keys, keys(*found[:2], arguments.n), assume_unique=True).all(), "a match was lost"
                times = measured(rein, matcher, share, timed, arguments.repeat)
                checked = measured(rein, matcher, share, timed, arguments.repeat, verify=True)
                record = {
                    **common,
                    "F": share,
                    "Y": plan.paper_skippable,
                    "skipped": plan.skipped,
                    "touched": int(plan.touched.size),
                    "lists": plan.lists,
                    "expected_share": plan.expected_share,
                    "share": 1 - true_keys.size / found.slots.size,
                    "predicted_gain": plan.gain,
                    "gain": gain_of(*times),
                    "verified_gain": gain_of(*checked),
                    "rein_ms": times[0],
                    "own_ms": times[1],
                    "events": arguments.events,
                    "timed_events": arguments.timed,
                    "prepare_s": prepared,
                    "plan_bytes": matcher.describe()["plans"][f"{share:g}"],
                    "unit_costs": vars(costs),
                }
                write(record)
                matcher.learn(slice_events(events, 0, 0))  # forget the plan: six of them would fill the memory


def write(record: dict[str, Any]) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print({key: record[key] for key in record if key not in ("versions", "cpu", "commit", "rein_ms", "own_ms")})


def table() -> None:
    """Write each matcher's records into its page as Markdown; of several with the same setting the last counts."""
    records: dict[str, dict[tuple[str, str], dict[float, dict[str, Any]]]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        setting = (record["widths"], record["budget"])
        records.setdefault(record["matcher"], {}).setdefault(setting, {})[record["F"]] = record
    for matcher, settings in records.items():
        text = "\n".join(line for setting, by_share in settings.items() for line in rows(matcher, *setting, by_share))
        page = PAGES / f"{matcher}.md"
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        page.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2], encoding="utf-8")
        print(text)


def rows(matcher: str, widths: str, budget: str, by_share: dict[float, dict[str, Any]]) -> list[str]:
    exact = by_share[0.0]
    what = "from 0 to 1" if widths == "varied" else "all 0.5"
    times = f"REIN took {median(exact['rein_ms']):.1f} ms per event, this at F = 0 {1 - exact['gain']:.2f} times that."
    lines = [
        f"Widths {what}, `budget={budget}`, n = {exact['n']:,}. {times}",
        "",
        "| F | Y, formula | skipped | false, expected | false, measured | R predicted | R measured | paper: Y, F, R |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for share in LADDER:
        row = by_share[share]
        over = " **over**" if row["share"] > share else ""
        said = PAPER.get(matcher, {}).get(share) if widths == "varied" else None
        lines.append(
            f"| {share:.1%} | {row['Y']:,.0f} | {row['skipped']:,} | {row['expected_share']:.3%} |"
            f" {row['share']:.3%}{over} | {row['predicted_gain']:.1%} | {row['gain']:.1%} |"
            f" {f'{said[0]:,}, {said[1]} %, {said[2]} %' if said else ''} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--widths", default="varied,fixed")
    parser.add_argument("--only", help="matchers, separated by commas")
    parser.add_argument("--events", type=int, default=300, help="events whose matches are counted")
    parser.add_argument("--timed", type=int, default=40, help="of them, events that are timed")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments)
    else:
        table()


if __name__ == "__main__":
    main()
