"""The sender: takes deliveries out of one subscriber's outbox, hands them to its sink, and acknowledges them.

What a sink refuses is tried again, by default for as long as it takes: the backlog waits in the outbox meanwhile, and
other subscribers do not notice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from eventsieve.broker.outbox import Entry, Outbox
from eventsieve.broker.stats import Counters
from eventsieve.broker.transport import Delivery, Sink, TransactionalSink
from eventsieve.errors import GivenUpError

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts to hand over what a sink has refused."""
_REST_OF_BATCH: Final = 0.001
"""Seconds until the rest of a batch is looked for that is just being put into the outbox."""


class Sender:
    """One subscriber's sender. After `retries` further attempts (None: no end) `on_failure` is told instead."""

    def __init__(
        self,
        sink: Sink,
        outbox: Outbox,
        counters: Counters,
        clock: Callable[[], float],
        at_once: int,
        retries: int | None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._sink, self._outbox, self._counters, self._clock = sink, outbox, counters, clock
        self._at_once, self._retries, self._on_failure = at_once, retries, on_failure
        self._transactional = isinstance(sink, TransactionalSink)
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        """Why the last attempt failed; None after one that did not."""

    def run(self) -> None:
        """Send until the outbox is closed."""
        while not self._outbox.closed and not self._stopping.is_set():
            self.step(None)

    def step(self, timeout: float | None) -> int:
        """Hand over what waits, up to a limit; return how much that was."""
        entries = self._outbox.take(self._at_once, timeout)
        if self._transactional and not (entries := _whole_batches(entries)):
            self._stopping.wait(_REST_OF_BATCH)
        if not entries or not self._delivered(entries):
            return 0
        now = self._clock()
        self._counters.latency.add_many([now - each.delivery.received for each in entries if each.delivery is not None])
        self._outbox.acknowledge(len(entries))
        return len(entries)

    def stop(self) -> None:
        """Begin nothing more, and try nothing again."""
        self._stopping.set()

    def _delivered(self, entries: Sequence[Entry]) -> bool:
        deliveries = [entry.delivery for entry in entries if entry.delivery is not None]
        pause, attempt = _FIRST_PAUSE, 0
        while True:
            try:
                self._hand_over(entries, deliveries)
            except Exception as failure:  # whatever a subscriber's own code raises
                if self.failure is None:
                    _LOG.warning("a subscriber refused deliveries: %s", failure)
                self.failure = failure
                if attempt == self._retries or isinstance(failure, GivenUpError):
                    self._on_failure(failure)
                    return False
                attempt += 1
                if self._stopping.wait(pause) or self._outbox.closed:
                    return False
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self.failure = None
                return True

    def _hand_over(self, entries: Sequence[Entry], deliveries: Sequence[Delivery]) -> None:
        self._sink.send(deliveries)
        if not isinstance(self._sink, TransactionalSink):
            self._sink.flush()
            return
        positions: dict[str, int] = {}
        for entry in entries:
            if entry.delivery is None and entry.receipt is not None:
                positions |= {publisher: at for (_, publisher), at in entry.receipt.positions.items()}
        self._sink.commit_with(positions)


def _whole_batches(entries: list[Entry]) -> list[Entry]:
    """Return the entries up to the last end of a batch: positions can be committed only there."""
    ends = [at for at, entry in enumerate(entries) if entry.delivery is None]
    return entries[: ends[-1] + 1] if ends else []
