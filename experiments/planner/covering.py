"""Would an index of covering subscriptions pay? How many are covered, and what matching the others alone could save.

python experiments/planner/covering.py 20000

A clause that another one covers need not be looked at while that one fails: index the roots only, and check those that
a matching root covers. The gain is what the matcher saves on fewer clauses (measured: an index of the roots alone); the
price is checking the covered clauses of matching roots (counted, at PER_CHECK ns each). To find coverings takes a match
of both corners of every clause (measured too), and every change has to find its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import eventsieve as es
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.workload import standard

RESULTS = Path(__file__).with_suffix(".results.jsonl")
PER_CHECK = 12.0
"""Nanoseconds to check one clause whose place is known: the clause table is read at random."""


def main(n: int) -> None:
    any_width = {"width": "0..1"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("ticks", {}),
        ("bop", {}),
        ("gem", {}),
        ("hem", {}),
        ("eem", {}),
        ("full", any_width),
        ("full", {**any_width, "k": 2}),
        ("full", {**any_width, "k": 1}),
    ]
    for name, settings in cases:
        record = measured(name, n, settings)
        with RESULTS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record, flush=True)


def measured(name: str, n: int, settings: dict[str, Any]) -> dict[str, Any]:
    workload = standard(name, n=n, **settings)
    subscriptions = workload.subscriptions(seed=1)
    table = widest_first(subscriptions.table(), subscriptions.domains())
    events = workload.events(256, seed=4).columns_for(subscriptions.codes)
    begin = thread_time()
    root_of = roots(table, subscriptions.domains())
    finding = thread_time() - begin
    is_root = root_of == np.arange(n)
    roots_only = table._replace(stop=np.where(is_root, table.stop, table.start))
    everyone, fewer = (timed(subscriptions, each, events) for each in (table, roots_only))
    covered_of_root = np.bincount(root_of[~is_root], minlength=n)
    checks = covered_of_root[fewer["slots"]].sum() / 256
    return {
        "workload": name + "".join(f", {key}={value}" for key, value in settings.items()),
        "n": n,
        "covered": float(1 - is_root.mean()),
        "finding_us_per_clause": finding / n * 1e6,
        "all_ms": everyone["ms"],
        "roots_ms": fewer["ms"],
        "checks_per_event": float(checks),
        "with_checks_ms": float(fewer["ms"] + checks * PER_CHECK / 1e6),
    }


def widest_first(table: ClauseTable, domains: Domains) -> ClauseTable:
    """Put clauses in an order in which none is covered by a later one: fewer predicates first, then wider ones."""
    low, high = (np.clip(ends, domains.low[table.attribute], domains.high[table.attribute]) for ends in table[3:])
    share = (high - low) / (domains.high - domains.low)[table.attribute]
    width = np.add.reduceat(share, table.start)
    order = np.lexsort((-width, table.stop - table.start))
    start, stop = table.start[order], table.stop[order]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(start, stop, strict=True)])
    end = np.cumsum(stop - start)
    return ClauseTable(end - (stop - start), end, table.attribute[rows], table.low[rows], table.high[rows])


def roots(table: ClauseTable, domains: Domains) -> np.ndarray:
    """Return for each clause the first clause that covers it, or itself. Later equal ones are covered by the first."""
    matcher = make_matcher("sieve")
    matcher.build(table, domains)
    n = table.start.size
    root_of = np.arange(n)
    for first in range(0, n, 1000):
        last = min(first + 1000, n)
        begin, end = table.start[first], table.stop[last - 1]
        start = np.append(table.start[first:last], end) - begin
        columns = [
            matcher.match_batch(
                EventColumns(start, table.attribute[begin:end], np.clip(ends[begin:end], -1e300, 1e300))
            )
            for ends in (table.low, table.high)
        ]
        for e in range(last - first):
            low, high = (slots[event_start[e] : event_start[e + 1]] for event_start, slots in columns)
            covering = np.intersect1d(low, high, assume_unique=True)
            covering = covering[covering != first + e]
            if covering.size:
                root_of[first + e] = min(first + e, int(covering.min()))
    while not np.array_equal(root_of, root_of[root_of]):
        root_of = root_of[root_of]
    return root_of


def timed(subscriptions: es.Subscriptions, table: ClauseTable, events: EventColumns) -> dict[str, Any]:
    matcher = make_matcher("sieve")
    matcher.build(table, subscriptions.domains())
    matcher.match_batch(events)
    best, slots = np.inf, np.empty(0, np.int32)
    for _ in range(5):
        begin = thread_time()
        _, slots = matcher.match_batch(events)
        best = min(best, thread_time() - begin)
    return {"ms": best / 256 * 1e3, "slots": slots}


if __name__ == "__main__":
    main(int(sys.argv[1]))
