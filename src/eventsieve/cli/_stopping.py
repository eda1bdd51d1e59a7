"""Ctrl-C and SIGTERM for commands that run until they are asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventsieve.cli._io import say


@contextmanager
def stopping(stop: Callable[[], object], finishing: str) -> Iterator[None]:
    """Let the first signal call `stop`, saying what is finished before the end; a second one ends at once."""

    def asked(number: int, frame: object) -> None:
        say(f"{finishing}, then stopping (once more to stop at once)")
        stop()
        signal.signal(number, before[signal.Signals(number)])

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
