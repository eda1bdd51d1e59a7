"""What sharing one matcher slot among equal subscriptions gains, by how many of them are repetitions.

python experiments/planner/sharing.py 200000

`ticks` and `bop`, with a part of the subscriptions replaced by repetitions of others (Zipf 1 over ten thousand).
Processor time; both ways of building take turns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import eventsieve as es
from eventsieve.bench.check import single_event
from eventsieve.workload import Workload, standard

RESULTS = Path(__file__).with_suffix(".results.jsonl")


def main(n: int) -> None:
    for name in ("ticks", "bop"):
        for repeated in (0.1, 0.25, 0.5, 0.9):
            workload = standard(name, n=n)
            subscriptions = with_repetitions(workload, repeated)
            events, columns = workload.events(512, seed=4), workload.event_arrays(40, 5)
            single = [single_event(workload, columns, e) for e in range(40)]
            matcher = "sieve" if name == "bop" else "be-tree"
            for share in (True, False):  # loads the code
                es.build(workload_of(name, 2000), matcher, share=share).match_batch(events)
            for share in (False, True):
                record = measured(subscriptions, matcher, share, events, single)
                record |= {"workload": name, "n": n, "repeated": repeated, "matcher": matcher}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


def workload_of(name: str, n: int) -> es.Subscriptions:
    return standard(name, n=n).subscriptions(seed=1)


def with_repetitions(workload: Workload, share: float) -> es.Subscriptions:
    """Return the workload's subscriptions, of which a share repeats one of ten thousand, the popular ones often."""
    start, attribute, low, high = workload.subscription_arrays(1)
    rng = np.random.default_rng(7)
    weight = 1.0 / np.arange(1, 10_001)
    popular = rng.choice(10_000, workload.n, p=weight / weight.sum())
    source = np.where(rng.random(workload.n) < share, popular, np.arange(workload.n))
    length = np.diff(start)[source]
    begin = np.concatenate([[0], np.cumsum(length)])
    rows = np.repeat(start[source] - begin[:-1], length) + np.arange(begin[-1])
    texts = workload.texts() or None
    return es.Subscriptions.from_arrays(workload.schema(), begin, attribute[rows], low[rows], high[rows], texts=texts)


def measured(
    subscriptions: es.Subscriptions, matcher: str, share: bool | None, events: es.Events, single: list[es.Events]
) -> dict[str, Any]:
    build = []
    for _ in range(3):
        begin = thread_time()
        index = es.build(subscriptions, matcher, share=share)
        build.append(thread_time() - begin)

    def once(batch: es.Events) -> float:
        begin = thread_time()
        index.match_batch(batch).ids  # noqa: B018  (made when asked for)
        return (thread_time() - begin) * 1e3

    facts = index.describe()
    return {
        "shared": index.sharing is not None,
        "indexed": facts["indexed_clauses"],
        "bytes": facts["index_bytes"],
        "build_s": min(build),
        "single_ms": float(np.mean(np.min([[once(each) for each in single] for _ in range(3)], axis=0))),
        "batch_ms": min(once(events) for _ in range(3)) / len(events),
        "matches": index.match_batch(events).slots.size / len(events),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
