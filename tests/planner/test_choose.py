"""The choice, with costs that are told instead of measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import eventsieve as es
from eventsieve.errors import MatcherError
from eventsieve.matchers.registry import elastic_matchers
from eventsieve.planner import Plan, Wish, choose
from eventsieve.planner.plan import Cost
from eventsieve.planner.trial import Setting
from eventsieve.workload import standard

PLENTY = 10**12
BOP = standard("bop", n=4000).subscriptions(seed=1)
TABLE_BYTES = BOP.nbytes()


class Told:
    """Costs by matcher (or by matcher and memory); what is not told is slow. Remembers what was asked for."""

    def __init__(self, **costs: Cost) -> None:
        self.costs = costs
        self.asked: list[str] = []

    def __call__(self, settings: Sequence[Setting]) -> list[Cost]:
        return [self.cost(*setting) for setting in settings]

    def cost(self, matcher: str, params: Mapping[str, Any]) -> Cost:
        label = "_".join([matcher.replace("-", "_"), *map(str, params.values())])
        self.asked.append(label)
        return self.costs.get(label, Cost(9.0, 9.0, 1e6))


def chosen(
    told: Told, *, compiled: Callable[[str], bool] = lambda name: True, n: int | None = None, **wish: Any
) -> Plan:
    settings = {"memory": PLENTY, **wish}
    return choose(BOP.table(), BOP.domains(), Wish(**settings), n, measure=told, compiled=compiled)


def test_few_clauses_are_scanned_without_any_trial() -> None:
    subs = standard("bop", n=999).subscriptions(seed=1)
    told = Told()
    plan = choose(subs.table(), subs.domains(), Wish(PLENTY), measure=told)
    assert plan.chosen.matcher == "simple"
    assert plan.chosen.basis == "rule"
    assert told.asked == []


@pytest.mark.parametrize(("batch", "expected"), [(1, "be-tree"), (512, "sieve"), (None, "simple")])
def test_the_fastest_at_what_is_asked_for_is_taken(batch: int | None, expected: str) -> None:
    """Where both count, the one whose worse side is nearest to the best."""
    told = Told(be_tree=Cost(0.1, 0.5, 1e6), sieve=Cost(0.5, 0.1, 1e6), simple=Cost(0.15, 0.15, 1e6))
    assert chosen(told, batch=batch).chosen.matcher == expected


def test_trials_decide_over_unit_costs() -> None:
    """A matcher that has become faster than its stored costs is noticed."""
    first, second = [each.matcher for each in chosen(Told()).candidates[:2]]
    for name in (first, second):
        assert chosen(Told(**{name.replace("-", "_"): Cost(0.01, 0.001, 1e6)})).chosen.matcher == name


def test_only_plausible_matchers_are_tried_and_all_are_accounted_for() -> None:
    told = Told()
    plan = chosen(told)
    exact = set(es.matchers()) - set(elastic_matchers())
    assert {each.matcher for each in plan.candidates} == exact
    assert 3 <= len(told.asked) <= 4
    assert {each.matcher.replace("-", "_") for each in plan.candidates if each.basis == "timed"} == set(told.asked)
    assert all(each.verdict for each in plan.candidates)


def test_nothing_is_compiled_for_a_small_collection_but_the_likeliest() -> None:
    told = Told()
    plan = chosen(told, compiled=lambda name: False)
    assert len(told.asked) == 1
    assert any("compiled" in each.verdict for each in plan.candidates)
    told = Told()
    chosen(told, compiled=lambda name: False, n=1_000_000)
    assert len(told.asked) > 1


def test_what_does_not_fit_is_not_taken() -> None:
    told = Told(sieve=Cost(0.1, 0.01, 5e6), be_tree=Cost(0.2, 0.1, 1e6))
    plan = chosen(told, memory=TABLE_BYTES + 2_000_000)
    assert plan.chosen.matcher == "be-tree"
    large = next(each for each in plan.candidates if each.label == "sieve")
    assert large.verdict.startswith("too large")


def test_a_smaller_setting_is_tried_where_the_default_does_not_fit() -> None:
    told = Told(sieve=Cost(0.1, 0.01, 5e6), sieve_40=Cost(0.12, 0.02, 1e6))
    plan = chosen(told, memory=TABLE_BYTES + 2_000_000)
    assert plan.chosen.label == "sieve:memory=40"


def test_a_budget_below_the_clauses_themselves_is_refused() -> None:
    with pytest.raises(MatcherError, match=r"no matcher fits 4,000 clauses into 1 kB: .* allow more memory"):
        chosen(Told(), memory=1000)


def test_elastic_matchers_only_where_asked_for() -> None:
    told = Told(wpa_rein=Cost(0.1, 0.1, 1e6))
    plan = chosen(told, false_positive=0.01)
    assert plan.chosen.matcher == "wpa-rein"
    assert {each.matcher for each in plan.candidates} == set(elastic_matchers())


def test_a_choice_that_turns_out_too_large_gives_way_to_the_next_that_fits() -> None:
    told = Told(sieve=Cost(0.1, 0.01, 1e6), be_tree=Cost(0.2, 0.02, 1e6))
    plan = chosen(told).without("too large: built, it takes 9 GB")
    assert plan.chosen.matcher == "be-tree"
    assert "since sieve did not" in plan.chosen.verdict
    assert plan.candidates[-1].verdict == "too large: built, it takes 9 GB"


def test_a_plan_survives_being_written_down() -> None:
    plan = chosen(Told(sieve=Cost(0.1, 0.01, 1e6)), batch=512)
    again = Plan.from_dict(plan.to_dict())
    assert again == plan
    assert str(again).splitlines()[0].startswith("sieve for 4,000 clauses, based on trials on 4,000 of them")
    assert "batches of 512" in str(again)
