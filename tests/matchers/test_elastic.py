"""Elastic matching through the index: nothing is lost, the bound holds, and what may be false is labelled so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.elastic.cost import UnitCosts
from eventsieve.matchers.near_misses import near_misses
from eventsieve.matchers.registry import elastic_matchers
from eventsieve.matchers.rein_costs import measured_costs
from eventsieve.matchers.spare_rein import SpareRein
from eventsieve.workload import Workload, standard
from tests.conformance.test_arrays import Workload as Awkward
from tests.conformance.test_arrays import pairs, part

ELASTIC = ["ada-rein", "wpa-rein", "spare-rein"]
LADDER = (0.001, 0.01, 0.05, 0.2, 0.6, 0.9)


def test_these_are_all_elastic_matchers() -> None:
    assert sorted(elastic_matchers()) == sorted(ELASTIC)


def prefer_rows(index: es.Index, patched: pytest.MonkeyPatch) -> None:
    """Make Spare-REIN take rows however few predicates a list has: as if rows and checks cost nothing."""
    patched.setattr(SpareRein, "least_in_rows", 1)
    index.matcher.unit_costs = UnitCosts(row=0.0, check=0.0)  # type: ignore[attr-defined]  # this matcher has it


def approximate_pairs(matches: es.Matches) -> set[tuple[int, int]]:
    chosen = matches.match_mode == "approximate"
    return set(zip(matches.event[chosen].tolist(), matches.ids[chosen].tolist(), strict=True))


@pytest.mark.parametrize("matcher", ELASTIC)
@given(
    seed=st.integers(0, 1 << 20),
    share=st.sampled_from(LADDER),
    budget=st.sampled_from(["additive", "paper"]),
    learned=st.booleans(),
)
def test_no_match_is_ever_lost_and_what_is_called_exact_is(
    matcher: str, seed: int, share: float, budget: str, learned: bool
) -> None:
    """Sparse events, open sides, values outside the domain, clauses that come and go while plans are in force."""
    workload = Awkward(90, 25, seed)
    params: dict[str, Any] = {} if matcher == "spare-rein" else {"budget": budget}
    index = es.build(part(workload, np.arange(60)), matcher=matcher, ladder=LADDER, buckets=7, **params)
    if learned:
        index.learn(workload.events())
    if matcher == "spare-rein" and budget == "paper":  # which it does not know: the other half of the cases has rows
        with pytest.MonkeyPatch.context() as patched:
            prefer_rows(index, patched)
            index.skip_plan(share)
    for turn in range(3):
        if turn == 1:
            index.extend(part(workload, np.arange(60, 90)))
        if turn == 2:
            index.remove_many(list(range(0, 90, 4)))
            index.extend(part(workload, np.arange(0, 90, 8)))
        there = set(index.subscriptions.ids)
        truth = {(e, s) for e, s in workload.truth() if s in there}
        found = index.match_batch(workload.events(), false_positive=share)
        assert pairs(found) >= truth
        assert pairs(found) - approximate_pairs(found) <= truth
        verified = index.match_batch(workload.events(), false_positive=share, verify=True)
        assert pairs(verified) == truth
        assert not verified.approximate
        assert pairs(index.match_batch(workload.events())) == truth


@given(seed=st.integers(0, 1 << 20), learned=st.booleans(), rows=st.booleans(), buckets=st.sampled_from([1, 7, 40]))
def test_exact_matching_by_checks_afterwards_is_exact(seed: int, learned: bool, rows: bool, buckets: int) -> None:
    """Spare-REIN's plan for F = 0, while clauses come and go and their slots are used again."""
    workload = Awkward(90, 25, seed)
    index = es.build(part(workload, np.arange(60)), matcher="spare-rein", buckets=buckets)
    if learned:
        index.learn(workload.events())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SpareRein, "_is_quicker", lambda self, lists: True)
        if rows:
            prefer_rows(index, patched)
        plan = index.skip_plan(0.0)
    assert plan.expected_false == plan.touched.size == 0
    for turn in range(3):
        if turn == 1:
            index.extend(part(workload, np.arange(60, 90)))
        if turn == 2:
            index.remove_many(list(range(0, 90, 4)))
            index.extend(part(workload, np.arange(0, 90, 8)))
        there = set(index.subscriptions.ids)
        truth = {(e, s) for e, s in workload.truth() if s in there}
        for threads in (1, 3):
            found = index.match_batch(workload.events(), threads=threads)
            assert pairs(found) == truth
            assert not found.approximate


def test_exact_matching_by_checks_is_kept_only_where_it_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    index = es.build(paper(n=4000).subscriptions(seed=1), matcher="spare-rein")
    events = paper(n=4000).events(20, seed=2)
    truth = pairs(index.match_batch(events))
    monkeypatch.setattr(SpareRein, "_is_quicker", lambda self, lists: False)
    assert index.skip_plan(0.0).skipped == 0
    assert index.describe()["plans"] == {}
    monkeypatch.setattr(SpareRein, "_is_quicker", lambda self, lists: True)
    plan = index.skip_plan(0.0)
    assert plan.skipped > 2000
    assert plan.checked > 1000
    assert "have their matches checked again, and stay exact" in str(plan)
    assert set(index.describe()["plans"]) == {"0"}
    assert pairs(index.match_batch(events)) == truth


def paper(n: int = 20_000, **settings: Any) -> Workload:
    """The setting of Table 3, smaller."""
    return standard("eem", n=n, d=60, m=60, attribute_skew=2, **settings)


@pytest.mark.parametrize("width", ["0..1", 0.5], ids=["widths vary", "one width"])
@pytest.mark.parametrize("matcher", ELASTIC)
def test_the_measured_share_stays_at_or_under_f(matcher: str, width: float | str) -> None:
    workload = paper(width=width)
    events = workload.events(2000, seed=2)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    true = index.match_batch(events).slots.size
    shares = []
    for share in index.matcher.params["ladder"]:
        shares.append(1 - true / index.match_batch(events, false_positive=share).slots.size)
        assert shares[-1] <= share
    assert shares[-1] > 0.01, "the bound is kept by skipping, not by doing nothing"


@pytest.mark.parametrize("matcher", ["ada-rein", "wpa-rein"])
def test_the_budget_of_the_paper_does_not_keep_the_promise(matcher: str) -> None:
    """Why it is not the default: predicates are counted, whoever they belong to."""
    workload = paper()
    events = workload.events(200, seed=2)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher, budget="paper")
    true = index.match_batch(events).slots.size
    assert 1 - true / index.match_batch(events, false_positive=0.05).slots.size > 0.05
    plan = index.skip_plan(0.05)
    assert plan.skipped <= plan.paper_skippable


@pytest.mark.parametrize("matcher", ELASTIC)
def test_events_that_lack_attributes_keep_the_bound(matcher: str) -> None:
    """A skipped predicate still asks that its attribute is there, so widths alone tell the share."""
    workload = standard("bop", n=20_000, d=12, k=3, m=7, width="0..1")
    events = workload.events(400, seed=2)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    true = index.match_batch(events).slots.size
    assert 1 - true / index.match_batch(events, false_positive=0.05).slots.size <= 0.05


def correlated(n_events: int, seed: int) -> list[dict[str, float]]:
    """Events whose attributes say the same thing: every product of matchabilities is wrong."""
    level = np.random.default_rng(seed).random(n_events) ** 3
    return [{f"a{a}": float(value) for a in range(6)} for value in level]


@pytest.mark.parametrize("matcher", ["wpa-rein", "spare-rein"])
def test_a_plan_is_tried_on_the_event_sample_and_cut_back(matcher: str) -> None:
    workload = Workload("correlated", n=5000, d=6, k=3, m=6, width="0..1")
    events = correlated(300, seed=4)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    index.learn(correlated(600, seed=5))
    plan = index.skip_plan(0.01)
    assert plan.measured_share is not None
    assert plan.measured_share <= 0.01
    assert plan.skipped, "the sample leaves something to skip"
    true = index.match_batch(events).slots.size
    assert 1 - true / index.match_batch(events, false_positive=0.01).slots.size <= 0.01


@pytest.mark.parametrize("matcher", ELASTIC)
def test_every_event_has_its_own_f(matcher: str) -> None:
    workload = paper(n=4000)
    events = workload.events(12, seed=3)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    shares = np.array([0.0, 0.05, 0.05, 0.01, 0.0, 0.0, 0.03, 0.05, 0.0, 0.004, 0.0005, 0.05])
    mixed = index.match_batch(events, false_positive=shares, threads=2)
    for share in set(shares.tolist()):
        alone = index.match_batch(events, false_positive=share)
        for e in np.flatnonzero(shares == share).tolist():
            assert mixed.of(e) == alone.of(e)
    modes = mixed.match_mode
    for e in np.flatnonzero(shares < 0.001).tolist():
        assert set(modes[mixed.event_start[e] : mixed.event_start[e + 1]]) == {"exact"}


def test_equal_subscriptions_are_not_indexed_once_where_reports_are_counted() -> None:
    """A false match of a clause that a thousand subscriptions share would be a thousand false matches."""
    schema = es.Schema({"x": es.Float(0, 1), "y": es.Float(0, 1)})
    subs = es.Subscriptions(schema)
    for id in range(3000):
        subs.add(id, f"x < 0.{id % 3 + 1} AND y < 0.9")
    assert es.build(subs, matcher="rein").sharing is not None
    assert es.build(subs, matcher="wpa-rein").sharing is None


def test_f_between_rungs_takes_the_rung_below() -> None:
    index = es.build(paper(n=4000).subscriptions(seed=1), matcher="ada-rein")
    plan = index.skip_plan(0.02)
    assert (plan.asked, plan.false_positive) == (0.02, 0.01)
    assert index.skip_plan(0.0009).skipped == 0
    assert str(index.skip_plan(0.0)) == "F = 0.0000%: nothing is skipped, matching is exact"


@pytest.mark.parametrize("matcher", ELASTIC)
def test_a_plan_says_whom_it_touches_and_the_others_stay_exact(matcher: str) -> None:
    workload = paper(n=4000)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher)
    plan = index.skip_plan(0.05)
    assert plan.skipped == sum(left_out for left_out, _ in plan.skipped_of_attribute.values())
    assert plan.skipped == sum(plan.skipped_of_class)
    assert set(plan.skipped_of_attribute) <= set(index.schema)
    assert 0 < plan.touched.size < 4000
    assert ((plan.may_see > 0) & (plan.may_see < 1)).all()
    assert 0 < plan.expected_false <= plan.allowed
    assert 0 < plan.gain < 1
    found = index.match_batch(workload.events(50, seed=2), false_positive=0.05)
    labelled = found.match_mode == "approximate"
    assert set(found.ids[labelled].tolist()) <= set(plan.touched.tolist())
    assert not set(found.ids[~labelled].tolist()) & set(plan.touched.tolist())
    text = str(plan)
    assert "predicates" in text
    assert "of the matching time expected" in text


@pytest.mark.parametrize("matcher", ELASTIC)
def test_predicates_marked_exact_are_never_skipped(matcher: str) -> None:
    workload = paper(n=4000)
    index = es.build(workload.subscriptions(seed=1), matcher=matcher, exact=("a0", "a55"))
    plan = index.skip_plan(0.05)
    assert plan.skipped
    assert not {"a0", "a55"} & set(plan.skipped_of_attribute)
    assert es.build(workload.subscriptions(seed=1), matcher=matcher, exact="a0 a55").matcher.params["exact"] == (0, 55)


def test_a_match_is_exact_when_one_of_its_clauses_is() -> None:
    """Alternatives of one subscription are clauses: a plan can touch one of them and leave the other alone."""
    schema = es.Schema({name: es.Float(0, 1) for name in "xyz"})
    subs = es.Subscriptions(schema)
    subs.add("both", "(x < 0.1 AND y < 0.1 AND z < 0.9) OR x BETWEEN 0.05 AND 0.08")
    subs.add("always", "TRUE")
    for number in range(50):
        subs.add(number, "x < 0.5")
    index = es.build(subs, matcher="spare-rein", ladder=[0.05], exact="x y")
    assert index.skip_plan(0.05).touched.tolist() == ["both"]
    events = [{"x": 0.06, "y": 0.05, "z": 0.5}, {"x": 0.01, "y": 0.05, "z": 0.95}, {"x": 0.01, "y": 0.5, "z": 0.5}]
    found = index.match_batch(events, false_positive=0.05)
    modes = list(zip(found.event.tolist(), found.ids.tolist(), found.match_mode.tolist(), strict=True))
    by_id = [{id: mode for event, id, mode in modes if event == e} for e in range(3)]
    assert [len(each) for each in by_id] == [52, 52, 51]
    assert by_id[0]["both"] == "exact"
    assert by_id[1]["both"] == "approximate"
    assert "both" not in by_id[2]
    assert all(each["always"] == "exact" for each in by_id)
    assert "both" not in index.match_batch(events, false_positive=0.05, verify=True).of(1)


def test_what_was_learned_is_kept_in_a_snapshot(tmp_path: Any) -> None:
    workload = paper(n=3000)
    index = es.build(workload.subscriptions(seed=1), matcher="wpa-rein", exact="a1", ladder=[0.01, 0.05])
    index.learn(workload.events(100, seed=3))
    index.save(tmp_path / "snapshot")
    loaded = es.load(tmp_path / "snapshot")
    assert loaded.matcher.params == index.matcher.params
    assert loaded.describe()["sample_events"] == 100
    assert str(loaded.skip_plan(0.05)) == str(index.skip_plan(0.05))


@pytest.mark.parametrize(("matcher", "rows"), [*((name, False) for name in ELASTIC), ("spare-rein", True)])
def test_plans_are_kept_in_a_snapshot_and_follow_changes_from_there(
    matcher: str, rows: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = paper(n=3000)
    subscriptions = workload.subscriptions(seed=1)
    monkeypatch.setattr(SpareRein, "_is_quicker", lambda self, lists: True)
    index = es.build(subscriptions, matcher=matcher, ladder=[0.01, 0.05])
    if rows:
        prefer_rows(index, monkeypatch)
    plans = [index.skip_plan(share) for share in (0.01, 0.05, 0.0)]
    index.save(tmp_path / "snapshot")
    loaded = es.load(tmp_path / "snapshot")
    ready = {"0.01", "0.05"} | ({"0"} if matcher == "spare-rein" else set())
    assert set(loaded.describe()["plans"]) == ready, "ready without being asked for"
    assert loaded.describe()["matcher_bytes"] == index.describe()["matcher_bytes"]
    # All plans share the rows, 16 of 4 KB for each attribute in use.
    assert (1 << 20 < loaded.describe()["prepared_rows"] < 1 << 22) == rows
    for plan in plans:
        assert str(loaded.skip_plan(plan.asked)) == str(plan)
    events = workload.events(60, seed=2)
    gone = [*plans[1].touched[:5].tolist(), *range(2000, 2010)]
    for changed in (index, loaded):
        changed.remove_many(sorted(set(gone)))
        changed.add(gone[0], "a0 BETWEEN 0.2 AND 0.9 AND a3 > 0.5")
    for share in (0.0, 0.01, 0.05):
        before, after = (each.match_batch(events, false_positive=share) for each in (index, loaded))
        assert pairs(before) == pairs(after)
        assert approximate_pairs(before) == approximate_pairs(after)
    exact = es.build(index.subscriptions, matcher="simple").match_batch(events)
    assert pairs(loaded.match_batch(events)) == pairs(exact)


def test_a_plan_that_became_too_generous_is_made_anew() -> None:
    """Removing what the plan did not touch takes true matches away, until its false ones are too many for the rest."""
    workload = paper(n=3000)
    index = es.build(workload.subscriptions(seed=1), matcher="spare-rein", ladder=[0.05])
    first = index.skip_plan(0.05)
    untouched = np.setdiff1d(np.arange(3000), first.touched)
    index.remove_many(untouched[:1].tolist())
    assert index.skip_plan(0.05).n_clauses == 3000, "one clause less is within what was left unused"
    index.remove_many(untouched[1:].tolist())
    second = index.skip_plan(0.05)
    assert second.n_clauses == first.touched.size
    assert second.expected_false <= second.allowed
    events = workload.events(200, seed=2)
    true = index.match_batch(events).slots.size
    assert 1 - true / index.match_batch(events, false_positive=0.05).slots.size <= 0.05


def test_other_matchers_say_which_ones_are_elastic() -> None:
    index = es.build(paper(n=10).subscriptions(seed=1), matcher="simple")
    events = paper(n=10).events(2, seed=1)
    for ask in (
        lambda: index.match_batch(events, false_positive=0.01),
        lambda: index.skip_plan(0.01),
        lambda: index.learn(events),
    ):
        with pytest.raises(es.MatcherError, match="the elastic matchers are ada-rein"):
            ask()
    assert len(index.match_batch(events, false_positive=0.0)) == len(index.match_batch(events, false_positive=0)) == 2


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"ladder": []}, "ladder must be rising shares"),
        ({"ladder": [0.1, 0.05]}, "ladder must be rising shares"),
        ({"ladder": [0.5, 1.0]}, "ladder must be rising shares"),
        ({"budget": "none"}, "budget must be one of additive, paper"),
        ({"classes": 0}, "classes must be at least 1"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(es.MatcherError, match=reason):
        es.build(paper(n=10).subscriptions(seed=1), matcher="wpa-rein", **params)


def test_wrong_shares_and_names_are_refused() -> None:
    workload = paper(n=10)
    index = es.build(workload.subscriptions(seed=1), matcher="wpa-rein")
    with pytest.raises(es.DataError, match="to below 1"):
        index.match_batch(workload.events(2, seed=1), false_positive=1.0)
    with pytest.raises(es.DataError, match="2 events, but shape"):
        index.match_batch(workload.events(2, seed=1), false_positive=[0.1])
    with pytest.raises(es.SchemaError, match="no attribute is named 'tenant'"):
        es.build(workload.subscriptions(seed=1), matcher="wpa-rein", exact=("tenant",))
    with pytest.raises(es.MatcherError, match="exact names attribute 99"):
        es.build(workload.subscriptions(seed=1), matcher="wpa-rein", exact=(99,))


def test_an_empty_index_is_elastic_too() -> None:
    index = es.build(es.Subscriptions(es.Schema({"x": es.Float(0, 1)})), matcher="spare-rein")
    assert index.match_batch([{"x": 0.5}], false_positive=0.05).of(0) == []
    assert index.skip_plan(0.05).skipped == 0


def test_costs_are_measured_on_the_machine_and_the_index_at_hand() -> None:
    costs = measured_costs(100)
    assert min(costs.compare, costs.mark, costs.switch, costs.word) > 0
    index = es.build(paper(n=2000).subscriptions(seed=1), matcher="spare-rein")
    index.matcher.calibrate()  # type: ignore[attr-defined]  # this matcher has it
    assert 0 < index.skip_plan(0.05).gain < 1


def test_near_misses_are_those_of_brute_force() -> None:
    workload = Awkward(80, 30, seed=13)
    index = es.build(workload.subscriptions(), matcher="simple")
    clauses = index.matcher.clauses
    columns = workload.events().columns_for(index.subscriptions.codes)
    everything = np.arange(clauses.attribute.size)
    seen = near_misses(clauses, everything, columns, workload.dense.shape[1])
    alone = np.zeros(clauses.attribute.size)
    for s in range(80):
        mine = slice(workload.start[s], workload.start[s + 1])
        values = workload.dense[:, workload.attribute[mine]]
        with np.errstate(invalid="ignore"):
            fails = ~((values >= workload.low[mine]) & (values <= workload.high[mine]))
        only = fails & (fails.sum(axis=1) == 1)[:, None] & ~np.isnan(values)
        alone[mine] = only.sum(axis=0) / 30
    assert seen.alone == pytest.approx(alone)
    assert seen.matches == pytest.approx(len(workload.truth()) / 30)
