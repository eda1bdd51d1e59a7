"""Subscribers: live changes, slow ones and failing ones, callbacks, async iterators, other brokers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.broker import AsyncDeliveries, Broker, Delivery, Message, NextHop
from eventsieve.broker.ledger import Ledger, Mark
from eventsieve.broker.memory import MemorySink
from eventsieve.broker.outbox import Entry, Outbox
from eventsieve.broker.spill import Spill
from eventsieve.broker.transport import Positions
from eventsieve.index.index import Index
from tests.broker.helpers import publish_until_full


class Expecting(MemorySink):
    """A sink that says when it has got as much as is expected."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.complete = threading.Event()
        self._n = n

    def flush(self) -> None:
        if len(self.deliveries) >= self._n:
            self.complete.set()


def test_a_subscription_is_in_force_for_what_is_published_after_it(make_index: Callable[..., Index]) -> None:
    got: list[tuple[Any, list[Any], int]] = []
    with Broker(make_index(filters={}), workers=2) as broker:
        alice = broker.attach(lambda each: got.append((each.event_id, each.ids, each.version)), name="alice")
        broker.publish({"price": 5}, id="before")
        broker.drain()  # what still waits is matched with whatever is in force then
        alice.subscribe("cheap", "price < 10")
        broker.publish({"price": 5}, id="while")
        broker.drain()
        alice.subscribe("cheaper", "price < 6")
        broker.publish({"price": 5}, id="both")
        broker.drain()
        alice.unsubscribe("cheap")
        broker.publish({"price": 5}, id="one")
        broker.drain()
        alice.unsubscribe("cheaper")
        broker.publish({"price": 5}, id="none")
    assert got == [("while", ["cheap"], 1), ("both", ["cheap", "cheaper"], 2), ("one", ["cheaper"], 3)]


def test_a_bad_filter_changes_nothing(make_index: Callable[..., Index]) -> None:
    with Broker(make_index(filters={})) as broker:
        alice = broker.attach(lambda each: None)
        with pytest.raises(es.FilterError):
            alice.subscribe("x", "prise < 10")
        assert broker.stats().version == 0


def test_changes_while_events_pour_in_leave_versions_in_order(make_index: Callable[..., Index]) -> None:
    sink = MemorySink()
    broker = Broker(make_index(filters={"all": "price >= 0"}), workers=3, batch=2, queue=16)
    broker.attach(sink, everything=True)
    alice = broker.attach(lambda each: None, name="alice")

    def change() -> None:
        for round in range(40):
            alice.subscribe(f"s{round}", "price > 50")
            alice.unsubscribe(f"s{round}")

    with broker:
        thread = threading.Thread(target=change)
        thread.start()
        for n in range(400):
            broker.publish({"price": 60}, id=n)
        thread.join()
    versions = [each.version for each in sink.deliveries]
    assert versions == sorted(versions)
    # An odd version is one with a subscription more, and only then it is reported.
    assert all(len(each.ids) == 1 + each.version % 2 for each in sink.deliveries)
    assert broker.stats().version == 80


def test_each_subscriber_gets_its_own_and_once_per_event(make_index: Callable[..., Index]) -> None:
    got: dict[str, list[Any]] = {"alice": [], "bob": []}
    filters = {"a1": "price < 50", "a2": "price < 30", "b": "price > 20", "nobody": "price >= 0"}
    broker = Broker(make_index(filters=filters))
    broker.attach(lambda each: got["alice"].append((each.event_id, sorted(each.ids))), subscriptions=["a1", "a2"])
    broker.attach(lambda each: got["bob"].append((each.event_id, each.ids)), subscriptions=["b"])
    with broker:
        broker.publish_batch([{"price": 10}, {"price": 40}, {"price": 90}])
    assert got == {"alice": [(0, ["a1", "a2"]), (1, ["a1"])], "bob": [(1, ["b"]), (2, ["b"])]}


@pytest.mark.parametrize("when_full", ["spill", "disconnect"])
def test_a_slow_subscriber_does_not_stop_the_others(make_index: Callable[..., Index], when_full: Any) -> None:
    let_go = threading.Event()
    slow: list[Any] = []

    def dawdle(delivery: Delivery) -> None:
        let_go.wait()
        slow.append(delivery.event_id)

    quick = Expecting(200)
    broker = Broker(make_index(), queue=10, batch=4)
    lame = broker.attach(dawdle, everything=True, limit=3, when_full=when_full, name="lame")
    broker.attach(quick, everything=True, limit=3, when_full="block", name="quick")
    with broker:
        for n in range(200):
            broker.publish({"price": n % 100, "symbol": "S"}, id=n, timeout=30)
        assert quick.complete.wait(30)
        assert [each.event_id for each in quick.deliveries] == list(range(200))
        assert slow == []
        assert lame._outbox.peak <= 3
        let_go.set()
        assert broker.drain(30)
    if when_full == "spill":
        assert slow == list(range(200))
        assert lame.stats().undelivered == 0
    else:
        assert "slow" in (lame.closed_because or "")
        assert lame.stats().delivered + lame.stats().undelivered >= 1
        assert len(slow) <= 1  # what it had in hand


def test_what_went_over_disk_is_the_same(make_index: Callable[..., Index]) -> None:
    let_go = threading.Event()
    got: list[Delivery] = []

    def keep(delivery: Delivery) -> None:
        let_go.wait()
        got.append(delivery)

    broker = Broker(make_index(filters={7: "price < 50", "text": "symbol = 'ü'"}))
    broker.attach(keep, everything=True, limit=1)
    with broker:
        for n in range(20):
            broker.publish(
                {"price": n, "symbol": "ü"},
                id=f"e{n}",
                publisher="p",
                key=b"\x00k",
                headers=(("h", b"\xff"),),
                timestamp=1.5,
            )
        let_go.set()
    assert [each.event_id for each in got] == [f"e{n}" for n in range(20)]
    for n, each in enumerate(got):
        assert each.event == {"price": n, "symbol": "ü"}
        assert sorted(each.ids, key=str) == [7, "text"]
        assert each.message[1:] == ("p", n, f"e{n}", b"\x00k", (("h", b"\xff"),), 1.5)


def test_a_spilled_backlog_is_bounded_and_then_publishers_wait(
    make_index: Callable[..., Index], tmp_path: Path
) -> None:
    let_go = threading.Event()
    got: list[Any] = []

    def dawdle(delivery: Delivery) -> None:
        let_go.wait()
        got.append(delivery.event_id)

    broker = Broker(make_index(), queue=4, batch=2, state=tmp_path, fsync=False)
    broker.attach(dawdle, everything=True, limit=2, disk_limit=4_000, name="lame")
    with broker:
        with pytest.raises(es.QueueFullError):
            publish_until_full(broker, {"price": 1}, 0.2)
        taken = broker.stats().received
        folder = tmp_path / "subscribers" / "lame"
        assert sum(path.stat().st_size for path in folder.glob("*.log")) < 6_000
        let_go.set()
        assert broker.drain(30)
    assert got == list(range(taken))


def test_what_a_subscriber_refuses_is_given_again(make_index: Callable[..., Index]) -> None:
    attempts: list[Any] = []

    def moody(delivery: Delivery) -> None:
        attempts.append(delivery.event_id)
        if len(attempts) == 1:
            raise RuntimeError("not now")

    with Broker(make_index()) as broker:
        broker.attach(moody, everything=True)
        for n in range(3):
            broker.publish({"price": 1}, id=n)
    assert attempts == [0, 0, 1, 2]


def test_a_subscriber_that_keeps_refusing_is_disconnected_or_stops_the_broker(
    make_index: Callable[..., Index],
) -> None:
    def never(delivery: Delivery) -> None:
        raise RuntimeError("never")

    with Broker(make_index()) as broker:
        sulky = broker.attach(never, everything=True, retries=0)
        broker.publish({"price": 1})
        assert broker.drain(30)
        assert sulky.closed_because == "it did not take its deliveries: never"
        assert sulky.stats().undelivered == 1
    broker = Broker(make_index())
    broker.attach(never, everything=True, retries=0, when_refused="stop", name="sulky")
    broker.start()
    broker.publish({"price": 1})
    assert not broker.drain(30)
    with pytest.raises(es.BrokerError, match="'sulky' did not take its deliveries: never"):
        broker.publish({"price": 1})
    with pytest.raises(es.BrokerError, match="never"):
        broker.stop()


def test_an_async_iterator_acknowledges_by_asking_for_more(make_index: Callable[..., Index]) -> None:
    async def read() -> list[Any]:
        deliveries = AsyncDeliveries()
        broker = Broker(make_index())
        alice = broker.attach(deliveries, everything=True)
        broker.start()
        for n in range(10):
            broker.publish({"price": 1}, id=n)
        got = []
        async for delivery in deliveries:
            got.append(delivery.event_id)
            if len(got) == 10:
                assert alice.backlog >= 1  # the last one is not acknowledged yet
                break
        stopped = asyncio.get_running_loop().run_in_executor(None, broker.stop)
        async for delivery in deliveries:
            got.append(delivery.event_id)
        await stopped
        return got

    assert asyncio.run(read()) == list(range(10))


def test_a_reader_that_has_gone_does_not_keep_the_broker_from_stopping(make_index: Callable[..., Index]) -> None:
    async def read() -> None:
        deliveries = AsyncDeliveries()
        broker = Broker(make_index())
        broker.attach(deliveries, everything=True)
        broker.start()
        broker.publish({"price": 1})
        await deliveries.__anext__()
        await asyncio.get_running_loop().run_in_executor(None, lambda: broker.stop(timeout=0.1))

    asyncio.run(read())


def test_brokers_form_a_chain_with_ids_and_backpressure(make_index: Callable[..., Index]) -> None:
    let_go = threading.Event()
    got: list[Any] = []

    def last(delivery: Delivery) -> None:
        let_go.wait()
        got.append((delivery.message.publisher, delivery.event_id, delivery.ids))

    second = Broker(make_index(filters={"mid": "price > 20"}), queue=2, batch=1)
    second.attach(last, everything=True, limit=1, when_full="block")
    first = Broker(make_index(filters={"low": "price < 50"}), queue=2, batch=1)
    first.attach(NextHop(second), everything=True, limit=1, when_full="block")
    with second, first:
        with pytest.raises(es.QueueFullError):
            publish_until_full(first, {"price": 30}, 0.05)
        taken = first.stats().received
        let_go.set()
        first.publish({"price": 10}, publisher="p", id="for nobody behind")
        first.publish({"price": 60}, publisher="p", id="for nobody here")
        first.publish({"price": 40}, publisher="p", id="end")
        assert first.drain(30)
    assert got == [("p", n, ["mid"]) for n in [*range(taken), "end"]]


def test_a_transactional_sink_gets_positions_with_what_was_sent(make_index: Callable[..., Index]) -> None:
    from eventsieve.broker.memory import MemorySource

    class Transactions(MemorySink):
        def __init__(self) -> None:
            super().__init__()
            self.commits: list[tuple[int, dict[str, int]]] = []

        def commit_with(self, positions: Positions) -> None:
            self.commits.append((len(self.deliveries), dict(positions)))

    source, sink = MemorySource(), Transactions()
    for n in range(10):
        source.feed({"price": 10 if n % 2 else 90}, publisher="p")
    broker = Broker(make_index(filters={"low": "price < 50"}), sources=[source], batch=2)
    broker.attach(sink)
    with pytest.raises(es.BrokerError, match="only subscriber"):
        broker.attach(lambda each: None)
    broker.start()
    source.end()
    assert broker.wait(30)
    broker.stop()
    assert source.committed == {}  # the sink has it
    assert sink.commits[-1] == (5, {"p": 9})
    for n_sent, positions in sink.commits:
        assert n_sent == (positions["p"] + 1) // 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 6)),
        st.tuples(st.just("take and acknowledge"), st.integers(1, 5)),
        st.tuples(st.just("take, put, acknowledge"), st.integers(1, 5)),
    ),
    max_size=40,
)


@given(steps=STEPS, limit=st.integers(1, 6), durable=st.booleans())
def test_an_outbox_gives_what_it_got_in_order_over_memory_disk_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], limit: int, durable: bool
) -> None:
    folder = tmp_path_factory.mktemp("outbox") / "backlog"
    ledger = Ledger()

    def opened() -> Spill:
        return Spill(folder, 1 << 20, durable, lambda: 0.0)

    outbox = Outbox(ledger, limit, "spill", opened, durable=durable)
    sent = count()
    got: list[Any] = []

    def put(n: int) -> None:
        receipt = ledger.enter([Mark("here", "p", 0)])
        ledger.expect(receipt, n)
        outbox.put([Entry(delivery(next(sent)), receipt) for _ in range(n)])
        ledger.settle(receipt)
        assert len(outbox) == outbox.spilled + len(outbox._entries)

    for what, n in steps:
        if what == "put":
            put(n)
            continue
        taken = outbox.take(n, 0.0)
        if what == "take, put, acknowledge":
            put(n)
        got += [each.delivery.event_id for each in taken if each.delivery is not None]
        outbox.acknowledge(len(taken))
        assert outbox.peak <= limit
    if durable:
        outbox.close("stopped", settle=False)
        assert len(ledger) == 0  # the disk has what is left
        outbox = Outbox(ledger, limit, "spill", opened, durable=True)
        if folder.exists():
            outbox.resume(opened())
    while taken := outbox.take(3, 0.0):
        got += [each.delivery.event_id for each in taken if each.delivery is not None]
        outbox.acknowledge(len(taken))
    assert got == list(range(next(sent)))
    assert len(ledger) == 0
    outbox.close("done")
    assert not folder.exists()


def delivery(n: int) -> Delivery:
    return Delivery(Message({"price": n}, "p", n), n, np.array([n]), None, 0, 0.0, 0.0)
