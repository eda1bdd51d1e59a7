"""The precision model against the paper's own numbers and against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve.elastic.precision import (
    Budget,
    allowance,
    chance_by_count,
    chance_by_frequency,
    check_share,
    expected_share,
    expected_size,
    shares_of_events,
    skippable_predicates,
)
from eventsieve.errors import DataError

TABLE_3_Y2 = {0.001: 4173, 0.003: 12536, 0.005: 20912, 0.01: 41924, 0.03: 127064, 0.05: 214074}


@pytest.mark.parametrize("false_positive", TABLE_3_Y2)
def test_y_agrees_with_table_3_within_one_percent(false_positive: float) -> None:
    assert skippable_predicates(1_000_000, 0.787, false_positive) == pytest.approx(TABLE_3_Y2[false_positive], rel=0.01)


def test_y_at_the_edges() -> None:
    """No false matches: nothing. Predicates that always hold: all of them."""
    assert skippable_predicates(100, 0.5, 0.0) == 0.0
    assert skippable_predicates(100, 1.0, 0.01) == float("inf")


def test_lemma_4_turned_round_is_y() -> None:
    """Skipping Y predicates of n subscriptions shortens them by Y / n, which gives F back."""
    y = skippable_predicates(1000, 0.6, 0.03)
    assert expected_share(0.6, 5.0, 5.0 - y / 1000) == pytest.approx(0.03)


def test_the_chances_of_lemmas_1_and_2_add_up_to_one() -> None:
    assert sum(chance_by_count(5, j, 30, 100) for j in range(6)) == pytest.approx(1.0)
    assert sum(chance_by_frequency(5, j, 0.2) for j in range(6)) == pytest.approx(1.0)


def test_lemma_3_agrees_with_drawing() -> None:
    """Subscriptions of 2 and of 6 predicates, a fifth of which is on skipped attributes."""
    sizes = np.zeros(7, np.int64)
    sizes[2], sizes[6] = 300, 700
    rng = np.random.default_rng(1)
    drawn = np.concatenate([rng.binomial(2, 0.8, 300), rng.binomial(6, 0.8, 700)])
    assert expected_size(sizes, 0.2) == pytest.approx(drawn.mean(), rel=0.02)


def test_the_additive_budget_leaves_a_part_of_the_allowance_unused() -> None:
    budget = Budget.additive(0.05, 1000.0)
    assert 0.0 < budget.limit < allowance(0.05) * 1000.0


@pytest.mark.parametrize("wrong", [-0.1, 1.0, 2, float("nan"), "much", None])
def test_a_share_lies_between_0_and_1(wrong: object) -> None:
    with pytest.raises(DataError, match="from 0 \\(exact\\) to below 1"):
        check_share(wrong)


def test_shares_are_one_for_all_or_one_each() -> None:
    assert shares_of_events(0.01, 3).tolist() == [0.01] * 3
    assert shares_of_events([0.0, 0.1, 0.2], 3).tolist() == [0.0, 0.1, 0.2]
    with pytest.raises(DataError, match="3 events, but shape \\(2,\\)"):
        shares_of_events([0.1, 0.1], 3)
    with pytest.raises(DataError, match=r"not 1\.5"):
        shares_of_events(np.array([0.1, 1.5]), 2)
