"""The broker: EEM's receiver, input queue, matcher, output, sender and adjuster, put together.

    publish ──┐                                          ┌─ outbox ─ sender ─ callback
    source ─ receiver ─ input queue ─ workers ─ in order ┼─ outbox ─ sender ─ file, topic
              (decode)   (bounded)   (index)    (output) └─ outbox ─ sender ─ next broker
                             └── waiting times ── adjuster ── F

Every queue is bounded, so a publisher that is too fast waits. Deliveries leave in the order the events were taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.attached import Attached, Terms
from eventsieve.broker.crew import Crew
from eventsieve.broker.decoding import Decoder
from eventsieve.broker.engine import Engine
from eventsieve.broker.entrance import Entrance
from eventsieve.broker.files import FileLetters
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.journal import Journal
from eventsieve.broker.ledger import Ledger
from eventsieve.broker.letters import LetterBox
from eventsieve.broker.order import InOrder
from eventsieve.broker.outbox import WhenFull
from eventsieve.broker.output import Output
from eventsieve.broker.receiver import Receiver
from eventsieve.broker.sinks import Callback
from eventsieve.broker.spill import DISK_LIMIT
from eventsieve.broker.state import StateFolder
from eventsieve.broker.stats import Counters, Stats
from eventsieve.broker.subscriber import Subscriber, WhenRefused
from eventsieve.broker.transport import DeadLetters, Delivery, EventId, Message, Sink, Source, TransactionalSink
from eventsieve.broker.worker import Dispatch, Worker
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.errors import BrokerError, QueueFullError
from eventsieve.index.index import EventsLike, Index
from eventsieve.model.events import Unknown
from eventsieve.model.ids import Id

if TYPE_CHECKING:
    from eventsieve.broker.following import Follower
    from eventsieve.catalog import Catalog

QUEUE: Final = 10_000
"""Events that wait to be matched, at most."""
BATCH: Final = 256
"""Events that are matched together, at most: enough to spread a call's cost, few enough to keep the last one soon."""
OUTBOX: Final = 1_000
"""Deliveries that wait for a subscriber in memory, at most."""
_AHEAD: Final = 2
"""Batches per worker that may be matched before the one that is due."""
_POLL: Final = 0.2
"""Seconds that a source is asked to wait for messages, so that a stop is noticed."""
_IDLE: Final = 0.05
"""Seconds after which an idle worker tells the adjuster so."""
_PATIENCE: Final = 10.0
"""Seconds that a thread is given to notice that the broker has stopped."""


class Broker:
    """Matches what is published against an index and delivers it to subscribers.

    >>> import eventsieve as es
    >>> subs = es.Subscriptions(es.Schema({"price": es.Float()}))
    >>> found = []
    >>> with Broker(es.build(subs, matcher="simple")) as broker:
    ...     alice = broker.attach(lambda delivery: found.append((delivery.event["price"], delivery.ids)))
    ...     alice.subscribe("cheap", "price < 10")
    ...     broker.publish({"price": 7})
    ...     broker.publish({"price": 70})
    0
    1
    >>> found
    [(7, ['cheap'])]
    """

    def __init__(
        self,
        index: Index,
        *,
        version: int = 0,
        sources: Sequence[Source] = (),
        state: str | Path | None = None,
        fsync: bool = True,
        workers: int = 1,
        queue: int = QUEUE,
        batch: int = BATCH,
        elastic: ElasticSettings = OFF,
        key: str | None = None,
        unknown: Unknown = "refuse",
        dead_letters: DeadLetters | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take an index, which is the broker's own from now on.

        `state` is a folder that lets acknowledged publications survive; with `fsync` they survive a power cut too.
        `key` names the field of an event that is its id; `unknown` says what to do with attributes that the schema does
        not have.
        """
        if workers < 1 or batch < 1:
            raise BrokerError(f"a broker has at least 1 worker and batches of 1 event, not {workers} and {batch}")
        self.engine = Engine(index, version, elastic)
        self._clock, self._batch, self._n_workers = clock, min(batch, queue), workers
        self._state = None if state is None else StateFolder(Path(state))
        self._journal = None if self._state is None else Journal(self._state.journal, fsync, clock)
        self._counters = Counters()
        self._queue = InputQueue(queue)
        self._ledger = Ledger(self._note_safe)
        self._dispatch = Dispatch(self._queue, self.engine, self._ledger)
        self._output = Output(self._ledger)
        self._results = InOrder(self._output.release, _AHEAD * workers)
        self._elastic = elastic
        self.adjuster = Adjuster(elastic, clock())
        if dead_letters is None and self._state is not None:
            dead_letters = FileLetters(self._state.letters)
        self._letters = LetterBox(dead_letters)
        self._decoder = Decoder(key, unknown)
        self._entrance = Entrance(
            self._decoder, unknown, self.engine, self._queue, self._journal, self._counters, clock, self._batch
        )
        self._sources = tuple(sources)
        self._receivers: list[Receiver] = []
        self._crew = Crew(self._failed)
        self._attached = Attached(
            self.engine, self._output, self._ledger, self._counters, clock, self._state, self._batch, self._crew
        )
        self._follower: Follower | None = None
        self._threads: list[threading.Thread] = []
        self._receiving: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._replayed = threading.Event()
        self._stopping = threading.Event()
        self._started = False
        self._ended = False

    @classmethod
    def of_catalog(
        cls,
        catalog: Catalog,
        *,
        matcher: str = "auto",
        params: Mapping[str, Any] | None = None,
        elastic: ElasticSettings = OFF,
        sample: Callable[[Index], EventsLike] | None = None,
        **options: Any,
    ) -> Broker:
        """Make a broker whose subscriptions are a catalog's, now and as they change.

        `sample` returns events that skip plans are measured by; other options are those of the broker itself.
        """
        from eventsieve.broker.following import CatalogIndex, Follower

        indexes = CatalogIndex(catalog, matcher, elastic, sample, **(params or {}))
        version = catalog.version
        broker = cls(indexes.at(version), version=version, elastic=elastic, **options)
        broker.engine.followed = True
        broker._follower = Follower(indexes, broker.engine)
        return broker

    # -- subscribers ---------------------------------------------------------------------------------------

    def attach(
        self,
        to: Sink | Callable[[Delivery], object],
        *,
        name: str | None = None,
        subscriptions: Iterable[Id] = (),
        everything: bool = False,
        limit: int = OUTBOX,
        when_full: WhenFull = "spill",
        disk_limit: int = DISK_LIMIT,
        retries: int | None = None,
        when_refused: WhenRefused = "disconnect",
    ) -> Subscriber:
        """Connect a subscriber: a sink, or a function that is called with every delivery.

        It gets the matches of its `subscriptions`, present or future, and of those it makes itself; or `everything`. A
        delivery that is refused is tried again, `retries` times or (None) without end. Attach before `start` whoever
        should get what an earlier broker has left in the same state folder.
        """
        sink: Sink = to if isinstance(to, Sink) else Callback(to)
        if isinstance(sink, TransactionalSink) and self._started:
            raise BrokerError("a transactional sink is attached before the start: sources are opened with it in mind")
        terms = Terms(limit, when_full, disk_limit, retries, when_refused)
        return self._attached.add(sink, name, subscriptions, everything, terms)

    # -- publishing ----------------------------------------------------------------------------------------

    def publish(
        self,
        event: Mapping[str, Any] | str | bytes,
        *,
        publisher: str = "",
        id: EventId | None = None,
        key: bytes | str | None = None,
        headers: tuple[tuple[str, bytes | str], ...] = (),
        timestamp: float | None = None,
        timeout: float | None = None,
    ) -> EventId:
        """Take an event, as a dict or as JSON, and return its id: it is taken, and with a state folder it is on disk.

        Waits while the queue is full, and raises QueueFullError after `timeout` seconds. DataError says what is wrong
        with the event. If anything is raised, nothing was taken.
        """
        self._check_open(timeout)
        return self._entrance.one(Message(event, publisher, -1, id, key, headers, timestamp), timeout)

    def publish_batch(
        self,
        events: EventsLike,
        *,
        publisher: str = "",
        ids: Sequence[EventId] | None = None,
        timestamp: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """Take many events in one go, all or none: an `Events`, an Arrow table or dicts. Columns stay columns."""
        self._check_open(timeout)
        return self._entrance.many(events, publisher, ids, timestamp, timeout)

    def _check_open(self, timeout: float | None) -> None:
        self._crew.raise_failure()
        if not self._started or self._stopping.is_set():
            raise BrokerError("the broker is not running; start it, for example by `with broker:`")
        # What an earlier broker has left is older, and goes first.
        if not self._replayed.wait(timeout):
            raise QueueFullError(f"the journal of the last run was not queued again within {timeout:g} s; wait longer")

    # -- starting and stopping -----------------------------------------------------------------------------

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Connect the sources and begin: first with what the journal has kept, then with what comes."""
        with self._lock:
            if self._started:
                raise BrokerError("a broker is started once; make another one")
            commits = not any(each.transactional for each in self._attached.all())
            self._receivers = [self._receiver(source, commits) for source in self._sources]
            self.engine.warm_up()
            for receiver in self._receivers:
                receiver.open()
            self._started = True
        for number in range(self._n_workers):
            worker = Worker(
                self._dispatch, self.engine, self.adjuster, self._results, self._counters, self._clock, self._batch
            )
            self._threads.append(self._crew.start(partial(self._work, worker), f"worker {number}"))
        if self._journal is not None:
            replay = self._receiver(self._journal.backlog(), False, self._journal)
            self._receiving.append(self._crew.start(partial(self._replay, replay), "replay"))
        else:
            self._replayed.set()
        if self._follower is not None:
            self._threads.append(self._crew.start(partial(self._follower.run, self._stopping), "follower"))
        for receiver in self._receivers:
            name = f"receiver {receiver.source.name}"
            self._receiving.append(self._crew.start(partial(self._receive, receiver), name))

    def stop(self, timeout: float | None = 30.0) -> None:
        """Take nothing more, deliver what was taken, commit, and end.

        What is not delivered within `timeout` seconds is left: with a state folder or a source that remembers, it is
        delivered after the next start. Raises BrokerError if the broker had failed.
        """
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._stopping.set()
        until = None if timeout is None else time.monotonic() + timeout
        if self._crew.failure is None:
            for thread in self._receiving:
                thread.join(_left(until))
            self.drain(_left(until))
        self._crew.dismiss()
        self._queue.abandon()
        self._results.give_up()
        for subscriber in self._attached.all():
            subscriber.stop()
        for thread in (*self._receiving, *self._threads):
            if thread is not threading.current_thread():
                thread.join(_PATIENCE)
        self._close()
        self._crew.raise_failure()

    def _close(self) -> None:
        for receiver in self._receivers:
            if self._started:
                receiver.close()
        if self._journal is not None:
            self._journal.close()
        self._letters.close()
        if self._state is not None:
            self._state.release()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until everything that was taken is delivered and acknowledged; say whether that is so."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._crew.failure is None and not self._drained():
            waits = (
                self._queue.wait_empty,
                self._ledger.wait_idle,
                *(each.wait_empty for each in self._attached.live()),
            )
            for wait in waits:
                if not wait(_slice(until)) and until is not None and time.monotonic() >= until:
                    return self._drained()
        return self._drained()

    def _drained(self) -> bool:
        return (
            self._dispatch.idle() and not len(self._ledger) and not any(each.backlog for each in self._attached.live())
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every source has ended and everything is delivered, or the broker has failed; say whether so."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._crew.failure is None:
            if all(each.finished for each in self._receivers) and self.drain(_slice(until)):
                return True
            if self._stopping.wait(_slice(until)) or (until is not None and time.monotonic() >= until):
                return self._crew.failure is not None
        return True

    # -- looking at it -------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return the numbers of this moment."""
        counters = self._counters
        return Stats(
            received=counters.received,
            dead_letters=counters.dead_letters,
            events=counters.events,
            matches=counters.matches,
            batches=counters.batches,
            waiting=len(self._queue),
            queue_peak=self._queue.peak,
            in_flight=len(self._ledger),
            false_positive=self.adjuster.false_positive,
            version=self.engine.version,
            wait=counters.wait.window(),
            match=counters.match.window(),
            latency=counters.latency.window(),
            subscribers=tuple(each.stats() for each in self._attached.all()),
        )

    # -- inside --------------------------------------------------------------------------------------------

    def _receiver(self, source: Source, commits: bool, origin: object | None = None) -> Receiver:
        return Receiver(
            source, self._decoder, self.engine, self._queue, self._dispatch, self._ledger, self._counters,
            self._letters.put, self._clock, self._batch, commits, origin,
        )  # fmt: skip

    def _work(self, worker: Worker) -> None:
        pause = _IDLE if self._elastic.enabled else None
        while worker.step(pause) or not self._queue.closed:
            pass

    def _receive(self, receiver: Receiver) -> None:
        while not self._stopping.is_set():
            if receiver.finished:
                receiver.commit()
                self._stopping.wait(_POLL)
            else:
                receiver.step(_POLL)

    def _replay(self, receiver: Receiver) -> None:
        while not receiver.finished and not self._stopping.is_set():
            receiver.step(_POLL)
        self._replayed.set()

    def _note_safe(self) -> None:
        if self._journal is not None:
            safe = self._ledger.take_safe(self._journal)
            if safe:
                self._journal.commit(max(safe.values()))

    def _failed(self) -> None:
        """Take nothing more, and let everybody go who waits."""
        self._stopping.set()
        self._queue.close()
        self._results.give_up()
        self._ledger.wake()


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _slice(until: float | None) -> float:
    """Return how long to wait before looking around again: what is waited for may go elsewhere meanwhile."""
    return _POLL if until is None else min(_POLL, max(0.0, until - time.monotonic()))
