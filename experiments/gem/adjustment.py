"""What adjustment is worth: every order of attributes before and after `adjust()`, as multiples of the reference scan.

    python experiments/gem/adjustment.py --workload gem --n 200000 --set attribute_skew=1

The paper gains 16 % by its global order. Each time is the least processor time of several turns, one event at a time.
"""

from __future__ import annotations

import argparse

from least import Runs

import eventsieve as es
from eventsieve.workload import standard

EVENTS, SEEN = 40, 1000
ORDERS = ("cell", "rank", "sum", "normalised")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="gem")
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    workload = standard(asked.workload, n=asked.n, **dict(setting.split("=") for setting in asked.set))
    subscriptions = workload.subscriptions()
    runs = Runs(workload, EVENTS)
    for order in ORDERS:
        runs.add(order, es.build(subscriptions, matcher="gem-tree", order=order).matcher)
        index = es.build(subscriptions, matcher="gem-tree", order=order)
        index.match_batch(workload.events(SEEN, seed=2))
        index.adjust()
        runs.add(f"{order}, adjusted", index.matcher)
    print(f"{asked.workload}, n = {asked.n}, {' '.join(asked.set)}")
    runs.print_times()


if __name__ == "__main__":
    main()
