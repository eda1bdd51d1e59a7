"""Matching workers: take whatever waits, up to a limit, match it as one batch, pass it on in order.

An idle broker matches an event as soon as it comes. While all workers are busy events gather, and the next batch is
larger: batches form by themselves under load, with no timer that would make a single event wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.engine import Engine
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.ledger import Ledger, Receipt
from eventsieve.broker.order import InOrder
from eventsieve.broker.output import MatchedBatch
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.stats import Counters


class Work(NamedTuple):
    """A batch that a worker has taken; its ticket says when its result is due."""

    ticket: int
    parcels: Sequence[Parcel]
    receipt: Receipt


class Dispatch:
    """Hands batches to workers. Tickets, ledger entries and versions all rise in the order of the queue."""

    def __init__(self, queue: InputQueue, engine: Engine, ledger: Ledger) -> None:
        self._queue, self._engine, self._ledger = queue, engine, ledger
        self._turn = threading.Lock()
        self._tickets = count()

    def take(self, limit: int, timeout: float | None) -> Work | None:
        """Return a batch, and the engine's gate held for it; None if nothing came in time."""
        if not self._queue.wait(timeout):
            return None
        with self._turn:
            parcels = self._queue.take(limit)
            if not parcels:
                return None
            # Inside the turn: a later batch must not be matched with an earlier version.
            self._engine.gate.enter()
            return Work(next(self._tickets), parcels, self._ledger.enter(parcel.mark for parcel in parcels))

    def idle(self) -> bool:
        """Say whether everything that was queued is in the ledger: taken, and entered there."""
        with self._turn:
            return not len(self._queue)

    def discard(self, origin: object, publishers: Sequence[str]) -> int:
        """Drop what waits of some publishers, while nobody is taking any of it."""
        with self._turn:
            return self._queue.discard(origin, publishers)


class Worker:
    """One of several. `step` is `take` and `finish`; they are apart so that any interleaving can be tried."""

    def __init__(
        self,
        dispatch: Dispatch,
        engine: Engine,
        adjuster: Adjuster,
        results: InOrder[MatchedBatch],
        counters: Counters,
        clock: Callable[[], float],
        limit: int,
    ) -> None:
        self._dispatch, self._engine, self._adjuster = dispatch, engine, adjuster
        self._results, self._counters, self._clock, self._limit = results, counters, clock, limit

    def step(self, timeout: float | None) -> bool:
        """Match one batch; say whether there was one."""
        work = self.take(timeout)
        if work is None:
            self._adjuster.idle(self._clock())
            return False
        self.finish(work)
        return True

    def take(self, timeout: float | None) -> Work | None:
        """Take what waits."""
        return self._dispatch.take(self._limit, timeout)

    def finish(self, work: Work) -> None:
        """Match a batch and hand it over."""
        now = self._clock()
        waits: list[float] = []
        for parcel in work.parcels:
            waits += [now - parcel.received] * len(parcel.messages)
        self._adjuster.observe(sum(waits), len(waits), now)
        try:
            matched = self._engine.match([parcel.events for parcel in work.parcels], self._adjuster.false_positive)
        finally:
            self._engine.gate.leave()
        self._counters.wait.add_many(waits)
        self._counters.match.add(self._clock() - now)
        self._counters.matched(len(waits), len(matched.ids))
        self._results.put(work.ticket, MatchedBatch(work.parcels, matched, work.receipt))
