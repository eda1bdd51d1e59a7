"""GEM-Tree beside its counterparts, or any matchers with any parameters, by least processor time.

    python experiments/gem/rivals.py --workload gem --set attribute_skew=1 gem-tree be-tree tama

Claim: GEM-Tree is 1.6, 13.3 and 17.2 times as fast as BE-Tree, OP-Index and TAMA, and loses least with Zipf attributes.
"""

from __future__ import annotations

import argparse
import ast

from least import Runs

import eventsieve as es
from eventsieve.workload import standard

EVENTS = 40
EVERYONE = ["gem-tree", "be-tree", "be-tree:capacity=512", "op-index", "tama"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="gem")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("matchers", nargs="*", default=EVERYONE)
    asked = parser.parse_args()
    workload = standard(asked.workload, n=asked.n, **dict(setting.split("=") for setting in asked.set))
    subscriptions = workload.subscriptions()
    runs = Runs(workload, EVENTS)
    for entry in asked.matchers:
        name, *settings = entry.split(":")
        params = {key: ast.literal_eval(value) for key, value in (setting.split("=") for setting in settings)}
        matcher = es.build(subscriptions, matcher=name, **{**workload.matcher_params.get(name, {}), **params}).matcher
        runs.add(entry, matcher)
        own = sum(array.nbytes for array in matcher.arrays().values())
        print(f"{entry:24} {own / asked.n:8.1f} bytes per subscription")
    print(f"{asked.workload}, n = {asked.n}, {' '.join(asked.set)}")
    runs.print_times()


if __name__ == "__main__":
    main()
