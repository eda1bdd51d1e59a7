"""A publisher that is faster than everybody else: nothing is lost, order is kept, no queue passes its limit."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.broker import Broker
from eventsieve.broker.engine import Engine
from eventsieve.broker.histogram import Histogram
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.ledger import Ledger, Mark
from eventsieve.broker.memory import MemorySink
from eventsieve.broker.order import InOrder
from eventsieve.broker.outbox import Outbox
from eventsieve.broker.output import MatchedBatch, Output, Target
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.stats import Counters
from eventsieve.broker.transport import Message
from eventsieve.broker.worker import Dispatch, Work, Worker
from eventsieve.elastic.settings import OFF
from eventsieve.index.index import Index
from eventsieve.model.events import Events
from tests.broker.helpers import no_disk, publish_until_full

SCHEMA = es.Schema({"price": es.Float(0, 100)})


def market() -> Index:
    subs = es.Subscriptions(SCHEMA)
    subs.add("low", "price < 50")
    subs.add("all", "price >= 0")
    return es.build(subs, matcher="simple")


class Line:
    """The parts of a broker without its threads, so that a test can run them in any order it likes."""

    def __init__(self, n_workers: int, batch: int) -> None:
        self.ledger = Ledger()
        self.queue = InputQueue(8)
        engine = Engine(market())
        dispatch = Dispatch(self.queue, engine, self.ledger)
        output = Output(self.ledger)
        self.outbox = Outbox(self.ledger, 10_000, "block", no_disk)
        output.add(Target(1, self.outbox, everything=True, batch_ends=False))
        results: InOrder[MatchedBatch] = InOrder(output.release, 1_000)
        self.workers = [
            Worker(dispatch, engine, Adjuster(OFF, 0.0), results, Counters(), lambda: 0.0, batch)
            for _ in range(n_workers)
        ]
        self.taken: list[Work | None] = [None] * n_workers
        self.published: dict[str, list[int]] = defaultdict(list)

    def publish(self, publisher: str, price: int) -> None:
        if not self.queue.room:
            return
        position = len(self.published[publisher])
        self.published[publisher].append(price)
        message = Message({"price": price}, publisher, position)
        events = Events.from_dicts(SCHEMA, [{"price": price}])
        self.queue.reserve(1, 0.0)
        self.queue.put_reserved(Parcel([message], [position], events, 0.0, Mark("here", publisher, position)))

    def take(self, worker: int) -> None:
        if self.taken[worker] is None:
            self.taken[worker] = self.workers[worker].take(0.0)

    def finish(self, worker: int) -> None:
        work, self.taken[worker] = self.taken[worker], None
        if work is not None:
            self.workers[worker].finish(work)

    def acknowledge(self, n: int) -> None:
        self.outbox.acknowledge(len(self.outbox.take(n, 0.0)))

    def delivered(self) -> dict[str, list[tuple[int, Any]]]:
        found: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        for entry in self.outbox.take(10_000, 0.0):
            assert entry.delivery is not None
            message = entry.delivery.message
            found[message.publisher].append((message.position, sorted(entry.delivery.ids)))
        return found


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from("ab"), st.integers(0, 99)),
    st.tuples(st.just("take"), st.integers(0, 2)),
    st.tuples(st.just("finish"), st.integers(0, 2)),
)


@given(schedule=st.lists(STEPS, max_size=120), batch=st.integers(1, 5))
def test_in_every_schedule_each_publisher_s_order_is_kept_and_nothing_is_lost(
    schedule: list[tuple[Any, ...]], batch: int
) -> None:
    line = Line(3, batch)
    for name, *arguments in schedule:
        getattr(line, name)(*arguments)
    for worker in (2, 1, 0):  # the latest batch first, so that order is put back
        line.finish(worker)
    while len(line.queue):
        line.take(0)
        line.finish(0)
    found = line.delivered()
    for publisher, prices in line.published.items():
        expected = [(at, ["all", "low"] if price < 50 else ["all"]) for at, price in enumerate(prices)]
        assert found[publisher] == expected
    assert line.queue.peak <= line.queue.limit


@given(schedule=st.lists(st.one_of(STEPS, st.tuples(st.just("acknowledge"), st.integers(1, 4))), max_size=120))
def test_in_every_schedule_only_what_is_acknowledged_becomes_safe(schedule: list[tuple[Any, ...]]) -> None:
    line = Line(3, 2)
    acknowledged: dict[str, int] = {"a": -1, "b": -1}
    safe = {"a": -1, "b": -1}
    for name, *arguments in schedule:
        if name == "acknowledge":
            for entry in line.outbox.take(arguments[0], 0.0):
                assert entry.delivery is not None
                acknowledged[entry.delivery.message.publisher] = entry.delivery.message.position
        getattr(line, name)(*arguments)
        safe |= line.ledger.take_safe("here")
        assert all(safe[publisher] <= acknowledged[publisher] for publisher in "ab")


@pytest.mark.parametrize("workers", [1, 3])
def test_tiny_queues_and_fast_publishers_lose_nothing(make_index: Callable[..., Index], workers: int) -> None:
    index = make_index()
    sink = MemorySink()
    broker = Broker(index, workers=workers, queue=7, batch=3)
    handle = broker.attach(sink, everything=True, limit=5, when_full="block")
    expected = {(f"p{p}", n): index.match({"price": (7 * n + p) % 100}) for p in range(3) for n in range(150)}

    def publisher(p: int) -> None:
        for n in range(150):
            broker.publish({"price": (7 * n + p) % 100}, publisher=f"p{p}", id=n)

    with broker:
        threads = [threading.Thread(target=publisher, args=(p,)) for p in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert broker.drain(30)
    order: dict[str, list[Any]] = defaultdict(list)
    for delivery in sink.deliveries:
        order[delivery.message.publisher].append(delivery.event_id)
        assert sorted(delivery.ids) == sorted(expected[delivery.message.publisher, delivery.event_id])
    assert order == {f"p{p}": list(range(150)) for p in range(3)}
    stats = broker.stats()
    assert stats.queue_peak <= 7
    assert handle._outbox.peak <= 5
    assert stats.received == stats.events == 450


def test_a_full_queue_makes_publishers_wait_and_says_so_when_time_is_up(make_index: Callable[..., Index]) -> None:
    let_go = threading.Event()
    broker = Broker(make_index(), queue=2, batch=1)
    broker.attach(lambda delivery: let_go.wait(), everything=True, limit=1, when_full="block")
    with broker:
        with pytest.raises(es.QueueFullError, match="the input queue is full"):
            publish_until_full(broker, {"price": 1}, 0.01)
        taken = broker.stats().received
        let_go.set()
        assert broker.drain(30)
        assert broker.stats().delivered == taken


def test_a_broker_gives_what_the_index_gives(make_index: Callable[..., Index]) -> None:
    index = make_index("rein", {n: f"price BETWEEN {n} AND {n + 30} AND symbol != 'S{n % 5}'" for n in range(60)})
    rows = [{"price": (13 * n) % 100, "symbol": f"S{n % 7}"} for n in range(300)]
    expected = index.match_batch(rows)
    sink = MemorySink()
    broker = Broker(index, workers=2, batch=16)
    broker.attach(sink, everything=True)
    with broker:
        for at, row in enumerate(rows[:150]):
            broker.publish(row, id=at)
        broker.publish_batch(rows[150:], ids=range(150, 300))
    assert [each.event_id for each in sink.deliveries] == [at for at in range(300) if expected.of(at)]
    for each in sink.deliveries:
        assert sorted(each.ids) == sorted(expected.of(each.event_id))
        assert each.event == rows[each.event_id]
        assert each.match_modes == ["exact"] * len(each.ids)


def test_behind_a_stuck_delivery_the_ledger_does_not_grow() -> None:
    ledger = Ledger()
    stuck = ledger.enter([Mark("here", "p", 0)])
    for position in range(1, 10_000):
        ledger.settle(ledger.enter([Mark("here", "p", position)]))
    assert len(ledger._open) < 200
    assert ledger.take_safe("here") == {}
    ledger.settle(stuck)
    assert ledger.take_safe("here") == {"p": 9_999}


def test_percentiles_are_right_to_a_bucket() -> None:
    histogram = Histogram()
    histogram.add_many([n / 1000 for n in range(1, 1001)])
    histogram.add(0.0)
    window = histogram.window()
    assert window.percentile(0.5) == pytest.approx(0.5, rel=0.07)
    assert window.percentile(0.99) == pytest.approx(0.99, rel=0.07)
    assert window.mean == pytest.approx(0.5, rel=0.01)
    assert window.deviation == pytest.approx(0.2887, rel=0.01)
    histogram.add_many([2.0] * 10)
    assert histogram.window().since(window).mean == pytest.approx(2.0)
