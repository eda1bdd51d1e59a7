"""The subscribers of a broker: attaching them, each with an outbox and a sender of its own, and finding them again."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from eventsieve.broker.crew import Crew
from eventsieve.broker.engine import Engine
from eventsieve.broker.ledger import Ledger
from eventsieve.broker.outbox import Outbox, WhenFull
from eventsieve.broker.output import Output
from eventsieve.broker.sender import Sender
from eventsieve.broker.sinks import Callback
from eventsieve.broker.spill import Spill
from eventsieve.broker.state import StateFolder
from eventsieve.broker.stats import Counters
from eventsieve.broker.subscriber import Subscriber, WhenRefused
from eventsieve.broker.transport import Sink, TransactionalSink
from eventsieve.errors import BrokerError
from eventsieve.model.ids import Id


class Terms(NamedTuple):
    """What a subscriber is promised when it is slow or refuses."""

    limit: int
    when_full: WhenFull
    disk_limit: int
    retries: int | None
    when_refused: WhenRefused


class Attached:
    """All subscribers by name, those that were disconnected too."""

    def __init__(
        self,
        engine: Engine,
        output: Output,
        ledger: Ledger,
        counters: Counters,
        clock: Callable[[], float],
        state: StateFolder | None,
        batch: int,
        crew: Crew,
    ) -> None:
        self._engine, self._output, self._ledger, self._counters = engine, output, ledger, counters
        self._clock, self._state, self._batch, self._crew = clock, state, batch, crew
        self._lock = threading.Lock()
        self._routes = count(1)
        self._by_name: dict[str, Subscriber] = {}

    def all(self) -> list[Subscriber]:
        """Return every subscriber there ever was."""
        with self._lock:
            return list(self._by_name.values())

    def live(self) -> list[Subscriber]:
        """Return those that are still connected."""
        return [each for each in self.all() if each.closed_because is None]

    def add(
        self, sink: Sink, name: str | None, subscriptions: Iterable[Id], everything: bool, terms: Terms
    ) -> Subscriber:
        """Attach a sink and begin to send."""
        transactional = isinstance(sink, TransactionalSink)
        if transactional:
            # Positions are committed batch by batch, so a whole batch must fit.
            terms = terms._replace(limit=max(terms.limit, self._batch + 1), when_full="block")
        with self._lock:
            route = next(self._routes)
            name = f"subscriber-{route}" if name is None else name
            self._check(name, transactional)
            spill = partial(self._spill, name, terms.disk_limit)
            outbox = Outbox(self._ledger, terms.limit, terms.when_full, spill, durable=self._state is not None)
            if self._state is not None and self._state.backlog_of(name).exists():
                outbox.resume(spill())
            at_once = self._at_once(sink, terms.limit)
            refused = partial(self._refused, name, terms.when_refused)
            sender = Sender(sink, outbox, self._counters, self._clock, at_once, terms.retries, refused)
            made = self._by_name[name] = Subscriber(name, route, sink, outbox, sender, self._engine, self._output)
        self._engine.give(subscriptions, route)
        self._output.add(made.target(everything or transactional))
        made.start(self._crew.start)
        return made

    def _at_once(self, sink: Sink, limit: int) -> int:
        if isinstance(sink, TransactionalSink):
            return limit
        # What a function refuses should not be repeated with its neighbours.
        return 1 if isinstance(sink, Callback) else min(limit, self._batch)

    def _check(self, name: str, transactional: bool) -> None:
        live = {each.name: each for each in self._by_name.values() if each.closed_because is None}
        if name in live:
            raise BrokerError(f"a subscriber named {name!r} is attached already; name this one differently")
        if live and (transactional or any(each.transactional for each in live.values())):
            raise BrokerError("a transactional sink must be the only subscriber of its broker")

    def _spill(self, name: str, limit: int) -> Spill:
        if self._state is not None:
            return Spill(self._state.backlog_of(name), limit, True, self._clock)
        return Spill(Path(tempfile.mkdtemp(prefix="eventsieve-")), limit, False, self._clock)

    def _refused(self, name: str, when_refused: WhenRefused, why: Exception) -> None:
        if when_refused == "stop":
            raise BrokerError(f"the subscriber {name!r} did not take its deliveries: {why}") from why
        self._by_name[name].disconnect(f"it did not take its deliveries: {why}")
