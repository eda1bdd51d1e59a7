"""Matches as they are found, block by block, and how they come into the order of their events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import prefetch
from eventsieve._kernels.compiler import inlined, kernel

BITS_AT_ONCE = 4
"""Places for matches that are needed beyond their number: bits are listed so many at a time."""
_RUNS_AHEAD = 6


class Found(NamedTuple):
    """Matches in the order they were found, in runs of the same event; for a single event no runs are kept."""

    slot: NDArray[np.int32]
    run_event: NDArray[np.uint16]
    run_stop: NDArray[np.int32]  # the matches of a run are those from the stop of the run before on
    n_runs: NDArray[np.int64]  # (1,)


def of_one_event(slots: NDArray[np.int32]) -> Found:
    """Return room for the matches of one event."""
    return Found(slots, np.empty(0, np.uint16), np.empty(0, np.int32), np.zeros(1, np.int64))


@inlined
def end_run(found: Found, e: int, used: int) -> None:
    """Note that all matches since the last run are of event e, if there are any and runs are wanted."""
    n = found.n_runs[0]
    before = found.run_stop[n - 1] if n > 0 else 0
    if used > before and n < found.run_stop.shape[0]:
        found.run_event[n], found.run_stop[n] = e, used
        found.n_runs[0] = n + 1


@kernel
def count_by_event(found: Found, out_count: NDArray[np.int64]) -> None:
    """Count the matches of each event."""
    run_event, run_stop = found.run_event, found.run_stop
    out_count[:] = 0
    before = 0
    for run in range(found.n_runs[0]):
        out_count[run_event[run]] += run_stop[run] - before
        before = run_stop[run]


@kernel
def put_in_place(found: Found, place: NDArray[np.int64], out_slots: NDArray[np.int32]) -> None:
    """Write the matches of each event to its place; places move on meanwhile."""
    slot, run_event, run_stop, n_runs = found.slot, found.run_event, found.run_stop, found.n_runs[0]
    before = 0
    for run in range(n_runs):
        if run + _RUNS_AHEAD < n_runs:
            # Every event has a place of its own to write to, and a run is too short to wait for it.
            prefetch(out_slots, place[run_event[run + _RUNS_AHEAD]] + BITS_AT_ONCE)
        e = run_event[run]
        first = place[e]
        for i in range(run_stop[run] - before):
            out_slots[first + i] = slot[before + i]
        place[e] = first + run_stop[run] - before
        before = run_stop[run]


def gather(found: Found, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]) -> None:
    """Put the matches in order of their events."""
    count_by_event(found, out_count)
    put_in_place(found, np.cumsum(out_count) - out_count, out_slots)
