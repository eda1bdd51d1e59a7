"""Threads that outlive a call.

To start a thread takes as long as to match a small batch, and a new one has no scratch yet. So they are kept: those
that wait cost nothing, and as many are started as there are calls at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, Final, TypeVar

R = TypeVar("R")

_MOST_THREADS: Final = 1024


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, "eventsieve match")


if hasattr(os, "register_at_fork"):
    # A forked process has none of the threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def side_by_side(function: Callable[..., R], *arguments: Iterable[Any]) -> list[R]:
    """Return what `map` would, all calls made at the same time: the first in this thread, each other in its own."""
    first, *others = zip(*arguments, strict=True)
    calls = [_pool().submit(function, *each) for each in others]
    try:
        results = [function(*first)]
    finally:
        # Whatever happens here, they may still be at work in arrays of the caller.
        wait(calls)
    return results + [call.result() for call in calls]
