"""Runs of predicates and free slots: where things stand in the table of clauses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rows_of(start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of many runs, end to end."""
    return np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())


def squeezed(
    start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the predicates that some clause has, and where each clause then finds its own.

    Clauses that share theirs go on sharing them. A free slot, or one that asks for nothing, stays empty.
    """
    held = np.flatnonzero(stop > start)
    first, place = np.unique(start[held], return_inverse=True)
    length = np.zeros(first.size, np.int64)
    length[place] = (stop - start)[held]
    ends = np.cumsum(length)
    new_start, new_stop = np.zeros_like(start), np.zeros_like(stop)
    new_start[held], new_stop[held] = (ends - length)[place], ends[place]
    return rows_of(first, length), new_start, new_stop


def claim(free: list[int], size: int, count: int) -> NDArray[np.int32]:
    """Take `count` slots: free ones first, then new ones behind the `size` there are."""
    reused = [free.pop() for _ in range(min(count, len(free)))]
    return np.concatenate([np.array(reused, np.int32), np.arange(size, size + count - len(reused), dtype=np.int32)])
