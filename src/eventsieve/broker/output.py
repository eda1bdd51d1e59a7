"""The output: sorts the matches of a batch out to subscribers, in the order the events came."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.broker.engine import Matched
from eventsieve.broker.ledger import Ledger, Receipt
from eventsieve.broker.outbox import Entry, Outbox
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.transport import Delivery


class MatchedBatch(NamedTuple):
    """A batch on its way out."""

    parcels: Sequence[Parcel]
    matched: Matched
    receipt: Receipt


class Target(NamedTuple):
    """Where deliveries can go."""

    route: int
    outbox: Outbox
    everything: bool
    """It gets every match; otherwise those of its own subscriptions."""
    batch_ends: bool
    """It is told where a batch ends, with or without matches."""


class Output:
    """All targets. `release` is called with one batch at a time; targets come and go meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._targets: tuple[Target, ...] = ()

    def add(self, target: Target) -> None:
        """Let a target have what is released from now on."""
        with self._lock:
            self._targets = (*self._targets, target)

    def remove(self, route: int) -> None:
        """Give a target nothing more."""
        with self._lock:
            self._targets = tuple(each for each in self._targets if each.route != route)

    def release(self, batch: MatchedBatch) -> None:
        """Put a batch's deliveries into the outboxes; waits where a full one says so."""
        targets = self._targets
        puts = [(target, self._entries(batch, target)) for target in targets]
        self._ledger.expect(batch.receipt, sum(len(entries) for _, entries in puts))
        for target, entries in puts:
            if entries:
                target.outbox.put(entries)
        self._ledger.settle(batch.receipt)

    def _entries(self, batch: MatchedBatch, target: Target) -> list[Entry]:
        matched, receipt = batch.matched, batch.receipt
        entries: list[Entry] = []
        if target.everything:
            cuts = _event_cuts(matched.event_start)
            entries = [Entry(each, receipt) for each in _deliveries(batch, cuts, None)]
        elif matched.routes is not None:
            own = np.flatnonzero(matched.routes == target.route)
            if own.size:
                cuts = _event_cuts(np.searchsorted(own, matched.event_start))
                entries = [Entry(each, receipt) for each in _deliveries(batch, cuts, own)]
        if target.batch_ends:
            entries.append(Entry(None, receipt))
        return entries


def _event_cuts(start: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield (event, first, stop) for the events that have matches."""
    for e in np.flatnonzero(start[1:] > start[:-1]).tolist():
        yield e, int(start[e]), int(start[e + 1])


def _deliveries(
    batch: MatchedBatch, cuts: Iterator[tuple[int, int, int]], own: NDArray[np.int64] | None
) -> Iterator[Delivery]:
    """Yield one delivery per event. Arrays are copied: one that waits must not keep its whole batch in memory."""
    matched = batch.matched
    ids = matched.ids if own is None else matched.ids[own]
    approximate = matched.approximate
    if approximate is not None and own is not None:
        approximate = approximate[own]
    places = _places(batch.parcels)
    parcel, first_event = next(places, (None, 0))
    for e, first, stop in cuts:
        while parcel is not None and e >= first_event + len(parcel.messages):
            parcel, first_event = next(places)
        assert parcel is not None, "every event came in a parcel"
        maybe = _some(approximate, first, stop)
        yield Delivery(
            parcel.messages[e - first_event],
            parcel.ids[e - first_event],
            ids[first:stop].copy(),
            maybe,
            matched.version,
            matched.false_positive if maybe is not None else 0.0,
            parcel.received,
        )


def _places(parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, int]]:
    """Yield every parcel with the number of its first event in the batch."""
    first = 0
    for parcel in parcels:
        yield parcel, first
        first += len(parcel.messages)


def _some(approximate: NDArray[Any] | None, first: int, stop: int) -> NDArray[np.bool_] | None:
    """Return which matches of an event may be false, None if none is."""
    if approximate is None or not approximate[first:stop].any():
        return None
    part: NDArray[np.bool_] = approximate[first:stop].copy()
    return part
