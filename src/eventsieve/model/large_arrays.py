"""Large arrays for results, in memory of earlier ones that are gone.

The system takes memory of this size back as soon as it is freed, and clears every page when it is asked for again.
For a batch with millions of matches that takes as long as the matching, and now and then many times as long.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LARGE: Final = 1 << 22
"""Bytes from which memory is used again; the system itself keeps smaller pieces."""
_SIZES: Final = 8
"""Sizes of pieces between a power of two and the next: a little more than the last time must fit the same piece."""


def _most_kept() -> int:
    """Return how many bytes are kept in all: a small part of the machine's, enough for 20 million matches."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        machine = 1 << 33
    return min(machine // 16, 1 << 30)


class _Kept:
    """Memory that waits for its next use."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._pieces: list[NDArray[np.uint8]] = []
        self._returned: deque[NDArray[np.uint8]] = deque()

    def take(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return a piece of at least this size, and not of more than twice that if it has been used before."""
        with self._lock:
            self._sort_in()
            fitting = [i for i, piece in enumerate(self._pieces) if n_bytes <= piece.size <= 2 * n_bytes]
            if fitting:
                return self._pieces.pop(min(fitting, key=lambda i: self._pieces[i].size))
        step = 1 << max(0, n_bytes.bit_length() - _SIZES.bit_length())
        return np.empty(-(-n_bytes // step) * step, np.uint8)

    def give_back(self, piece: NDArray[np.uint8]) -> None:
        """Keep a piece. This may be called at any moment, also in the midst of `take`, by the garbage collector."""
        self._returned.append(piece)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def _sort_in(self) -> None:
        """Take up what came back, and let the oldest pieces go if that is too much."""
        while self._returned:
            self._pieces.append(self._returned.popleft())
        while sum(each.size for each in self._pieces) > self._most_bytes:
            self._pieces.pop(0)


_kept = _Kept(_most_kept())


class _Lent:
    """What an array holds on to for as long as it, or a view of it, is there."""

    def __init__(self, piece: NDArray[np.uint8], owner: _Kept) -> None:
        self._piece = piece
        # Not by its global name: when the interpreter ends, that may go first.
        self._owner = owner
        self.__array_interface__ = piece.__array_interface__

    def __del__(self) -> None:
        self._owner.give_back(self._piece)


def large_array(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array with anything in it, as `np.empty` does."""
    n_bytes = size * np.dtype(dtype).itemsize
    if n_bytes < _LARGE:
        return np.empty(size, dtype)
    return np.asarray(_Lent(_kept.take(n_bytes), _kept))[:n_bytes].view(dtype)


def large_copy(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a copy, as `values.copy()` does."""
    copy: NDArray[np.int32] = large_array(values.size, values.dtype)
    copy[:] = values
    return copy


def end_to_end(pieces: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return all pieces in one array, which is the piece itself if there is only one."""
    if len(pieces) == 1:
        return pieces[0]
    joined: NDArray[np.int32] = large_array(sum(piece.size for piece in pieces), np.int32)
    return np.concatenate([np.empty(0, np.int32), *pieces], out=joined)
