"""How sieve grows: time per event over the number of subscriptions, attributes, predicates, values, widths and skew.

python experiments/sieve/growth.py run [AXIS ...]     measures and keeps the records beside this file
python experiments/sieve/growth.py plot               draws docs/matchers/img/sieve-growth.svg from them

One setting of `bop` is varied at a time: the number of subscriptions up to 4 million, the others at 300,000. Processor
time of one thread with ids delivered: single events one after the other, the best of three rounds each, and a batch of
512. The reference scan of the same subscriptions runs in turns with them.
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
from eventsieve.bench.machine import commit, cpu_name
from eventsieve.bench.reference import Reference
from eventsieve.workload import Workload, standard

RESULTS = Path(__file__).with_suffix(".results.jsonl")
PICTURE = Path(__file__).parents[2] / "docs" / "matchers" / "img" / "sieve-growth.svg"
ELSEWHERE = 300_000
AXES: dict[str, tuple[str, list[Any]]] = {
    "n": ("subscriptions", [100_000, 300_000, 1_000_000, 2_000_000, 4_000_000]),
    "d": ("attributes", [20, 50, 100, 200]),
    "k": ("predicates per subscription", [2, 4, 6, 10, 15]),
    "m": ("values per event", [5, 10, 20, 35, 50]),
    "width": ("width of a predicate", [0.05, 0.1, 0.2, 0.4, 0.6, 0.8]),
    "attribute_skew": ("Zipf skew of attributes", [0.0, 0.5, 1.0, 1.5]),
}
SINGLE_EVENTS, BATCH, ROUNDS = 40, 512, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["run", "plot"])
    parser.add_argument("axes", nargs="*", default=list(AXES))
    asked = parser.parse_args()
    if asked.task == "plot":
        plot([json.loads(line) for line in RESULTS.read_text().splitlines()])
        return
    for axis in asked.axes:
        for value in AXES[axis][1]:
            record = {"axis": axis, "value": value, **measured(standard("bop", **{"n": ELSEWHERE, axis: value}))}
            record |= {"cpu": cpu_name(), "commit": commit()}
            with RESULTS.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(*(f"{name} {shown(found)}" for name, found in record.items()), flush=True)
            gc.collect()


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def measured(workload: Workload) -> dict[str, float]:
    """Return milliseconds per event, of sieve and of the reference scan."""
    arrays = workload.subscription_arrays(1)
    reference = Reference(arrays, workload.d)
    subscriptions = es.Subscriptions.from_arrays(workload.schema(), *arrays)
    es.build(standard("bop", n=2000).subscriptions(seed=1), "sieve")  # loads the code
    begin = process_time()
    index = es.build(subscriptions, "sieve")
    build = process_time() - begin
    columns = workload.event_arrays(SINGLE_EVENTS, 2)
    events = [single_event(workload, columns, e) for e in range(SINGLE_EVENTS)]
    rows = [reference.row(columns, e) for e in range(SINGLE_EVENTS)]
    batch = workload.events(BATCH, 3)
    single, scan = np.full(SINGLE_EVENTS, np.inf), np.full(SINGLE_EVENTS, np.inf)
    together, matches = np.inf, 0
    for _ in range(ROUNDS):
        for e in range(SINGLE_EVENTS):
            begin = thread_time()
            reference.scan(rows[e])
            scan[e] = min(scan[e], thread_time() - begin)
        for e in range(SINGLE_EVENTS):
            begin = thread_time()
            _ = index.match_batch(events[e]).ids
            single[e] = min(single[e], thread_time() - begin)
        begin = thread_time()
        matches = index.match_batch(batch).ids.size
        together = min(together, thread_time() - begin)
    return {
        "single_ms": float(single.mean()) * 1e3,
        "batch_ms": together / BATCH * 1e3,
        "reference_ms": float(scan.mean()) * 1e3,
        "build_s": build,
        "bytes": index.describe()["index_bytes"] / len(index),
        "matches": matches / BATCH,
    }


def plot(records: list[dict[str, Any]]) -> None:
    """Draw one panel per axis; of records of the same point the last one counts."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "eventsieve"
    from matplotlib import pyplot

    latest = {(each["axis"], each["value"]): each for each in records}
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 6), layout="constrained")
    lines = (
        ("reference_ms", "reference scan", "#999999"),
        ("single_ms", "one event", "#1f77b4"),
        ("batch_ms", "in a batch", "#d62728"),
    )
    for panel, (axis, (label, values)) in zip(panels.flat, AXES.items(), strict=True):
        points = [latest[axis, value] for value in values if (axis, value) in latest]
        for name, title, colour in lines:
            panel.plot([p["value"] for p in points], [p[name] for p in points], "o-", color=colour, label=title, ms=3)
        panel.set_yscale("log")
        if axis == "n":
            panel.set_xscale("log")
        panel.set_xlabel(label)
        panel.grid(True, which="major", alpha=0.3)
    panels[0][0].set_ylabel("ms per event")
    panels[1][0].set_ylabel("ms per event")
    panels[0][0].legend()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
