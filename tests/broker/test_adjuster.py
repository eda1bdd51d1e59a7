"""F follows the time that events wait: up under overload, and back to 0 by itself. No clock but the test's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eventsieve as es
from eventsieve.broker.adjuster import Adjuster
from eventsieve.broker.engine import Engine
from eventsieve.broker.intake import InputQueue
from eventsieve.broker.ledger import Ledger, Mark
from eventsieve.broker.order import InOrder
from eventsieve.broker.outbox import Outbox
from eventsieve.broker.output import MatchedBatch, Output, Target
from eventsieve.broker.parcel import Parcel
from eventsieve.broker.stats import Counters
from eventsieve.broker.transport import Delivery, Message
from eventsieve.broker.worker import Dispatch, Worker
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.index.index import Index
from eventsieve.model.events import Events
from tests.broker.helpers import no_disk

SETTINGS = ElasticSettings.parse("max=20%,step=5%,upper=20ms,lower=15ms,window=10events")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Simulated:
    """A broker in which time passes only where it is told to: so much for each event that is matched."""

    def __init__(self, index: Index, settings: ElasticSettings, seconds_per_event: float) -> None:
        self.clock = Clock()
        self._seconds = seconds_per_event
        self.adjuster = Adjuster(settings, 0.0)
        ledger = Ledger()
        self.queue = InputQueue(10_000)
        self._engine = Engine(index, elastic=settings)
        output = Output(ledger)
        self._outbox = Outbox(ledger, 100_000, "block", no_disk)
        output.add(Target(1, self._outbox, everything=True, batch_ends=False))
        results: InOrder[MatchedBatch] = InOrder(output.release, 10)
        dispatch = Dispatch(self.queue, self._engine, ledger)
        self._worker = Worker(dispatch, self._engine, self.adjuster, results, Counters(), self.clock, 4)
        self._arrived = 0
        self.shares: list[float] = []

    def run(self, events_per_second: float, seconds: float) -> None:
        """Let events arrive at a rate, and match them one small batch after the other."""
        end, next_arrival = self.clock.now + seconds, self.clock.now
        while self.clock.now < end:
            while next_arrival <= self.clock.now:
                self._arrive(next_arrival)
                next_arrival += 1.0 / events_per_second
            before = len(self.queue)
            if self._worker.step(0.0):
                self.clock.now += self._seconds * (before - len(self.queue))
            else:
                self.clock.now = min(end, next_arrival)
            self.shares.append(self.adjuster.false_positive)

    def idle(self, seconds: float) -> None:
        """Let time pass with nothing coming in."""
        while self._worker.step(0.0):
            self.clock.now += self._seconds
        self.clock.now += seconds
        self._worker.step(0.0)

    def deliveries(self) -> list[Delivery]:
        return [entry.delivery for entry in self._outbox.take(100_000, 0.0) if entry.delivery is not None]

    def _arrive(self, at: float) -> None:
        n, self._arrived = self._arrived, self._arrived + 1
        row = {"price": n % 100, "volume": (17 * n) % 1000}
        events = Events.from_dicts(self._engine.schema, [row])
        self.queue.reserve(1, 0.0)
        self.queue.put_reserved(Parcel([Message(row, "p", n)], [n], events, at, Mark("here", "p", n)))


@pytest.fixture
def elastic_index(make_index: Callable[..., Index]) -> Index:
    filters = {n: f"price BETWEEN {n % 50} AND {n % 50 + 40} AND volume < {900 - n % 7}" for n in range(300)}
    # The paper's budget skips by count, so something is skipped however small the index is.
    return make_index("wpa-rein", filters, ladder=SETTINGS.ladder, budget="paper")


def test_f_rises_under_overload_and_comes_back_to_zero(elastic_index: Index) -> None:
    broker = Simulated(elastic_index, SETTINGS, seconds_per_event=0.010)
    broker.run(events_per_second=50, seconds=2)
    assert set(broker.shares) == {0.0}
    broker.run(events_per_second=300, seconds=2)
    assert max(broker.shares) == 0.2
    broker.run(events_per_second=20, seconds=30)
    assert broker.adjuster.false_positive == 0.0
    steps = {round(abs(after - before), 6) for before, after in zip(broker.shares, broker.shares[1:], strict=False)}
    assert steps == {0.0, 0.05}


def test_f_comes_back_when_nothing_arrives_any_more(elastic_index: Index) -> None:
    broker = Simulated(elastic_index, SETTINGS, seconds_per_event=0.010)
    broker.run(events_per_second=300, seconds=2)
    assert broker.adjuster.false_positive > 0.0
    broker.idle(seconds=5.0)
    assert broker.adjuster.false_positive == 0.0


def test_every_delivery_says_how_exact_it_is_and_none_is_lost(elastic_index: Index) -> None:
    broker = Simulated(elastic_index, SETTINGS, seconds_per_event=0.010)
    broker.run(events_per_second=300, seconds=2)
    broker.idle(0.0)
    seen = set()
    for delivery in broker.deliveries():
        true = set(elastic_index.match(delivery.event))
        assert true <= set(delivery.ids)
        certain = {id for id, mode in zip(delivery.ids, delivery.match_modes, strict=True) if mode == "exact"}
        assert certain <= true
        assert (delivery.false_positive > 0.0) == ("approximate" in delivery.match_modes)
        seen |= set(delivery.match_modes)
    assert seen == {"exact", "approximate"}


def test_a_window_of_time_counts_whatever_came_in_it() -> None:
    adjuster = Adjuster(ElasticSettings.parse("max=2%,step=1%,upper=20ms,lower=15ms,window=1s"), now=0.0)
    adjuster.observe(waited=9.0, events=3, now=0.5)
    assert adjuster.false_positive == 0.0
    adjuster.observe(waited=9.0, events=3, now=1.0)
    assert adjuster.false_positive == 0.01


def test_f_takes_the_rungs_that_plans_are_prepared_for() -> None:
    settings = ElasticSettings.parse("max=1%,step=0.01%,window=1events")
    adjuster = Adjuster(settings, now=0.0)
    for n in range(1, 101):
        adjuster.observe(waited=float(n), events=1, now=float(n))
        assert adjuster.false_positive in (0.0, *settings.ladder)
    assert adjuster.false_positive == 0.01


def test_off_stays_off() -> None:
    adjuster = Adjuster(OFF, now=0.0)
    adjuster.observe(waited=100.0, events=1, now=100.0)
    adjuster.idle(now=200.0)
    assert adjuster.false_positive == 0.0


def test_an_exact_matcher_cannot_give_way(make_index: Callable[..., Index]) -> None:
    with pytest.raises(es.MatcherError, match=r"matcher 'simple' is exact and cannot give way.*spare-rein"):
        Engine(make_index(), elastic=SETTINGS)


@pytest.mark.parametrize("matcher", ["ada-rein", "wpa-rein", "spare-rein"])
def test_plans_are_there_before_the_load(make_index: Callable[..., Index], matcher: str) -> None:
    index = make_index(matcher, ladder=SETTINGS.ladder)
    Engine(index, elastic=SETTINGS)
    # A plan for exact matching may be among them: whether one is kept depends on what it was timed at.
    assert {float(rung) for rung in index.describe()["plans"]} - {0.0} == set(SETTINGS.ladder)
