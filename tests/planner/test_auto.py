"""`matcher="auto"` from outside: whatever it chooses, answers are right, the budget holds, and it can say why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eventsieve as es
from eventsieve.index import automatic
from eventsieve.planner import Plan
from eventsieve.planner.plan import Candidate
from eventsieve.workload import standard

TICKS = standard("ticks", n=3000)


def test_auto_is_the_default_and_answers_like_a_scan(tmp_path: Path) -> None:
    subs, events = TICKS.subscriptions(seed=1), TICKS.events(50, seed=2)
    index = es.build(subs, events=events)
    scan = es.build(subs, matcher="simple").match_batch(events)
    assert [sorted(ids) for ids in index.match_batch(events)] == [sorted(ids) for ids in scan]
    why = index.why()
    assert why.chosen.matcher == index.matcher.name
    assert "given events" in why.based_on
    index.save(tmp_path / "snapshot")
    assert es.load(tmp_path / "snapshot").why() == why


def test_why_after_naming_a_matcher_says_so() -> None:
    index = es.build(TICKS.subscriptions(seed=1), matcher="rein", buckets=10)
    assert "asked for by name" in str(index.why())
    assert index.why().chosen.params["buckets"] == 10


def test_changes_leave_the_choice_as_it_is() -> None:
    subs = es.Subscriptions(es.Schema({"x": es.Float(0, 1)}))
    subs.add("a", "x > 0.5")
    index = es.build(subs)
    before = index.why()
    index.add("b", "x < 0.1")
    assert index.why() == before
    assert index.match({"x": 0.05}) == ["b"]


@pytest.mark.parametrize("memory", [900_000, 1_500_000, 4_000_000])
def test_the_budget_holds(memory: int) -> None:
    subs = standard("bop", n=4000).subscriptions(seed=1)
    assert es.build(subs, memory=memory).describe()["index_bytes"] <= memory


def test_a_built_index_beyond_the_budget_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions can fail; what counts is what was built."""
    wrong = (
        Candidate("sieve", index_bytes=1, basis="timed", verdict="taken"),
        Candidate("simple", index_bytes=1, basis="timed", verdict="slower: 9 times the best"),
    )
    subs = standard("bop", n=4000).subscriptions(seed=1)
    monkeypatch.setattr("eventsieve.index.index.choose", lambda *_, **__: Plan(4000, 900_000, None, "a guess", wrong))
    index = es.build(subs)
    assert index.matcher.name == "simple"
    assert "too large: built, it takes" in index.why().candidates[-1].verdict
    monkeypatch.setattr("eventsieve.index.index.choose", lambda *_, **__: Plan(4000, 1000, None, "a guess", wrong))
    with pytest.raises(es.MatcherError, match="no smaller matcher is left; allow more memory"):
        es.build(subs)


def test_elastic_matching_can_be_planned_for() -> None:
    index = es.build(standard("bop", n=2000).subscriptions(seed=1), false_positive=0.01)
    assert index.matcher.capabilities.elastic
    assert index.skip_plan(0.01).asked == 0.01


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"buckets": 5}, "'auto' takes no parameter 'buckets'"),
        ({"memory": "lots"}, "memory is a number of bytes"),
        ({"batch": 0}, "batch is the number of events"),
    ],
)
def test_wrong_wishes_are_refused(wish: dict[str, object], says: str) -> None:
    with pytest.raises(es.MatcherError, match=says):
        es.build(TICKS.subscriptions(seed=1), **wish)


def test_a_sample_stands_for_many() -> None:
    """A cluster plans from some of its subscriptions, for one of several parts."""
    plan = automatic.plan_for(TICKS.subscriptions(seed=1), {"memory": "8GB"}, n_parts=4, n_clauses=2_000_000)
    assert plan.n_clauses == 500_000
    assert plan.memory == 2 * 10**9
    assert "3,000 of them" in plan.based_on
    assert np.isfinite(plan.chosen.single_ms or np.nan)
