"""Fit the unit costs of planner/unit_costs.py to the times that regret.py has kept, and print the table.

python experiments/planner/fit.py

Costs cannot be negative, and relative errors count, since an index of a thousand must be predicted as well as one of a
million.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from regret import drawn

import eventsieve as es
from eventsieve.model.statistics import statistics_of
from eventsieve.planner.unit_costs import Bytes, Facts, Times

RESULTS = Path(__file__).with_name("regret.results.jsonl")
SWEEPS = 4000


def main() -> None:
    records = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    facts = {(each["workload"], each["n"]): facts_of(each["workload"], each["n"]) for each in records}
    for matcher in sorted({name for each in records for name in each["ms"]} & set(es.matchers())):
        own = [(facts[each["workload"], each["n"]], each["ms"][matcher]) for each in records if matcher in each["ms"]]
        print(f'    "{matcher}": (')
        for kind, form in (("single", Times), ("batch", Times), ("bytes", Bytes)):
            # Of a sum of unit costs, each alone says how much of its quantity there is.
            units = [form(*row) for row in np.eye(len(form._fields))]
            amounts = np.array([[unit.predict(fact) for unit in units] for fact, _ in own])
            table = [16 + 20 * fact.size if kind == "bytes" else 0.0 for fact, _ in own]
            wanted = [cost[kind] - each * fact.n_clauses for (fact, cost), each in zip(own, table, strict=True)]
            print(f"        {form.__name__}({', '.join(f'{cost:.4g}' for cost in fitted(amounts, np.array(wanted)))}),")
        print("    ),")


def facts_of(name: str, n: int) -> Facts:
    workload = drawn(name, 2048)
    subscriptions = workload.subscriptions(seed=1)
    events = workload.events(24, seed=5).columns_for(subscriptions.codes)
    found = Facts.of(statistics_of(subscriptions.table(), subscriptions.domains(), events), n)
    return replace(found, n_clauses=n)


def fitted(amounts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the costs that are least wrong in proportion, found one at a time; their median error is then none."""
    relative = amounts / wanted[:, None]
    square, target = relative.T @ relative, relative.sum(axis=0)
    costs = np.full(amounts.shape[1], 1e-3)
    for _ in range(SWEEPS):
        for i in range(costs.size):
            costs[i] = max(0.0, costs[i] + (target[i] - square[i] @ costs) / max(square[i, i], 1e-300))
    return costs / np.median(relative @ costs)


if __name__ == "__main__":
    main()
