"""HEM beyond the common suite: its ways of walking and planning, several blocks, the tail and its filing, the plans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import eventsieve as es
from eventsieve.errors import MatcherError
from eventsieve.matchers.hem import Hem
from eventsieve.matchers.hem.filing import FEWEST_STALE
from eventsieve.matchers.hem.plan import Costs, choose_in_turn, choose_optimal, plan_cost, sort_by_matching
from eventsieve.matchers.hem.seats import BLOCK_SEATS
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable
from eventsieve.model.transform import TransformChoice
from tests.matchers.dense import DOMAINS, N_ATTRIBUTES, Table, matched, random_values

WAYS = {
    "default": {},
    "unmatched": {"walk": "unmatched"},
    "given": {"order": "given"},
    "optimal": {"order": "optimal"},
}
POPULARITY = np.array([1.0, 0.9, 0.6, 0.3, 0.05])
"""The first attributes are popular enough for a column, the last is not."""


def new_table(n_slots: int, seed: int) -> Table:
    return Table(n_slots, seed, POPULARITY)


# -- matching ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tau", [1, 3, 80])
@pytest.mark.parametrize("n_slots", [1, 64, 65, 5000])
def test_every_way_equals_brute_force(way: str, tau: int, n_slots: int) -> None:
    table = new_table(n_slots, seed=n_slots)
    matcher = Hem(tau=tau, **WAYS[way])
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(40, seed=tau)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("built", [True, False])
def test_ends_and_values_of_one_code_are_compared_exactly(built: bool) -> None:
    """All intervals over neighbouring floats around the borders of grids, with every value among them.

    They stand in the triangle if the index was built with them, and in the tail if they came later.
    """
    points = sorted({f(x) for x in (0.0, 0.25, 0.5, 1.0) for f in (float, lambda x: np.nextafter(x, 9))})
    intervals = [(low, high) for low, high in product(points, points) if low <= high]
    numbers = np.arange(len(intervals), dtype=np.int64)
    low, high = (np.array(ends) for ends in zip(*intervals, strict=True))
    clauses = ClauseTable(numbers, numbers + 1, np.zeros(len(intervals), np.int32), low, high)
    matcher = Hem(tau=2)
    if built:
        matcher.build(clauses, DOMAINS)
    else:
        matcher.build(clauses._replace(start=numbers[:0], stop=numbers[:0]), DOMAINS)
        matcher.insert(numbers.astype(np.int32), clauses)
        assert matcher.describe()["tail_clauses"] == len(intervals)
    values = np.full((len(points), N_ATTRIBUTES), np.nan)
    values[:, 0] = points
    truth = [set(np.flatnonzero((low <= point) & (point <= high)).tolist()) for point in points]
    assert matched(matcher, values) == truth


@pytest.mark.parametrize("transform", ["quantiles", "normal 0.5 0.1", {1: "quantiles"}])
def test_a_value_transform_changes_grids_and_not_answers(transform: TransformChoice) -> None:
    table = new_table(2000, seed=7)
    matcher = Hem(transform=transform)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(40, seed=8)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("way", ["default", "unmatched"])
def test_slots_beyond_one_block_are_found_and_inserted(way: str) -> None:
    present = BLOCK_SEATS * 15 // 16
    table = new_table(BLOCK_SEATS + 4000, seed=3)
    asked = table.asked.copy()
    table.asked[present:] = False
    first = table.clauses()
    matcher = Hem(**WAYS[way])
    matcher.build(ClauseTable(*(column[:present] for column in first[:2]), *first[2:]), DOMAINS)
    assert matcher.describe()["blocks"] == 1
    table.asked = asked
    matcher.insert(np.arange(present, BLOCK_SEATS + 4000, dtype=np.int32), table.clauses())
    values = random_values(4, seed=4)
    assert matched(matcher, values) == table.answer(values)
    assert matcher.describe()["blocks"] == 2


# -- changing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_any_order_of_changes_with_reused_slots(way: str) -> None:
    """Slots are freed and taken by other clauses, over and over; the arrays survive a round trip at each turn."""
    rng = np.random.default_rng(5)
    table = new_table(130, seed=6)
    matcher = Hem(tau=4, **WAYS[way])
    matcher.build(table.clauses(), DOMAINS)
    for turn in range(12):
        slots = np.sort(rng.choice(130, rng.integers(1, 60), replace=False)).astype(np.int32)
        matcher.delete(slots)
        table.asked[slots] = False
        matcher.rebind(table.clauses())
        values = random_values(10, seed=turn)
        assert matched(matcher, values) == table.answer(values)
        other = new_table(130, seed=100 + turn)
        table.low[slots], table.high[slots], table.asked[slots] = (
            other.low[slots],
            other.high[slots],
            other.asked[slots],
        )
        matcher.insert(slots, table.clauses())
        restored = Hem(tau=4, **WAYS[way])
        restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, table.clauses(), DOMAINS)
        assert matched(restored, values) == matched(matcher, values) == table.answer(values)
        matcher = restored


def restored_copy(matcher: Hem, clauses: ClauseTable) -> Hem:
    copy = Hem(**matcher.params)
    copy.restore({name: array.copy() for name, array in matcher.arrays().items()}, clauses, DOMAINS)
    return copy


def n_entries(matcher: Hem) -> int:
    """Count the entries of all lists, which must have room for them."""
    arrays = matcher.arrays()
    n_heads = arrays["rows"].astype(np.int64) * (arrays["rows"] + 1) + 1
    sizes = arrays["head"].reshape(-1, n_heads.sum())[:, np.cumsum(n_heads) - 1].ravel()
    assert (sizes <= arrays["room"]).all()
    return int(sizes.sum())


def orders() -> Iterator[tuple[str, Table]]:
    """Clauses in orders that are hard on lists: by rising and falling ends, all the same, and any."""
    for name in ("rising", "falling", "alike", "any"):
        table = new_table(1500, seed=41)
        order = np.lexsort((table.high[:, 0], table.low[:, 0]))
        if name == "alike":
            order[:] = order[0]
            table.asked[order[0]] = True
        elif name != "any":
            order = order if name == "rising" else order[::-1].copy()
        if name != "any":
            table.low, table.high, table.asked = table.low[order], table.high[order], table.asked[order]
        yield name, table


@pytest.mark.parametrize("table", [pytest.param(table, id=name) for name, table in orders()])
def test_insertions_and_deletions_across_the_border_of_the_tail(table: Table) -> None:
    """Some come and go within the tail, some are filed, some go afterwards; every step agrees with brute force."""
    rng = np.random.default_rng(42)
    clauses, asked = table.clauses(), table.asked.copy()
    present = asked.any(axis=1) & (np.arange(1500) < 700)
    matcher = Hem()
    matcher.build(clauses._replace(stop=np.where(present, clauses.stop, clauses.start)), DOMAINS)
    lengths = set()
    for turn in range(24):
        coming = rng.permutation(np.flatnonzero(~present & asked.any(axis=1)))[: rng.integers(0, 90)]
        matcher.insert(coming.astype(np.int32), clauses)
        present[coming] = True
        # Half of those that have just come, and some of all.
        going = np.union1d(coming[::2], rng.permutation(np.flatnonzero(present))[:20])
        matcher.delete(going.astype(np.int32))
        present[going] = False
        table.asked = asked & present[:, None]
        values = random_values(8, seed=turn)
        assert matched(matcher, values) == table.answer(values)
        facts = matcher.describe()
        lengths.add(facts["tail_clauses"])
        assert n_entries(matcher) == facts["entries"]
        if turn % 3 == 2:
            matcher = restored_copy(matcher, clauses)
    assert min(lengths) < 32 < max(lengths) <= 64


def test_a_clause_that_goes_before_it_is_filed_leaves_nothing_behind() -> None:
    table = new_table(2000, seed=51)
    matcher = Hem()
    clauses = table.clauses()
    matcher.build(clauses._replace(start=clauses.start[:1900], stop=clauses.stop[:1900]), DOMAINS)
    before = matcher.describe()
    slots = np.flatnonzero(table.asked.any(axis=1))
    newcomers = slots[slots >= 1900][:50].astype(np.int32)
    for _ in range(10):
        matcher.insert(newcomers, clauses)
        assert matcher.describe() == {**before, "tail_clauses": 50}
        matcher.delete(newcomers)
        assert matcher.describe() == before
    table.asked[1900:] = False
    values = random_values(20, seed=52)
    assert matched(matcher, values) == table.answer(values)


def test_lists_move_when_clauses_begin_to_ask_for_other_attributes() -> None:
    """Built on the first attributes only; then thousands ask for the last one, which has had no room so far."""
    table = new_table(4000, seed=61)
    table.asked[:] = False
    table.asked[:2000, :2] = True
    table.asked[2000:, 4] = True
    clauses = table.clauses()
    matcher = Hem()
    matcher.build(clauses._replace(start=clauses.start[:2000], stop=clauses.stop[:2000]), DOMAINS)
    matcher.insert(np.arange(2000, 4000, dtype=np.int32), clauses)
    assert n_entries(matcher) == matcher.describe()["entries"] > 5000
    values = random_values(20, seed=62)
    assert matched(matcher, values) == matched(restored_copy(matcher, clauses), values) == table.answer(values)


def test_a_snapshot_holds_what_is_in_the_tail(tmp_path: Path) -> None:
    """Saved with a tail in part full, opened by memory map, changed there on past its filing, on one thread and two."""
    schema = es.Schema({"x": es.Float(0, 1), "n": es.Int(0, 9)})
    index = es.build(es.Subscriptions(schema), matcher="hem")
    for number in range(40):
        index.add(number, f"x > 0.{number:02} AND n < {number % 10}")
    index.remove_many(range(0, 40, 4))
    index.save(tmp_path / "snapshot")
    opened = es.load(tmp_path / "snapshot")
    assert opened.describe()["tail_clauses"] == 30
    for number in range(40, 140):
        for each in (index, opened):
            each.add(number, f"x > 0.{number % 100:02} AND n < {number % 10}")
    opened.remove_many(range(41, 140, 4))
    index.remove_many(range(41, 140, 4))
    assert opened.describe()["tail_clauses"] < 64 < len(opened)
    events = [{"x": 0.255, "n": 3}, {"x": 0.25, "n": 0}, {"x": 0.9}, {}]
    for threads in (1, 2):
        found = [set(opened.match_batch(events, threads=threads).of(e)) for e in range(4)]
        assert found == [set(index.match(event)) for event in events]
    gone = {*range(0, 40, 4), *range(41, 140, 4)}
    assert found[0] == {
        number for number in range(140) if number not in gone and number % 100 < 25.5 and number % 10 > 3
    }


def alike(n: int) -> ClauseTable:
    numbers = np.arange(n, dtype=np.int64)
    return ClauseTable(numbers, numbers + 1, np.zeros(n, np.int32), np.full(n, 0.2), np.full(n, 0.7))


def test_one_grid_can_take_everything_and_give_it_up_again() -> None:
    """All clauses alike, inserted in rising steps and deleted in any order: no entry is lost or left behind."""
    matcher = Hem()
    matcher.build(alike(1), DOMAINS)
    present = 1
    for size in (10, 100, 900, 2900):
        matcher.insert(np.arange(present, present + size, dtype=np.int32), alike(present + size))
        present += size
    values = np.full((2, N_ATTRIBUTES), np.nan)
    values[:, 0] = 0.5, 0.71
    assert matched(matcher, values) == [set(range(present)), set()]
    gone = np.random.default_rng(9).permutation(present).astype(np.int32)
    for part in np.array_split(gone, 4):
        matcher.delete(part)
    assert matched(matcher, values) == [set(), set()]
    left = matcher.describe()
    assert n_entries(matcher) == left["entries"] == left["stale_clauses"] <= FEWEST_STALE
    # As many again: they are given the stale seats too.
    matcher.insert(np.arange(present, dtype=np.int32), alike(present))
    assert matched(matcher, values) == [set(range(present)), set()]


def test_deleted_clauses_leave_their_entries_until_there_are_many_of_them() -> None:
    """Their slots are taken by other clauses at once, before and after a round trip; then a rewrite drops them."""
    table = new_table(2000, seed=21)
    matcher = Hem()
    matcher.build(table.clauses(), DOMAINS)
    before = matcher.describe()["entries"]
    values = random_values(40, seed=22)
    slots = np.arange(0, 2 * FEWEST_STALE, 2, dtype=np.int32)
    matcher.delete(slots)
    assert matcher.describe()["stale_clauses"] == np.count_nonzero(table.asked[slots].any(axis=1))
    assert matcher.describe()["entries"] == before
    table.asked[slots] = False
    assert matched(matcher, values) == table.answer(values)
    restored = restored_copy(matcher, table.clauses())
    other = new_table(2000, seed=23)
    few = slots[:60]
    for column in ("low", "high", "asked"):
        getattr(table, column)[few] = getattr(other, column)[few]
    for changed in (matcher, restored):
        changed.insert(few, table.clauses())
        assert matched(changed, values) == table.answer(values)
        assert changed.describe()["entries"] == before
        # One more deletion than is left lying about.
        changed.delete(np.array([1, 3], np.int32))
        assert changed.describe()["stale_clauses"] <= 1
    table.asked[[1, 3]] = False
    for changed in (matcher, restored):
        assert changed.describe()["entries"] == n_entries(changed)
        assert matched(changed, values) == table.answer(values)


def test_a_full_block_uses_stale_seats_again_before_there_is_another_block() -> None:
    n_slots = BLOCK_SEATS * 15 // 16
    table = new_table(n_slots, seed=31)
    matcher = Hem()
    matcher.build(table.clauses(), DOMAINS)
    rng = np.random.default_rng(32)
    values = random_values(3, seed=33)
    for turn in range(4):
        slots = rng.choice(n_slots, 3000, replace=False).astype(np.int32)
        other = new_table(n_slots, seed=34 + turn)
        matcher.delete(slots)
        for column in ("low", "high", "asked"):
            getattr(table, column)[slots] = getattr(other, column)[slots]
        matcher.insert(slots, table.clauses())
        assert matched(matcher, values) == table.answer(values)
    assert matcher.describe()["blocks"] == 1


def test_rows_and_columns_are_chosen_anew_when_the_index_outgrows_them() -> None:
    """Built empty, a matcher has neither; after thousands of insertions it has both, and the same answers."""
    table = new_table(6000, seed=11)
    clauses = table.clauses()
    matcher = Hem()
    matcher.build(clauses._replace(start=clauses.start[:0], stop=clauses.stop[:0]), DOMAINS)
    assert matcher.describe()["columns"] == 0
    for stop in range(1000, 6001, 1000):
        grown = clauses._replace(start=clauses.start[:stop], stop=clauses.stop[:stop])
        matcher.insert(np.arange(stop - 1000, stop, dtype=np.int32), grown)
    assert matcher.describe()["columns"] == 4
    assert matcher.describe()["rows"][0] > 8
    values = random_values(20, seed=12)
    assert matched(matcher, values) == table.answer(values)


# -- planning ------------------------------------------------------------------------------------------------


def costs_of(rng: np.random.Generator, n: int) -> Costs:
    matching = rng.random(n)
    return Costs(matching, 1.0 - matching, np.ones(n))


def as_set(walked: np.ndarray) -> int:
    return sum(1 << j for j in np.flatnonzero(walked).tolist())


def test_the_optimal_plan_is_the_least_of_all_and_the_near_optimal_one_is_near() -> None:
    """Formula (5) over all sets of walked attributes; planning in turn costs at most a fifth more on average."""
    rng = np.random.default_rng(13)
    ratios = []
    for _ in range(50):
        costs, queue = costs_of(rng, 6), np.empty(6, np.int32)
        walked, walked_in_turn = np.empty(6, np.bool_), np.empty(6, np.bool_)
        sort_by_matching(costs.matching, 6, queue)
        assert queue.tolist() == np.argsort(costs.matching, kind="stable").tolist()
        choose_optimal(costs, 1.0, queue, 6, walked)
        choose_in_turn(costs, 1.0, queue, 6, walked_in_turn)
        least = min(plan_cost(costs, 1.0, queue, 6, subset) for subset in range(64))
        assert plan_cost(costs, 1.0, queue, 6, as_set(walked)) == least
        ratios.append(plan_cost(costs, 1.0, queue, 6, as_set(walked_in_turn)) / least)
    assert 1.0 <= np.mean(ratios) < 1.2


def test_the_first_attribute_is_walked_and_later_ones_are_checked() -> None:
    """Observation 1; and with a tenth left, looking at that tenth is cheaper than walking half."""
    costs = Costs(np.array([0.5, 0.1, 0.6]), np.array([0.5, 0.9, 0.4]), np.ones(3))
    queue, walked = np.empty(3, np.int32), np.empty(3, np.bool_)
    sort_by_matching(costs.matching, 3, queue)
    choose_in_turn(costs, 1.0, queue, 3, walked)
    assert queue.tolist() == [1, 0, 2]
    assert walked.tolist() == [False, True, False]


# -- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"tau": 0}, "tau must be from 1 to"),
        ({"order": "best"}, "order must be one of 'near-optimal', 'optimal', 'given', not 'best'"),
        ({"walk": "both"}, "walk must be 'shorter' or 'unmatched', not 'both'"),
        ({"transform": "logarithm"}, "no transform reads 'logarithm'"),
    ],
)
def test_wrong_parameters_are_refused_with_the_choices(params: dict[str, object], reason: str) -> None:
    with pytest.raises(MatcherError, match=reason):
        make_matcher("hem", **params)


def test_the_optimal_order_is_refused_for_many_attributes() -> None:
    subscriptions = es.Subscriptions(es.Schema({f"a{number}": es.Float(0, 1) for number in range(9)}))
    with pytest.raises(MatcherError, match="at most 8 attributes"):
        es.build(subscriptions, matcher="hem", order="optimal")
