"""Trials on samples: what they extrapolate, with a clock that is wound by hand."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve.errors import MatcherError
from eventsieve.planner.drawn_events import draw_events
from eventsieve.planner.memory import default_budget, read_memory
from eventsieve.planner.trial import BATCH, SINGLE_EVENTS, Bench, is_compiled
from eventsieve.workload import standard

WORKLOAD = standard("bop", n=1024)
SUBS = WORKLOAD.subscriptions(seed=1)
EVENTS = draw_events(SUBS.table(), SUBS.domains(), BATCH)


class Clock:
    """The first index that is timed takes one number of seconds for everything, the next one another."""

    def __init__(self, steps: list[float]) -> None:
        self.steps, self.readings = steps, 0

    def __call__(self) -> float:
        turn = self.readings // (2 * (SINGLE_EVENTS + 1))
        self.readings += 1
        return self.steps[turn % len(self.steps)] if self.readings % 2 == 0 else 0.0


def test_times_grow_along_the_line_through_two_samples() -> None:
    """256 clauses take 1 ms and 1,024 take 2: ten times as many again take 14."""
    bench = Bench(SUBS.table(), 10_240, SUBS.domains(), EVENTS, timer=Clock([1e-3, 2e-3]))
    (cost,) = bench.costs([("simple", {})])
    assert cost.single_ms == pytest.approx(2 + 9216 / 768)


def test_all_clauses_need_no_extrapolation() -> None:
    bench = Bench(SUBS.table(), 1024, SUBS.domains(), EVENTS, timer=Clock([3e-3, 5e-3]))
    one, other = bench.costs([("simple", {}), ("be-tree", {})])
    assert (one.single_ms, other.single_ms) == pytest.approx((3, 5))
    assert one.batch_ms == pytest.approx(3 / BATCH)


@pytest.mark.parametrize(("matcher", "as_single"), [("simple", True), ("sieve", False)])
def test_every_event_of_a_batch_finds_a_large_index_cold(matcher: str, as_single: bool) -> None:
    """Where events go through it one by one. Where they share the work, a batch grows as batches do."""
    n_clauses = 10_000_000
    bench = Bench(SUBS.table(), n_clauses, SUBS.domains(), EVENTS, timer=Clock([1e-3, 2e-3]))
    (cost,) = bench.costs([(matcher, {})])
    growth = (n_clauses - 1024) / 768
    assert cost.single_ms == pytest.approx(2 + growth)
    assert cost.batch_ms == pytest.approx(2 / BATCH + (growth if as_single else growth / BATCH))


@pytest.mark.parametrize("matcher", ["simple", "sieve", "be-tree", "gem-tree", "h-tree", "tama-o"])
def test_memory_is_predicted_tightly_and_from_above(matcher: str) -> None:
    from eventsieve.matchers.registry import make_matcher

    subs = standard("bop", n=40_000).subscriptions(seed=2)
    table = subs.table()
    sample = table._replace(start=table.start[::4], stop=table.stop[::4])
    (cost,) = Bench(sample, 40_000, subs.domains(), EVENTS).costs([(matcher, {})])
    built = make_matcher(matcher)
    built.build(table, subs.domains())
    size = sum(array.nbytes for array in built.arrays().values())
    assert size <= cost.matcher_bytes <= 1.35 * size


def test_drawn_events_lie_in_the_domains_and_are_the_same_every_time() -> None:
    subs = standard("ticks", n=500).subscriptions(seed=1)
    events = draw_events(subs.table(), subs.domains(), 64)
    again = draw_events(subs.table(), subs.domains(), 64)
    assert all(np.array_equal(one, other) for one, other in zip(events, again, strict=True))
    assert np.all(events.value >= subs.domains().low[events.attribute])
    assert np.all(events.value <= subs.domains().high[events.attribute])
    assert np.array_equal(np.diff(events.start)[::2], np.full(32, len(subs.schema)))
    assert np.diff(events.start)[1::2].max() < len(subs.schema)


@pytest.mark.parametrize(
    ("given", "expected"), [("2GB", 2 * 10**9), ("1.5 gib", 3 * 2**29), ("300m", 300 * 10**6), (4096, 4096)]
)
def test_memory_is_read_with_units(given: str | int, expected: int) -> None:
    assert read_memory(given) == expected


@pytest.mark.parametrize("given", ["much", "-1GB", 0, True, "2 bytes"])
def test_other_memory_is_refused(given: object) -> None:
    with pytest.raises(MatcherError, match="memory is a number of bytes or a text like '2GB'"):
        read_memory(given)


def test_the_default_budget_is_a_part_of_the_machine() -> None:
    assert 10**7 < default_budget() < 10**15


def test_a_matcher_that_has_run_is_known_to_be_compiled() -> None:
    Bench(SUBS.table(), 1024, SUBS.domains(), EVENTS).costs([("sieve", {})])
    assert is_compiled("sieve")
