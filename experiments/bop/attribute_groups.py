"""The BOP paper's closing idea: divide the attributes into groups and keep a bitset per group.

An absent attribute costs one AND of its null bitset. With groups of g attributes, the AND over each of the 2**g - 1
subsets of a group is kept in advance, and an event needs one row per group instead of one per absent attribute. The
limit of the idea is a cache by event shape: events that lack the same attributes share one row.

    python experiments/bop/attribute_groups.py --n 1000000

prints, per group size, the memory of the rows and the processor time per event of joining them, beside the whole
time of a REIN and a REIN-O match.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve._kernels.bitset import and_rows, copy_row
from eventsieve._kernels.compiler import kernel
from eventsieve.bench.timing import least_processor_ms
from eventsieve.workload import standard


@kernel
def join(
    alive: NDArray[np.uint64], rows: NDArray[np.uint64], chosen: NDArray[np.int32], out: NDArray[np.uint64]
) -> None:
    """Do what a match does for the attributes an event lacks, block by block."""
    for block in range(alive.shape[0]):
        copy_row(alive[block], out)
        and_rows(rows[block], chosen, chosen.shape[0], out)


def grouped_rows(null: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Return, by block, group and subset of the group, the AND of the null rows; the empty subset has no row."""
    n_blocks, n_attributes, words = null.shape
    per_group = (1 << size) - 1
    n_groups = -(-n_attributes // size)
    rows = np.full((n_blocks, n_groups * per_group, words), ~np.uint64(0))
    for group in range(n_groups):
        for subset in range(1, per_group + 1):
            for member in range(size):
                if subset >> member & 1 and group * size + member < n_attributes:
                    rows[:, group * per_group + subset - 1] &= null[:, group * size + member]
    return rows


def chosen_rows(absent: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    """Return the rows of the subsets that an event lacks."""
    subset: dict[int, int] = {}
    for a in absent.tolist():
        subset[a // size] = subset.get(a // size, 0) | 1 << a % size
    return np.array([group * ((1 << size) - 1) + members - 1 for group, members in subset.items()], np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="subscriptions")
    parser.add_argument("--events", type=int, default=40)
    arguments = parser.parse_args()
    workload = standard("bop", n=arguments.n)
    subscriptions = workload.subscriptions(seed=1)
    columns = workload.event_arrays(arguments.events, seed=2)
    for name in ("rein", "rein-o"):
        matcher = es.build(subscriptions, matcher=name).matcher
        matcher.match_batch(columns)
        whole = least_processor_ms(lambda matcher=matcher: matcher.match_batch(columns)) / arguments.events
        print(f"{name:8} whole match {whole:.3f} ms per event")
    arrays = matcher.arrays()
    out = np.empty(arrays["alive"].shape[1], np.uint64)
    n_attributes = arrays["null"].shape[1]
    lacking = [
        np.setdiff1d(np.arange(n_attributes), columns.attribute[columns.start[e] : columns.start[e + 1]])
        for e in range(arguments.events)
    ]
    for size in (1, 2, 3, 4):
        rows = grouped_rows(arrays["null"], size)
        picks = [chosen_rows(absent, size) for absent in lacking]
        spent = [
            least_processor_ms(lambda pick=pick, rows=rows: join(arrays["alive"], rows, pick, out)) for pick in picks
        ]
        mean_rows = np.mean([pick.size for pick in picks])
        print(
            f"groups of {size}: {rows.nbytes / 1e6:6.1f} MB, {mean_rows:4.1f} rows, {np.mean(spent):.3f} ms per event"
        )
    one = np.zeros(1, np.int32)
    print(
        f"one row per event shape: {least_processor_ms(lambda: join(arrays['alive'], rows, one, out)):.3f} ms per event"
    )


if __name__ == "__main__":
    main()
