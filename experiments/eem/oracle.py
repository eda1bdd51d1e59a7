"""The most that F can buy: an oracle that spends every false match where it saves the most.

    python experiments/eem/oracle.py [--n 1000000]

Two questions, both answered by sorting, since every choice is a knapsack whose pieces can be taken by what they save
per false match:

* REIN that leaves predicates out for good. A clause that gives up its widest predicates first saves a mark in a share
  1 - w of the events each time, and is then reported falsely with P (1 - w), where P is the chance that the rest holds.
  So a piece saves 1 / P marks per false match. (Widest first is best: for the same marks, narrow ones cost more.)
* Spare-REIN that leaves checks out. A clause that is not checked saves a check for each of its reports, and the false
  ones among them are what it costs.

Chances are those of the plans: from a sample of events, attributes taken as independent.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from lane import LEARNED, workloads
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import allowance
from eventsieve.elastic.selection import spare_predicates

SHARES = (0.001, 0.01, 0.05)


def saved_within(saving: NDArray[np.float64], false: NDArray[np.float64], limits: list[float]) -> list[float]:
    """Return the share of all savings that each limit on false matches allows."""
    order = np.argsort(false / np.maximum(saving, 1e-300), kind="stable")
    spent, saved = np.cumsum(false[order]), np.cumsum(saving[order])
    return [float(np.interp(limit, spent, saved)) / float(saved[-1]) for limit in limits]


def marks_for_good(population: Population, limits: list[float]) -> list[float]:
    """Return the share of REIN's marks that can be left out for good."""
    order = np.lexsort((-population.matchability, population.clause))
    width, clause = population.matchability[order], population.clause[order]
    gone = np.cumsum(-np.log(width))
    first = population.first[clause]
    before = np.where(first > 0, gone[first - 1], 0.0)
    # The chance that the rest holds once this predicate and all wider ones are gone.
    rest = np.exp(np.log(population.matches)[clause] + gone - before)
    saving = population.presence[population.attribute[order]] * (1.0 - width)
    return saved_within(saving, rest * saving, limits)


def checks_left_out(population: Population, skipped: NDArray[np.bool_], limits: list[float]) -> list[float]:
    """Return the share of Spare-REIN's checks that can be left out."""
    checked = population.has(skipped)
    reported = population.reported(skipped)[checked]
    return saved_within(reported, np.maximum(reported - population.matches[checked], 0.0), limits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    arguments = parser.parse_args()
    columns = " | ".join(f"F = {share:.1%}" for share in SHARES)
    print(f"| workload | of | {columns} |\n| --- | --- | --- | --- | --- |")
    for name, workload in workloads(arguments.n).items():
        matcher: Any = es.build(workload.subscriptions(seed=1), matcher="spare-rein", share=False).matcher
        matcher.learn(workload.event_arrays(LEARNED, seed=3))
        plain = matcher._population()
        limits = [allowance(share) * float(plain.matches.sum()) for share in SHARES]
        with_rows, _ = matcher._ruled_out(plain)
        skipped = spare_predicates(with_rows, matcher._layout(with_rows), matcher.unit_costs)
        for what, shares in (
            ("REIN's marks", marks_for_good(plain, limits)),
            ("Spare-REIN's checks", checks_left_out(with_rows, skipped, limits)),
        ):
            print(f"| {name} | {what} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
