"""What is chosen to be skipped, and what that costs, against plain counting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eventsieve.elastic.cost import UnitCosts, Work, elbow, gain, work_of
from eventsieve.elastic.population import LEAST_SEEN, EventSample, NearMisses, Population, population_of
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import (
    Layout,
    class_of,
    spare_predicates,
    unchecked_predicates,
    whole_attributes,
    width_classes,
)
from eventsieve.elastic.skips import Skips
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

N_ATTRIBUTES = 12
DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))
NO_EXACT = np.zeros(N_ATTRIBUTES, np.bool_)
BLOCK = 64


def table(n_clauses: int, seed: int, k: int = 4) -> ClauseTable:
    """Clauses with skewed attributes and widths from 0 to 1."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, N_ATTRIBUTES + 1) ** 1.5
    picks = [np.sort(rng.choice(N_ATTRIBUTES, k, replace=False, p=weight / weight.sum())) for _ in range(n_clauses)]
    width = rng.random(n_clauses * k)
    low = rng.random(n_clauses * k) * (1 - width)
    start = np.arange(n_clauses, dtype=np.int64) * k
    return ClauseTable(start, start + k, np.concatenate(picks).astype(np.int32), low, low + width)


def layout(population: Population, clauses: ClauseTable) -> Layout:
    low = clauses.low[population.position]
    block = population.slot[population.clause] // BLOCK
    return Layout(block * N_ATTRIBUTES + population.attribute, population.attribute * 10 + (low * 10).astype(np.int64))


def chosen(way: str, population: Population, clauses: ClauseTable, budget: Budget) -> np.ndarray:
    if way == "attributes":
        return whole_attributes(population, budget)
    if way == "classes":
        return width_classes(population, budget, layout(population, clauses), 5)
    skipped = spare_predicates(population, layout(population, clauses), UnitCosts(switch=5.0))
    return unchecked_predicates(population, skipped, budget.limit)


WAYS = ["attributes", "classes", "spare"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.3])
def test_false_matches_stay_within_the_budget(way: str, share: float) -> None:
    clauses = table(600, seed=1)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    budget = Budget.additive(share, float(population.matches.sum()))
    skipped = chosen(way, population, clauses, budget)
    assert population.false_matches(skipped) <= budget.limit
    assert skipped.any() or way == "attributes"


@pytest.mark.parametrize("way", WAYS)
def test_exact_attributes_are_never_skipped(way: str) -> None:
    clauses = table(600, seed=2)
    exact = NO_EXACT.copy()
    exact[[0, 7, 11]] = True
    population = population_of(clauses, DOMAINS, None, exact)
    skipped = chosen(way, population, clauses, Budget.additive(0.5, float(population.matches.sum())))
    assert skipped.any()
    assert not skipped[exact[population.attribute]].any()


def test_whole_attributes_are_whole_and_the_rarest() -> None:
    clauses = table(600, seed=3)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    skipped = whole_attributes(population, Budget.additive(0.5, float(population.matches.sum())))
    frequency = np.bincount(population.attribute, minlength=N_ATTRIBUTES)
    gone = np.unique(population.attribute[skipped])
    assert gone.size
    assert all(skipped[population.attribute == a].all() for a in gone)
    assert frequency[gone].max() <= np.delete(frequency, gone).min()


def test_width_classes_use_up_the_widest_first() -> None:
    clauses = table(600, seed=4)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    skipped = width_classes(population, Budget("paper", 40.0), layout(population, clauses), 5)
    assert 35 <= skipped.sum() <= 40
    # What is too little for another cell of the widest class may still do for one of the next.
    assert (class_of(population.matchability[skipped], 5) == 4).mean() > 0.8
    more = width_classes(population, Budget("paper", 700.0), layout(population, clauses), 5)
    assert 680 <= more.sum() <= 700


@pytest.mark.parametrize("check", [3.0, 30.0, 1000.0])
def test_what_is_spared_saves_more_time_than_its_checks_take(check: float) -> None:
    clauses = table(2000, seed=5)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    unit = UnitCosts(check=check)
    skipped = spare_predicates(population, layout(population, clauses), unit)
    exact = Skips(skipped, np.zeros(skipped.size, np.bool_))
    before, after = (work_of(population, skips, BLOCK, 10, 2000) for skips in (Skips.nothing(population), exact))
    assert after.check == pytest.approx(population.reported(skipped)[np.unique(population.clause[skipped])].sum())
    assert gain(before, after, unit) > 0
    assert (np.bincount(population.clause[~skipped], minlength=2000) > 0).all(), "a clause without any matches always"


def test_a_clause_gives_up_as_many_of_its_widest_as_saves_the_most() -> None:
    """Against trying all numbers, clause by clause, where a visit costs nothing."""
    clauses = table(400, seed=11, k=5)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    unit = UnitCosts(switch=0.0, mark=1.0, check=8.0)
    skipped = spare_predicates(population, layout(population, clauses), unit).reshape(-1, 5)
    widths = population.matchability.reshape(-1, 5)
    seen = set()
    for width, gone in zip(widths, skipped, strict=True):
        widest = np.argsort(-width)
        saved = [0.0] + [(1 - width[widest[:j]]).sum() - 8.0 * np.prod(width[widest[j:]]) for j in range(1, 5)]
        assert set(np.flatnonzero(gone)) == set(widest[: int(np.argmax(saved))])
        seen.add(int(gone.sum()))
    assert len(seen) > 2


@pytest.mark.parametrize("check", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("switch", [0.0, 50.0, 5000.0])
def test_lists_that_go_together_are_not_dearer_than_what_they_save(check: float, switch: float) -> None:
    """Each list pays alone; without all of them at once, too many clauses would be left to check."""
    clauses = table(3000, seed=12, k=5)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    unit = UnitCosts(check=check, switch=switch)
    exact = Skips(spare_predicates(population, layout(population, clauses), unit), np.zeros(15_000, np.bool_))
    before, after = (work_of(population, skips, BLOCK, 10, 3000) for skips in (Skips.nothing(population), exact))
    assert gain(before, after, unit) >= 0.0


def test_dear_checks_leave_predicates_in_the_index() -> None:
    clauses = table(2000, seed=5)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    where = layout(population, clauses)
    counts = [spare_predicates(population, where, UnitCosts(check=check)).sum() for check in (1.0, 10.0, 100.0, 1e9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 0.3 * population.attribute.size
    assert counts[-1] == 0


def test_no_budget_leaves_nothing_unchecked_and_a_large_one_everything() -> None:
    clauses = table(600, seed=6)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    skipped = spare_predicates(population, layout(population, clauses), UnitCosts())
    assert not unchecked_predicates(population, skipped, 0.0).any()
    assert (unchecked_predicates(population, skipped, 1e9) == skipped).all()
    some = unchecked_predicates(population, skipped, population.false_matches(skipped) / 3)
    left = population.false_matches_of_clauses(skipped) / population.reported(skipped)
    assert left[population.clause[some]].max() <= left[population.clause[skipped & ~some]].min(), "surest first"


def test_false_matches_are_counted_as_drawn_events_show_them() -> None:
    """Independent uniform values: the model's count of false matches agrees with counting."""
    clauses = table(300, seed=7, k=3)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    skipped = np.random.default_rng(8).random(population.attribute.size) < 0.3
    values = np.random.default_rng(9).random((4000, N_ATTRIBUTES))[:, population.attribute]
    holds = (clauses.low <= values) & (values <= clauses.high)
    reported = np.logical_and.reduceat(holds | skipped, population.first, axis=1).sum() / 4000
    true = np.logical_and.reduceat(holds, population.first, axis=1).sum() / 4000
    assert population.false_matches(skipped) == pytest.approx(reported - true, rel=0.05)


def test_without_events_clauses_with_single_values_are_left_alone() -> None:
    clauses = ClauseTable(
        np.array([0, 2]), np.array([2, 4]), np.array([0, 1, 0, 1], np.int32),
        np.array([0.5, 0.1, 0.2, 0.1]), np.array([0.5, 0.9, 0.8, 0.9]),
    )  # fmt: skip
    assert population_of(clauses, DOMAINS, None, NO_EXACT).may_skip.tolist() == [False, False, True, True]


def sample_of(values: np.ndarray) -> EventSample:
    present = ~np.isnan(values)
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    columns = EventColumns(start, np.nonzero(present)[1].astype(np.int32), values[present])
    return EventSample.of(columns, values.shape[1])


def test_matchability_is_measured_among_the_events_that_have_the_attribute() -> None:
    values = np.full((1000, N_ATTRIBUTES), np.nan)
    values[:500, 0] = np.linspace(0.0, 0.2, 500)
    sample = sample_of(values)
    ends = np.array([0.0, 0.1, 0.5]), np.array([0.1, 0.2, 1.0])
    assert sample.presence[0] == 0.5
    assert sample.within(np.zeros(3, np.int32), *ends) == pytest.approx([0.5, 0.5, 0.0], abs=0.01)


def test_attributes_that_the_sample_hardly_knows_are_left_alone() -> None:
    values = np.random.default_rng(2).random((100, N_ATTRIBUTES))
    values[LEAST_SEEN - 1 :, 3] = np.nan
    population = population_of(table(300, seed=11), DOMAINS, sample_of(values), NO_EXACT)
    assert (population.may_skip == (population.attribute != 3)).all()


def test_a_sample_of_many_events_is_cut_down() -> None:
    values = np.random.default_rng(1).random((20_000, N_ATTRIBUTES))
    sample = sample_of(values)
    assert sample.n_events <= 4096
    assert sample.within(np.zeros(1, np.int32), np.array([0.0]), np.array([0.25])) == pytest.approx([0.25], abs=0.02)


def test_the_cost_model_counts_what_is_left_to_do() -> None:
    clauses = table(200, seed=10)
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    whole = work_of(population, Skips.nothing(population), BLOCK, 10, 200)
    assert whole.mark == pytest.approx((1 - population.matchability).sum())
    assert whole.compare == pytest.approx(2 * population.attribute.size / 10)
    one_gone = population.attribute == 3
    less = work_of(population, Skips.for_good(one_gone), BLOCK, 10, 200)
    assert whole.switch - less.switch == np.unique(population.slot[population.clause[one_gone]] // BLOCK).size
    assert 0 < gain(whole, less, UnitCosts()) < 1
    assert gain(Work(0, 0, 0, 0), Work(0, 0, 0, 0), UnitCosts()) == 0.0


def test_the_elbow_of_table_3_is_where_the_paper_sees_it() -> None:
    shares = [0.0, 0.001, 0.003, 0.005, 0.01, 0.03, 0.05]
    assert elbow(shares, [0.0, 0.372, 0.3893, 0.4495, 0.472, 0.5001, 0.5517]) in (0.001, 0.005, 0.01)
    assert elbow([], []) == 0.0


def test_near_misses_count_where_the_model_says_less() -> None:
    """A predicate that often decides alone is dear, whatever the product of matchabilities says."""
    clauses = table(300, seed=12)
    plain = population_of(clauses, DOMAINS, None, NO_EXACT)
    alone = np.zeros(plain.attribute.size)
    alone[5] = 0.75
    seen = replace(plain, near_misses=NearMisses(alone, 40.0))
    only = np.zeros(plain.attribute.size, np.bool_)
    only[5] = True
    assert seen.total_matches == 40.0
    assert seen.false_matches(only) == seen.cost_alone()[5] == 0.75 > plain.false_matches(only)
    budget = Budget.additive(0.01, 40.0)
    assert not chosen("spare", seen, clauses, budget)[5]


def test_where_all_widths_are_equal_lists_with_few_predicates_are_spared() -> None:
    clauses = table(2000, seed=13)
    clauses = clauses._replace(low=np.full(8000, 0.25), high=np.full(8000, 0.75))
    population = population_of(clauses, DOMAINS, None, NO_EXACT)
    where = layout(population, clauses)
    skipped = spare_predicates(population, where, UnitCosts())
    size = np.bincount(where.list_of_predicate)
    left = np.bincount(where.list_of_predicate[~skipped], minlength=size.size)
    emptied = (size > 0) & (left == 0)
    assert emptied.sum() >= 4
    assert size[emptied].mean() < size[(size > 0) & ~emptied].mean()
