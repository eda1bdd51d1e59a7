"""GEM-Tree against brute force at the level of the matcher: cells, adversarial orders, ranks, adjustment, change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.errors import MatcherError
from eventsieve.matchers.gem_tree import GemTree
from eventsieve.matchers.gem_tree.layout import CELL, NODES, PARENT, SIZE, TRIANGLES
from eventsieve.matchers.gem_tree.order import global_order, nothing_seen, visiting_rates
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

N_ATTRIBUTES = 6
DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))
BORDERS = np.arange(-2, 19) / 16
"""Every border of 8 or 4 cells, their middles, and values outside the domain."""

Clause = list[tuple[int, float, float]]
Event = dict[int, float]

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "small buckets": {"bucket": 4, "minimum": 2},
    "one by one": {"bucket": 1, "minimum": 1},
    "one cell": {"cells": 1, "bucket": 2, "minimum": 1},
    "many cells": {"cells": 40, "bucket": 2, "minimum": 1},
    "rank": {"order": "rank", "bucket": 3, "minimum": 2},
    "sum": {"order": "sum", "bucket": 3, "minimum": 2, "cells": 3},
    "normalised": {"order": "normalised", "bucket": 3, "minimum": 1},
    "no division": {"bucket": 2, "minimum": 1000},
    "quantiles": {"bucket": 3, "minimum": 1, "transform": "quantiles"},
}
every_setting = pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS.keys())


def draw(rng: np.random.Generator, values: NDArray[np.float64] = BORDERS) -> Clause:
    clause = []
    for a in np.sort(rng.permutation(N_ATTRIBUTES)[: rng.integers(1, N_ATTRIBUTES + 1)]):
        low, high = np.sort(rng.choice(values, 2))
        kind = rng.integers(0, 8)
        low, high = (-np.inf if kind == 0 else low), (np.inf if kind == 1 else low if kind in (2, 3) else high)
        clause.append((int(a), float(low), float(max(low, high))))
    return clause


def table(clauses: Iterable[Clause]) -> ClauseTable:
    clauses = list(clauses)
    stop = np.cumsum([len(clause) for clause in clauses], dtype=np.int64)
    start = np.concatenate([[0], stop[:-1]]).astype(np.int64)[: len(clauses)]
    flat = [predicate for clause in clauses for predicate in clause]
    attribute, low, high = zip(*flat, strict=True) if flat else ((), (), ())
    return ClauseTable(
        start, stop, np.array(attribute, np.int32), np.array(low, np.float64), np.array(high, np.float64)
    )


def some_events(rng: np.random.Generator, n: int, values: NDArray[np.float64] = BORDERS) -> list[Event]:
    events: list[Event] = [{}]
    for e in range(n):
        present = rng.permutation(N_ATTRIBUTES)[: N_ATTRIBUTES if e % 2 else rng.integers(1, N_ATTRIBUTES)]
        events.append({int(a): float(rng.choice(values)) for a in np.sort(present)})
    return events


def columns(events: list[Event]) -> EventColumns:
    start = np.concatenate([[0], np.cumsum([len(event) for event in events])]).astype(np.int64)
    attribute = np.array([a for event in events for a in event], np.int32)
    return EventColumns(start, attribute, np.array([v for event in events for v in event.values()], np.float64))


def assert_exact(matcher: Any, clauses: list[Clause], events: list[Event]) -> int:
    start, found = matcher.match_batch(columns(events))
    for e, event in enumerate(events):
        expected = [
            s
            for s, clause in enumerate(clauses)
            if clause and all(a in event and low <= event[a] <= high for a, low, high in clause)
        ]
        assert sorted(found[start[e] : start[e + 1]].tolist()) == expected, event
    return int(start[-1])


def assert_sound(matcher: GemTree) -> None:
    """Counts and costs of all triangles are what a fresh sum over the nodes below them gives."""
    tree, shape = matcher._tree, matcher._shape
    count = np.zeros(tree.used[TRIANGLES], np.int64)
    cost = np.zeros(tree.used[TRIANGLES])
    clauses = matcher.clauses
    for s in np.flatnonzero(tree.node_of_slot >= 0):
        node = int(tree.node_of_slot[s])
        share = shape.alpha + clauses.stop[s] - clauses.start[s] - tree.node[node, 6]
        while node > 0:
            t = tree.node[node, PARENT]
            cell = tree.node[node, CELL]
            finer = tree.triangle_scale[t] > shape.n_cells
            share *= (
                shape.finer_rate[cell] if finer else shape.rate[tree.triangle_attribute[t] * tree.cell.shape[1] + cell]
            )
            count[t] += 1
            cost[t] += share
            node = int(tree.triangle_parent[t])
    used = count > 0
    np.testing.assert_array_equal(count[used], tree.triangle_count[: count.size][used])
    np.testing.assert_allclose(cost[used], tree.triangle_cost[: cost.size][used], atol=1e-9)


@every_setting
def test_exact_on_borders_open_sides_and_sparse_events(params: dict[str, Any], rng: np.random.Generator) -> None:
    clauses = [draw(rng) if s % 9 else [] for s in range(400)]
    matcher = make_matcher("gem-tree", **params)
    matcher.build(table(clauses), DOMAINS)
    assert assert_exact(matcher, clauses, some_events(rng, 60)) > 100


@every_setting
def test_exact_through_inserts_and_deletes_with_reuse_of_slots(
    params: dict[str, Any], rng: np.random.Generator
) -> None:
    clauses = [draw(rng) for _ in range(40)]
    matcher = GemTree(**params)
    matcher.build(table(clauses), DOMAINS)
    events = some_events(rng, 12)
    for step in range(20):
        taken = np.flatnonzero([bool(clause) for clause in clauses]).astype(np.int32)
        gone = rng.permutation(taken)[: rng.integers(0, max(1, taken.size // (1 if step == 9 else 3)) + 1)]
        matcher.delete(gone)
        for s in gone:
            clauses[s] = []
        free = [s for s, clause in enumerate(clauses) if not clause][: rng.integers(0, 20)]
        new = [*free, *range(len(clauses), len(clauses) + rng.integers(0, 25))]
        clauses += [[] for _ in range(max([*new, -1]) + 1 - len(clauses))]
        for s in new:
            clauses[s] = draw(rng)
        matcher.insert(np.array(new, np.int32), table(clauses))
        if step == 14:
            matcher.adjust()
        assert_exact(matcher, clauses, events)
        assert_sound(matcher)


@every_setting
def test_everything_can_be_deleted_and_comes_back_one_by_one(params: dict[str, Any], rng: np.random.Generator) -> None:
    clauses = [draw(rng) for _ in range(150)]
    matcher = GemTree(**params)
    matcher.build(table(clauses), DOMAINS)
    events = some_events(rng, 10)
    found = assert_exact(matcher, clauses, events)
    for _ in range(2):
        matcher.delete(rng.permutation(150).astype(np.int32))
        facts = matcher.describe()
        assert (facts["nodes"], facts["triangles"], facts["buckets"]) == (1, 0, 0)
        assert matcher.match_batch(columns(events))[1].size == 0
        for s in range(150):
            matcher.insert(np.array([s], np.int32), table(clauses))
        assert assert_exact(matcher, clauses, events) == found
        assert_sound(matcher)


@pytest.mark.parametrize("order", ["cell", "rank", "sum"])
def test_sorted_insertion_of_one_attribute_only(order: Any) -> None:
    """All clauses have the same attribute, and come by rising bounds."""
    clauses: list[Clause] = [[(2, s / 300, s / 300 + 0.1)] for s in range(300)]
    matcher = GemTree(bucket=8, minimum=4, order=order)
    matcher.build(table([]), DOMAINS)
    for s in range(300):
        matcher.insert(np.array([s], np.int32), table(clauses[: s + 1]))
    assert_exact(matcher, clauses, [{2: v / 50} for v in range(-1, 60)] + [{1: 0.5}])
    assert_sound(matcher)
    # One level divides by the attribute, and below it nothing is left to divide by.
    assert matcher.describe()["depth"] == 1


def test_a_bucket_that_no_attribute_divides_grows() -> None:
    clauses: list[Clause] = [[(0, 0.3, 0.31), (1, 0.5, 0.51)] for _ in range(500)]
    matcher = GemTree(bucket=4, minimum=2)
    matcher.build(table(clauses[:200]), DOMAINS)
    for s in range(200, 500):
        matcher.insert(np.array([s], np.int32), table(clauses[: s + 1]))
    facts = matcher.describe()
    assert facts["depth"] == 2
    assert facts["largest_bucket"] >= 490
    assert assert_exact(matcher, clauses, [{0: 0.305, 1: 0.51}, {0: 0.305}, {0: 0.305, 1: 0.52}]) == 500


def test_a_triangle_needs_the_minimum() -> None:
    clauses: list[Clause] = [[(s % 3, 0.1, 0.2)] for s in range(30)]
    for minimum, triangles in ((10, 3), (11, 0)):
        matcher = GemTree(bucket=1, minimum=minimum)
        matcher.build(table(clauses), DOMAINS)
        assert matcher.describe()["triangles"] == triangles


def test_a_clause_goes_down_by_its_narrowest_cell_and_by_the_paper_with_the_most_popular_attribute() -> None:
    clauses: list[Clause] = [[(0, 0.0, 0.9), (1 + s % 2, 0.5, 0.5)] for s in range(40)]
    by_cell, by_rank = GemTree(bucket=1, minimum=5), GemTree(bucket=1, minimum=5, order="rank")
    for matcher in (by_cell, by_rank):
        matcher.build(table(clauses), DOMAINS)
        assert_exact(matcher, clauses, [{0: 0.5, 1: 0.5}, {0: 0.95, 1: 0.5}, {1: 0.5}, {0: 0.1, 2: 0.5}])
    first_level = [
        sorted(int(a) for a in m._tree.triangle_attribute[: m._tree.used[TRIANGLES]][m._tree.triangle_parent == 0])
        for m in (_trimmed(by_cell), _trimmed(by_rank))
    ]
    assert first_level == [[1, 2], [0]]


def _trimmed(matcher: GemTree) -> GemTree:
    """Return the matcher with no spare room behind its arrays."""
    fresh = GemTree(**matcher.params)
    fresh.restore({name: array.copy() for name, array in matcher.arrays().items()}, matcher.clauses, matcher.domains)
    return fresh


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 13])
def test_each_kind_of_cell_decides_rightly(cells: int) -> None:
    """Whole, boundary row, boundary column and diagonal: every begin and end against every value."""
    clauses: list[Clause] = [[(0, low / 26, high / 26)] for low in range(27) for high in range(low, 27)]
    matcher = GemTree(cells=cells, bucket=1, minimum=1)
    matcher.build(table(clauses), DOMAINS)
    assert assert_exact(matcher, clauses, [{0: value / 52} for value in range(-2, 55)]) > len(clauses)


def test_what_a_cell_leaves_to_check_holds_for_its_own_branch_only() -> None:
    """A boundary cell on attribute 0 is visited before a whole one; the second must not be checked by the first."""
    clauses: list[Clause] = [
        [(0, low, high), (1, 0.0, 0.3), (2, 0.2, 0.2)] for low in (0.0, 0.26, 0.4) for high in (0.5, 0.55, 0.9)
    ] * 3
    matcher = GemTree(bucket=1, minimum=1)
    matcher.build(table(clauses), DOMAINS)
    values = (0.1, 0.25, 0.26, 0.3, 0.45, 0.52, 0.8)
    assert_exact(matcher, clauses, [{0: v, 1: w, 2: 0.2} for v in values for w in (0.1, 0.3, 0.31)])


@pytest.mark.parametrize("cells", [2, 3, 8, 40])
def test_a_full_cell_on_the_diagonal_is_divided_by_the_same_attribute_again(cells: int) -> None:
    """Three hundred single values and narrow ranges of one attribute, and a second attribute that tells less."""
    values = np.arange(300) / 299
    clauses: list[Clause] = [[(0, v, v), (1, 0.1, 0.7)] for v in values]
    clauses += [[(0, v, v + 0.002)] for v in values]
    matcher = GemTree(cells=cells, bucket=8, minimum=4)
    matcher.build(table(clauses), DOMAINS)
    tree = matcher._tree
    assert tree.triangle_scale[: tree.used[TRIANGLES]].max() >= min(300 // 8, cells**2)
    assert matcher.describe()["largest_bucket"] < 40
    assert_sound(matcher)
    events = [{0: v, 1: w} for v in [*values[::7], 0.0011, 0.5021, -1.0, 2.0] for w in (0.05, 0.5)]
    assert_exact(matcher, clauses, events)
    matcher.delete(np.arange(0, 600, 2, dtype=np.int32))
    clauses[::2] = [[] for _ in clauses[::2]]
    assert_exact(matcher, clauses, events)
    clauses[::2] = [[(0, v, v), (2, 0.2, 0.9)] for v in values]
    matcher.insert(np.arange(0, 600, 2, dtype=np.int32), table(clauses))
    assert_exact(matcher, clauses, [{**event, 2: 0.3} for event in events])
    assert_sound(matcher)


def test_equal_single_values_are_not_divided_again_and_again() -> None:
    clauses: list[Clause] = [[(0, 0.3, 0.3)] for _ in range(100)]
    matcher = GemTree(bucket=8, minimum=4)
    matcher.build(table(clauses), DOMAINS)
    assert matcher.describe()["triangles"] == 1
    assert assert_exact(matcher, clauses, [{0: 0.3}, {0: 0.31}]) == 100


def test_what_a_finer_cell_leaves_to_check_does_not_reach_other_branches() -> None:
    """Below one cell hang a finer triangle and one of another attribute; the latter still checks the coarse ends."""
    rising = np.arange(40) / 400
    clauses: list[Clause] = [[(0, low, low + 0.02), (1, 0.9, 0.9)] for low in rising]
    clauses += [[(0, 0.01, 0.12), (1, v, v)] for v in rising]
    matcher = GemTree(bucket=2, minimum=2)
    matcher.build(table(clauses), DOMAINS)
    events = [{0: v, 1: w} for v in (0.0, 0.009, 0.01, 0.05, 0.0999, 0.12, 0.121) for w in (0.9, *rising[::5])]
    assert assert_exact(matcher, clauses, events) > 20


def test_an_unbounded_predicate_asks_for_the_attribute_to_be_there() -> None:
    clauses: list[Clause] = [[(0, -np.inf, np.inf), (1, 0.2, 0.3)], [(0, -np.inf, np.inf)]] * 20
    for params in ({}, {"bucket": 2, "minimum": 1}):
        matcher = GemTree(**params)
        matcher.build(table(clauses), DOMAINS)
        assert assert_exact(matcher, clauses, [{1: 0.25}, {0: 0.5}, {0: 2.0, 1: 0.25}]) == 60


def test_bounds_that_share_a_code_are_told_apart() -> None:
    near = [0.5, float(np.nextafter(0.5, 1)), 0.5 + 1e-12, 0.5005, 0.503]
    clauses: list[Clause] = [[(0, low, high)] for low in near for high in near if low <= high] + [[(0, 0.2, 0.2)]]
    events = [{0: value} for value in [*near, 0.2, float(np.nextafter(0.2, 0)), 0.2004]]
    for params in ({}, {"bucket": 1, "minimum": 1}):
        matcher = GemTree(**params)
        matcher.build(table(clauses), DOMAINS)
        assert_exact(matcher, clauses, events)


def test_more_predicates_than_a_bucket_holds_are_checked_too() -> None:
    d = 14
    clauses: list[Clause] = [[(a, 0.1, 0.6 + 0.01 * a) for a in range(d)], [(13, 0.0, 1.0)]]
    domains = Domains(np.zeros(d), np.ones(d))
    matcher = GemTree()
    matcher.build(table(clauses[1:]), domains)
    matcher.insert(np.array([1], np.int32), table([clauses[1], clauses[0]]))
    events = [dict.fromkeys(range(d), 0.5), {**dict.fromkeys(range(d), 0.5), 13: 0.75}, {13: 0.5}]
    assert assert_exact(matcher, [clauses[1], clauses[0]], events) == 4


def test_words_and_nodes_are_used_again_after_many_changes(rng: np.random.Generator) -> None:
    clauses = [draw(rng) for _ in range(600)]
    matcher = GemTree(bucket=16, minimum=4)
    matcher.build(table(clauses), DOMAINS)
    for _ in range(30):
        some = np.sort(rng.permutation(600)[:200]).astype(np.int32)
        matcher.delete(some)
        for s in some:
            clauses[s] = draw(rng)
        matcher.insert(some, table(clauses))
    fresh = GemTree(bucket=16, minimum=4)
    fresh.build(table(clauses), DOMAINS)
    assert matcher.arrays()["word"].size < 4 * fresh.arrays()["word"].size
    assert matcher._tree.used[NODES] < 4 * fresh._tree.used[NODES]
    assert matcher._tree.node[: matcher._tree.used[NODES], SIZE].sum() >= 600
    assert_exact(matcher, clauses, some_events(rng, 20))


def test_saved_arrays_restore_the_same_matcher_that_can_go_on_changing(rng: np.random.Generator) -> None:
    clauses = [draw(rng) for _ in range(300)]
    matcher = GemTree(bucket=3, minimum=1, transform="quantiles", order="rank")
    matcher.build(table(clauses), DOMAINS)
    matcher.match_batch(columns(some_events(rng, 30)))
    matcher.adjust()
    matcher.delete(np.arange(50, dtype=np.int32))
    clauses[:50] = [[] for _ in range(50)]
    restored = GemTree(bucket=3, minimum=1, transform="quantiles", order="rank")
    restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, table(clauses), DOMAINS)
    assert restored.describe() == matcher.describe()
    assert_exact(restored, clauses, some_events(rng, 20))
    clauses[:50] = [draw(rng) for _ in range(50)]
    clauses += [draw(rng) for _ in range(100)]
    restored.insert(np.concatenate([np.arange(50), np.arange(300, 400)]).astype(np.int32), table(clauses))
    assert_exact(restored, clauses, some_events(rng, 20))
    assert_sound(restored)


def test_events_that_lack_an_attribute_make_it_come_first_after_adjustment() -> None:
    """Nobody sends attribute 1, so a clause that asks for it is best filed under it."""
    clauses: list[Clause] = [[(0, 0.4, 0.6), (1, 0.2, 0.8)] for _ in range(30)]
    matcher = GemTree(bucket=4, minimum=2)
    matcher.build(table(clauses), DOMAINS)
    assert matcher._tree.triangle_attribute[0] == 0
    assert not matcher.adjust()
    matcher.match_batch(columns([{0: 0.5, 2: 0.1}] * 100))
    assert matcher.adjust()
    assert matcher._tree.triangle_attribute[0] == 1
    assert assert_exact(matcher, clauses, [{0: 0.5}, {0: 0.5, 1: 0.5}]) == 30


def test_global_adjustment_orders_by_count_and_dispersion() -> None:
    clauses: list[Clause] = [[(0, 0.1, 0.1), (1 + s % 3, 0.1 * (s % 9), 0.1 * (s % 9))] for s in range(60)]
    matcher = GemTree(bucket=4, minimum=2, order="rank")
    matcher.build(table(clauses), DOMAINS)
    assert matcher._tree.triangle_attribute[0] == 0  # the most popular
    assert matcher.adjust()
    root_attributes = matcher._tree.triangle_attribute[matcher._tree.triangle_parent == 0]
    assert 0 not in root_attributes  # in all clauses, in one cell: last
    assert not matcher.adjust()
    assert_exact(matcher, clauses, [{0: 0.1, 1: 0.3, 2: 0.1, 3: 0.5}])


def test_the_global_order_takes_raw_or_normalised_sums() -> None:
    filed = np.array([[5, 5, 5], [12, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert global_order(filed, normalised=False).tolist() == [2, 3, 1, 0]
    # Dispersion counts as much as the number: 12 in one cell go behind 15 in three.
    assert global_order(filed, normalised=True).tolist() == [2, 3, 1, 0]
    assert global_order(np.array([[50, 50, 50], [100, 40, 0]]), normalised=True).tolist() == [0, 1]


def test_uniform_values_are_assumed_until_events_are_seen() -> None:
    rates = visiting_rates(nothing_seen(2, 4), 4).reshape(2, 10)
    np.testing.assert_allclose(rates[0, [0, 1, 3, 9]], [0.25, 0.5, 0.75 * 2**-0.085, 0.25], rtol=0.05)
    assert rates.max() == 1.0


def test_the_index_adjusts_where_the_matcher_can() -> None:
    subscriptions = es.Subscriptions(es.Schema({"price": es.Float(0, 100)}))
    subscriptions.add("a", "price > 5")
    index = es.build(subscriptions, matcher="gem-tree")
    index.match({"price": 7})
    assert index.adjust()
    assert index.match({"price": 7}) == ["a"]
    with pytest.raises(MatcherError, match="'simple' has nothing to adjust"):
        es.build(subscriptions, matcher="simple").adjust()


@pytest.mark.parametrize(
    "params",
    [
        {"cells": 0},
        {"cells": 300},
        {"bucket": 0},
        {"minimum": 0},
        {"events": 0},
        {"alpha": -1.0},
        {"order": "best"},
        {"transform": "gauss"},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MatcherError, match="gem-tree"):
        make_matcher("gem-tree", **params)
