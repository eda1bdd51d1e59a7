"""The outbox: what one subscriber has to get, in order, up to a number of deliveries in memory.

What to do when it is full is the subscriber's choice:

* `spill`: everything it has not got goes to disk, and comes back in order as it takes it. Nobody else waits, until the
  disk limit is reached; then as `block`.
* `block`: the broker waits for this subscriber, and so do all others and in the end the publishers.
* `disconnect`: the subscriber is given up, with what it has not got.

A delivery stays in the outbox until it is acknowledged. One that is on disk counts as delivered for its publisher: the
file is what keeps it now, so a slow subscriber does not hold back what sources may forget.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias, get_args

from eventsieve.broker.ledger import Ledger, Receipt
from eventsieve.broker.spill import Spill
from eventsieve.broker.transport import Delivery
from eventsieve.errors import BrokerError

WhenFull: TypeAlias = Literal["spill", "block", "disconnect"]


class Entry(NamedTuple):
    """A place in the queue: a delivery, or the end of a batch for subscribers that want to know."""

    delivery: Delivery | None
    receipt: Receipt | None
    """None for what is on disk: the ledger has been told already."""


class Outbox:
    """One subscriber's queue. Batches come in from one thread at a time, one sender takes them out.

    Either nothing is on disk, or what is in memory begins with the head of what is. New entries go to memory only when
    all that is on disk has been read back.
    """

    def __init__(
        self, ledger: Ledger, limit: int, when_full: WhenFull, spill: Callable[[], Spill], durable: bool = False
    ) -> None:
        if when_full not in get_args(WhenFull):
            raise BrokerError(f"when_full is one of {', '.join(get_args(WhenFull))}, not {when_full!r}")
        if limit < 1:
            raise BrokerError(f"a subscriber's queue holds at least 1 delivery, not {limit}")
        self.limit = limit
        self.peak = 0
        """The most deliveries it has held in memory."""
        self.delivered = 0
        self.undelivered = 0
        self.closed_because: str | None = None
        self._ledger = ledger
        self._when_full = when_full
        self._open_spill = spill
        self._keeps = durable and when_full == "spill"
        self._spill: Spill | None = None
        self._lock = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._closed = False
        self._settles = True

    def __len__(self) -> int:
        """Return the number of deliveries that are not acknowledged, in memory or not."""
        return len(self._entries) + self.spilled

    @property
    def spilled(self) -> int:
        """Deliveries that are on disk only."""
        return 0 if self._spill is None else len(self._spill)

    @property
    def closed(self) -> bool:
        return self._closed

    def resume(self, spill: Spill) -> None:
        """Go on with what an earlier broker left on disk."""
        with self._lock:
            self._spill = spill
            self._lock.notify_all()

    # -- coming in -----------------------------------------------------------------------------------------

    def put(self, entries: Sequence[Entry]) -> None:
        """Append entries; wait, spill or disconnect where they do not fit."""
        at = 0
        with self._lock:
            while not self._closed and at < len(entries):
                at += self._fill(entries[at:])
                if at == len(entries):
                    return
                if self._when_full == "disconnect":
                    self._close(f"it was slow: {len(self._entries)} deliveries were waiting, the most it may have")
                elif self._may_spill():
                    self._to_disk(entries[at:])
                    return
                else:
                    self._lock.wait_for(lambda: self._closed or self._has_room() or self._may_spill())
            self._give_up(entries[at:])

    def _has_room(self) -> bool:
        return len(self._entries) < self.limit and not self.spilled

    def _may_spill(self) -> bool:
        return self._when_full == "spill" and not self._disk().full

    def _fill(self, entries: Sequence[Entry]) -> int:
        """Take as many into memory as fit; return their number."""
        if self.spilled:
            return 0
        fitting = entries[: self.limit - len(self._entries)]
        self._entries.extend(fitting)
        self.peak = max(self.peak, len(self._entries))
        self._lock.notify_all()
        return len(fitting)

    def _disk(self) -> Spill:
        if self._spill is None:
            self._spill = self._open_spill()
        return self._spill

    def _to_disk(self, more: Sequence[Entry]) -> None:
        """Write what is in memory only, and more behind it; what was in memory stays there too, to be sent next."""
        fresh = [entry for entry in self._entries if entry.receipt is not None]
        written = [entry.delivery for entry in (*fresh, *more) if entry.delivery is not None]
        self._disk().append(written, in_memory=len(fresh))
        self._entries = deque(entry._replace(receipt=None) for entry in self._entries)
        self._lock.notify_all()
        self._settle([*fresh, *more])

    # -- going out -----------------------------------------------------------------------------------------

    def take(self, limit: int, timeout: float | None) -> list[Entry]:
        """Return the next entries without removing them; none if there are none in time. `acknowledge` removes them."""
        with self._lock:
            self._lock.wait_for(lambda: self._entries or self.spilled or self._closed, timeout)
            if self._closed:
                return []
            if not self._entries and self.spilled:
                back = self._disk().read(min(limit, self.limit))
                self._entries.extend(Entry(delivery, None) for delivery in back)
            return list(islice(self._entries, limit))

    def acknowledge(self, n: int) -> None:
        """Remove the first entries: the subscriber has them."""
        with self._lock:
            if self._closed:
                return
            # Not the entries as they were taken: meanwhile they may have gone to disk, and the ledger been told.
            gone = [self._entries.popleft() for _ in range(n)]
            self.delivered += sum(entry.delivery is not None for entry in gone)
            from_disk = sum(entry.receipt is None for entry in gone)
            if from_disk:
                self._disk().done(from_disk)
            self._lock.notify_all()
        self._settle(gone)

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until everything is acknowledged, or the subscriber is gone; say whether that is so."""
        with self._lock:
            return self._lock.wait_for(lambda: self._closed or not len(self), timeout)

    # -- the end -------------------------------------------------------------------------------------------

    def close(self, reason: str, settle: bool = True) -> None:
        """Take and give nothing more. What is left is given up; unless `settle`, it stays undone for its publishers.

        A durable outbox that may spill keeps what is left on disk instead.
        """
        with self._lock:
            self._close(reason, settle)

    def _close(self, reason: str, settle: bool = True) -> None:
        if self._closed:
            return
        if self._keeps and self._entries:
            self._to_disk(())
        self._closed = True
        self._settles = settle
        self.closed_because = reason
        left = list(self._entries)
        self._entries.clear()
        if self._spill is not None:
            self._spill.close()
        self._lock.notify_all()
        self._give_up(left)

    def _give_up(self, entries: Sequence[Entry]) -> None:
        if self._settles:
            self.undelivered += sum(entry.delivery is not None and entry.receipt is not None for entry in entries)
            self._settle(entries)

    def _settle(self, entries: Sequence[Entry]) -> None:
        """Tell the ledger, once for each run of entries of one batch."""
        count, current = 0, None
        for entry in (*entries, Entry(None, None)):
            if entry.receipt is not current:
                if current is not None:
                    self._ledger.settle(current, count)
                count, current = 0, entry.receipt
            count += 1
