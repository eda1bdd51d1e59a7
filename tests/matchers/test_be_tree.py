"""BE-Tree against brute force at the level of the matcher: cutting, changing in place, adversarial orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eventsieve.errors import MatcherError
from eventsieve.matchers.be_tree import BETree
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import Domains
from tests.matchers.slots import DOMAINS, N_ATTRIBUTES, Slots, assert_exact, draw_events

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "tiny leaves": {"capacity": 1, "smallest": 1},
    "small leaves": {"capacity": 8, "smallest": 3},
    "nodes hard to get": {"capacity": 4, "smallest": 40},
    "quantiles": {"capacity": 4, "smallest": 2, "transform": "quantiles"},
    "normal": {"capacity": 4, "smallest": 2, "transform": "normal 0.5 0.15"},
}


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_exact_on_borders_open_sides_and_sparse_events(params: dict[str, Any], rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() if s % 9 else [] for s in range(400)]
    matcher = make_matcher("be-tree", **params)
    matcher.build(slots.table(), DOMAINS)
    assert assert_exact(matcher, slots, draw_events(rng, 60)) > 100


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())
def test_stays_exact_while_clauses_come_and_go(params: dict[str, Any], rng: np.random.Generator) -> None:
    slots = Slots(rng)
    matcher = make_matcher("be-tree", **params)
    matcher.build(slots.table(), DOMAINS)
    events = draw_events(rng, 12)
    for _ in range(25):
        slots.change(matcher, n_gone=20, n_new=30)
        assert_exact(matcher, slots, events)


def test_whole_numbers_are_decided_without_a_look_into_the_table(rng: np.random.Generator) -> None:
    """Values, bounds, fractions between them and numbers outside the domain, where equal codes must not mislead."""
    domains = Domains(np.zeros(N_ATTRIBUTES), np.full(N_ATTRIBUTES, 31.0))
    slots = Slots(rng)
    numbers = np.arange(-2, 35).astype(np.float64)
    slots.clauses = [slots.draw(numbers) for _ in range(500)]
    matcher = BETree(capacity=8, smallest=2)
    matcher.build(slots.table(), domains)
    assert_exact(matcher, slots, draw_events(rng, 40, numbers))
    between = np.concatenate([numbers, np.nextafter(numbers, np.inf), np.nextafter(numbers, -np.inf), numbers + 0.5])
    assert_exact(matcher, slots, draw_events(rng, 60, between))
    slots.clauses = [slots.draw(between) for _ in range(500)]
    matcher.build(slots.table(), domains)
    assert_exact(matcher, slots, draw_events(rng, 60, between))


def test_clauses_with_more_predicates_than_are_packed(rng: np.random.Generator) -> None:
    n_attributes = 20
    domains = Domains(np.zeros(n_attributes), np.ones(n_attributes))
    slots = Slots(rng)
    for s in range(120):
        slots.clauses.append([(a, 0.0, 0.5 + 0.5 * ((a + s) % 17 > 0)) for a in range(n_attributes - s % 3)])
    matcher = BETree(capacity=4, smallest=2)
    matcher.build(slots.table(), domains)
    events = [{a: 0.75 if a == hole else 0.25 for a in range(n_attributes)} for hole in range(-1, n_attributes)]
    assert assert_exact(matcher, slots, events) > 1000


def test_sorted_inserts_rising_and_falling() -> None:
    for step in (1, -1):
        slots = Slots(np.random.default_rng(0))
        matcher = BETree(capacity=8, smallest=2)
        matcher.build(slots.table(), DOMAINS)
        lows = np.arange(600)[::step] / 600
        for s, low in enumerate(lows):
            slots.clauses.append([(0, float(low), float(low) + 0.01), (1, float(low), 1.0)])
            if s % 50 == 49:
                matcher.insert(np.arange(s - 49, s + 1, dtype=np.int32), slots.table())
        facts = matcher.describe()
        assert facts["clauses"] == 600
        assert facts["largest_leaf"] <= 40
        assert_exact(matcher, slots, [{0: value / 20, 1: value / 20} for value in range(21)])


def test_one_giant_leaf_that_nothing_divides() -> None:
    """Clauses that are all alike stay together, whether they come at once or one after the other."""
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(3, 0.25, 0.25), (5, 0.0, 1.0)] for _ in range(700)]
    matcher = BETree(capacity=4, smallest=2)
    matcher.build(slots.table(), DOMAINS)
    slots.clauses += [[(3, 0.25, 0.25), (5, 0.0, 1.0)] for _ in range(700)]
    table = slots.table()
    for s in range(700, 1400):
        matcher.insert(np.array([s], np.int32), table)
    assert matcher.describe()["largest_leaf"] == 1400
    assert_exact(matcher, slots, [{3: 0.25, 5: 0.5}, {3: 0.25}, {3: 0.26, 5: 0.5}])


def test_all_on_the_same_attribute_is_cut_by_halves_alone(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    lows = rng.random(2000)
    slots.clauses = [[(2, float(low), float(low + 0.001))] for low in lows]
    matcher = BETree(capacity=16, smallest=1)
    matcher.build(slots.table(), DOMAINS)
    facts = matcher.describe()
    assert facts["partitions_at_the_root"] == 1
    assert facts["largest_leaf"] <= 16
    assert_exact(matcher, slots, [{2: float(low)} for low in lows[:50]])


def test_wide_and_half_open_predicates_stay_high() -> None:
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, -np.inf, 0.6)]] * 10 + [[(0, 0.4, np.inf)]] * 10 + [[(0, 0.1, 0.11)]] * 10
    matcher = BETree(capacity=4, smallest=1)
    matcher.build(slots.table(), DOMAINS)
    partition = matcher._tree.node_of_slot[0]
    assert (matcher._tree.node_of_slot[:20] == partition).all()
    assert (matcher._tree.node_of_slot[20:30] != partition).all()


def test_a_clause_is_filed_by_its_most_telling_attribute() -> None:
    """A single value on a rare attribute before a wide range on a popular one."""
    slots = Slots(np.random.default_rng(0))
    slots.clauses = [[(0, 0.1, 0.9), (1 + s % 3, 0.25, 0.25)] for s in range(90)]
    matcher = BETree(capacity=10, smallest=5)
    matcher.build(slots.table(), DOMAINS)
    assert matcher.describe()["partitions_at_the_root"] == 3
    assert_exact(matcher, slots, [{0: 0.5, 1: 0.25, 2: 0.25}, {0: 0.5}, {1: 0.25}])


def test_delete_everything_gives_all_nodes_back_and_reinserting_uses_them_again(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(800)]
    matcher = BETree(capacity=4, smallest=2)
    matcher.build(slots.table(), DOMAINS)
    everything = np.arange(800, dtype=np.int32)
    first = matcher.describe()
    for _ in range(6):
        matcher.delete(rng.permutation(everything))
        facts = matcher.describe()
        assert (facts["clauses"], facts["nodes"], facts["depth"]) == (0, 1, 0)
        assert matcher.match_batch(slots.columns([{0: 0.5, 1: 0.5}]))[1].size == 0
        matcher.insert(rng.permutation(everything), slots.table())
        assert_exact(matcher, slots, draw_events(rng, 5))
    facts = matcher.describe()
    assert facts["nodes"] < 4 * first["nodes"]
    assert facts["places"] < 6 * first["places"]


def test_saved_arrays_restore_the_same_matcher_that_can_go_on_changing(rng: np.random.Generator) -> None:
    slots = Slots(rng)
    slots.clauses = [slots.draw() for _ in range(300)]
    matcher = BETree(capacity=4, smallest=2, transform="quantiles")
    matcher.build(slots.table(), DOMAINS)
    slots.change(matcher, n_gone=60, n_new=10)
    restored = BETree(capacity=4, smallest=2, transform="quantiles")
    restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, slots.table(), DOMAINS)
    assert restored.describe() == matcher.describe()
    assert_exact(restored, slots, draw_events(rng, 20))
    for _ in range(5):
        slots.change(restored, n_gone=40, n_new=60)
        assert_exact(restored, slots, draw_events(rng, 5))


@pytest.mark.parametrize("params", [{"capacity": 0}, {"smallest": 0}, {"transform": "gauss"}], ids=str)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MatcherError, match="be-tree"):
        make_matcher("be-tree", **params)
