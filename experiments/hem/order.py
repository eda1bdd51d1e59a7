"""HEM, section 5.3: the near-optimal order and methods beside the optimal ones.

The paper finds the two close for every number of attributes (Figure 10), and the optimum too costly to look for. Here,
for 3 to 8 attributes of the `hem` workload:

    python experiments/hem/order.py --n 900000

prints the mean cost of formula (5), in clauses touched as a share of all, under the paper's own model (a mark and a
check cost the same, walks meet the unmatched): Algorithm 4 as printed, the same with each attribute decided in
turn, and the optimum over all plans. Then the processor time per event of the matcher under its own weights, planning
included: near-optimal, optimal, and with the attributes in the order given.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.bench.timing import least_processor_ms
from eventsieve.matchers.hem.plan import Costs, choose_in_turn, choose_optimal, plan_cost, sort_by_matching
from eventsieve.model.columns import EventColumns
from eventsieve.workload import standard

ORDERS = ("near-optimal", "optimal", "given")


def algorithm_4(costs: Costs, queue: NDArray[np.int32], n: int, out_walked: NDArray[np.bool_]) -> None:
    """Choose methods as Algorithm 4 is printed: from the first attribute that is cheaper to check on, check all."""
    out_walked[:] = False
    left = 1.0
    for k in range(n):
        if k > 0 and left <= costs.walk[queue[k]]:
            return
        out_walked[queue[k]] = True
        left *= costs.matching[queue[k]]


def model_costs(unmatched: NDArray[np.float64]) -> dict[str, float]:
    """Return the cost of one event's plan by each way of planning."""
    n = unmatched.size
    costs = Costs(1.0 - unmatched, unmatched, np.ones(n))
    queue, walked = np.empty(n, np.int32), np.empty(n, np.bool_)
    sort_by_matching(costs.matching, n, queue)
    found = {}
    for name, choose in (
        ("Algorithm 4", lambda: algorithm_4(costs, queue, n, walked)),
        ("in turn", lambda: choose_in_turn(costs, 1.0, queue, n, walked)),
        ("optimal", lambda: choose_optimal(costs, 1.0, queue, n, walked)),
    ):
        choose()
        found[name] = plan_cost(costs, 1.0, queue, n, sum(1 << j for j in np.flatnonzero(walked).tolist()))
    return found


def unmatched_shares(clauses: es.Subscriptions, events: EventColumns, e: int) -> NDArray[np.float64]:
    """Return the exact share of clauses that each value of event e rules out; every clause asks for every attribute."""
    table = clauses.table()
    n = int(events.start[1] - events.start[0])
    low, high = table.low.reshape(-1, n), table.high.reshape(-1, n)
    values = events.value[events.start[e] : events.start[e + 1]]
    return 1.0 - ((low <= values) & (values <= high)).mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=900_000, help="subscriptions")
    parser.add_argument("--events", type=int, default=100)
    arguments = parser.parse_args()
    print("attributes  cost: Algorithm 4  in turn  optimal   ms per event: " + "  ".join(ORDERS))
    for d in range(3, 9):
        workload = standard("hem", n=arguments.n, d=d, k=d, m=d)
        subscriptions = workload.subscriptions(seed=1)
        columns = workload.event_arrays(arguments.events, seed=2)
        plans = [model_costs(unmatched_shares(subscriptions, columns, e)) for e in range(arguments.events)]
        cost = {name: np.mean([plan[name] for plan in plans]) for name in plans[0]}
        spent = []
        for order in ORDERS:
            matcher = es.build(subscriptions, matcher="hem", order=order).matcher
            matcher.match_batch(columns)
            spent.append(least_processor_ms(partial(matcher.match_batch, columns)) / arguments.events)
        print(
            f"{d:10}  {cost['Algorithm 4']:17.3f}  {cost['in turn']:7.3f}  {cost['optimal']:7.3f}",
            "  ".join(f"{ms:{len(order)}.3f}" for order, ms in zip(ORDERS, spent, strict=True)),
            sep=" " * 17,
        )


if __name__ == "__main__":
    main()
