"""What a second thread gains: batches on one thread and on two, in turns, beside what the machine itself allows.

    python experiments/sieve/threads.py [--workloads bop,hem] [--batches 512,2048] [--matcher sieve]

Two loops stand for the machine: one that only computes, and one that only reads main memory, each shared out between
two threads. Where a core by itself takes all that main memory gives, a second one cannot read faster. Results are
compared: both ways must find the same. Both cores must be idle, or the second thread competes with whatever has one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.matchers.threads import side_by_side
from eventsieve.workload import standard

TURNS = 9
PIECE = 1 << 13
"""Words that a thread reads before it passes over those of the other."""


@njit(nogil=True)
def compute(n: int) -> np.uint64:
    number = np.uint64(1)
    for _ in range(n):
        number = number * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return number


@njit(nogil=True)
def read(words: NDArray[np.uint64], part: int, n_parts: int) -> np.uint64:
    """Read a part of the memory, line by line."""
    anything = np.uint64(0)
    for first in range(part * PIECE, words.shape[0], n_parts * PIECE):
        for word in range(first, min(first + PIECE, words.shape[0]), 8):
            anything ^= words[word]
    return anything


def timed(one: Callable[[], Any], two: Callable[[], Any]) -> tuple[float, float, float]:
    """Return the median seconds of both and the median of their ratio, in turns; the first turn does not count."""
    seconds = []
    for _ in range(TURNS + 1):
        began = perf_counter()
        one()
        between = perf_counter()
        two()
        seconds.append((between - began, perf_counter() - between))
    counted = seconds[1:]
    return median(a for a, _ in counted), median(b for _, b in counted), median(b / a for a, b in counted)


def machine() -> None:
    words = np.ones(1 << 25, np.uint64)
    loops = 40_000_000
    _, _, ratio = timed(lambda: compute(loops), lambda: side_by_side(compute, [loops // 2] * 2))
    print(f"computing: two threads take {ratio:.2f} of the time of one", flush=True)
    one, two, ratio = timed(lambda: read(words, 0, 1), lambda: side_by_side(read, [words] * 2, range(2), [2] * 2))
    rates = f"{words.nbytes / one / 1e9:.0f} and {words.nbytes / two / 1e9:.0f} GB/s"
    print(f"reading main memory: {rates}, two threads take {ratio:.2f}", flush=True)


def matching(name: str, batches: list[int], matcher: str) -> None:
    workload = standard(name)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    for size in batches:
        events = workload.events(size, seed=3)
        expected, found = index.match_batch(events), index.match_batch(events, threads=2)
        assert [set(expected.of(e)) for e in range(20)] == [set(found.of(e)) for e in range(20)]
        assert np.array_equal(expected.event_start, found.event_start)
        del expected, found

        def once(threads: int, events: es.Events = events) -> None:
            index.match_batch(events, threads=threads).ids  # noqa: B018  (made when asked for)

        one, two, ratio = timed(lambda: once(1), lambda: once(2))
        each = f"{one / size * 1e6:.1f} and {two / size * 1e6:.1f} microseconds per event"
        print(f"{name}, {size:,} events: {each}, two threads take {ratio:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="bop,full,gem,hem,htree,eem")
    parser.add_argument("--batches", default="512,2048")
    parser.add_argument("--matcher", default="sieve")
    arguments = parser.parse_args()
    machine()
    for name in arguments.workloads.split(","):
        matching(name, [int(size) for size in arguments.batches.split(",")], arguments.matcher)
    machine()


if __name__ == "__main__":
    main()
