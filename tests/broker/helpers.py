"""What several broker tests need: conditions that are polled, and a publisher that does not stop by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from eventsieve.broker import Broker
from eventsieve.broker.spill import Spill


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Return when the condition holds; fail after a while."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.005)


def publish_until_full(broker: Broker, event: dict[str, Any], timeout: float) -> None:
    """Publish one event after the other, with the ids 0, 1, 2, ..., until the broker refuses."""
    for n in range(10_000):
        broker.publish(event, publisher="p", id=n, timeout=timeout)
    raise AssertionError("the broker took 10,000 events")


def no_disk() -> Spill:
    """Stand where an outbox would open its place on disk, if it were one that spills."""
    raise AssertionError("this outbox does not spill")
