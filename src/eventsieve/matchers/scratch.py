"""Room to work in that outlives a call.

A fresh large array costs a system call, and its pages are cleared when they are first touched: together that takes
longer than to match one event. So every thread keeps what it has used, up to a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from eventsieve.model.large_arrays import large_array

_MOST_KEPT: Final = 1 << 28
"""Bytes of an array that is kept."""


class _Kept(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[str, str], NDArray[Any]] = {}


_kept = _Kept()


@contextmanager
def borrowed(use: str, size: int, dtype: DTypeLike) -> Iterator[NDArray[Any]]:
    """Lend an array of this size, with anything in it. Nothing may refer to it afterwards."""
    key = (use, np.dtype(dtype).str)
    # Taken out while it is lent: whoever asks for the same meanwhile gets one of their own.
    array = _kept.arrays.pop(key, None)
    if array is None or array.size < size:
        array = large_array(size, dtype)
    try:
        yield array[:size]
    finally:
        if array.nbytes <= _MOST_KEPT:
            _kept.arrays[key] = array
