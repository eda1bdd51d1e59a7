"""REIN, REIN-F and REIN-O beyond the common suite: their own modes, several blocks, and what they store."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.errors import MatcherError
from eventsieve.matchers.registry import make_matcher
from eventsieve.matchers.rein import Rein, ReinF
from eventsieve.matchers.rein_o import ReinO
from eventsieve.model.columns import ClauseTable
from eventsieve.model.transform import TransformChoice
from tests.matchers.dense import DOMAINS, Table, matched, random_values

MODES = {
    "rein": lambda **more: Rein(**more),
    "rein walk": lambda **more: Rein(absent="walk", **more),
    "rein-f": lambda **more: ReinF(**more),
    "rein-f walk": lambda **more: ReinF(absent="walk", **more),
    "rein-o": lambda **more: ReinO(**more),
    "rein-o satisfied": lambda **more: ReinO(walk="satisfied", **more),
}


def new_table(n_slots: int, seed: int) -> Table:
    """Return clauses that ask for few, some or all of the attributes."""
    popularity = np.random.default_rng(seed + 1).choice([0.2, 0.5, 1.0], (n_slots, 1))
    return Table(n_slots, seed, popularity, open_share=0.3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("buckets", [1, 6, 1000])
@pytest.mark.parametrize("n_slots", [1, 63, 64, 65, 500])
def test_every_mode_equals_brute_force(mode: str, buckets: int, n_slots: int) -> None:
    table = new_table(n_slots, seed=n_slots)
    matcher = MODES[mode](buckets=buckets)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(40, seed=buckets)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("mode", MODES)
def test_slots_beyond_one_block_are_found(mode: str) -> None:
    table = new_table(2 * BLOCK_SLOTS + 100, seed=1)
    matcher = MODES[mode](buckets=50)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(4, seed=2)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("mode", MODES)
def test_growing_into_a_new_block_in_place(mode: str) -> None:
    table = new_table(BLOCK_SLOTS + 200, seed=3)
    asked = table.asked.copy()
    table.asked[BLOCK_SLOTS - 100 :] = False
    first = table.clauses()
    matcher = MODES[mode](buckets=50)
    matcher.build(ClauseTable(*(column[: BLOCK_SLOTS - 100] for column in first[:2]), *first[2:]), DOMAINS)
    table.asked = asked
    matcher.insert(np.arange(BLOCK_SLOTS - 100, BLOCK_SLOTS + 200, dtype=np.int32), table.clauses())
    values = random_values(4, seed=4)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("mode", MODES)
def test_any_order_of_changes_with_reused_slots(mode: str) -> None:
    """Slots are freed and taken by other clauses, over and over; the arrays survive a round trip at each turn."""
    rng = np.random.default_rng(5)
    table = new_table(130, seed=6)
    matcher = MODES[mode](buckets=9)
    matcher.build(table.clauses(), DOMAINS)
    for turn in range(12):
        slots = np.sort(rng.choice(130, rng.integers(1, 60), replace=False)).astype(np.int32)
        matcher.delete(slots[table.asked[slots].any(axis=1)])
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
        restored = MODES[mode](buckets=9)
        restored.restore({name: array.copy() for name, array in matcher.arrays().items()}, table.clauses(), DOMAINS)
        assert matched(restored, values) == matched(matcher, values) == table.answer(values)
        matcher = restored


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", ["quantiles", "normal 0.5 0.1", {1: "quantiles"}])
def test_a_value_transform_changes_cells_and_not_answers(mode: str, transform: TransformChoice) -> None:
    table = new_table(200, seed=7)
    matcher = MODES[mode](buckets=20, transform=transform)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(40, seed=8)
    assert matched(matcher, values) == table.answer(values)


def test_open_ends_take_no_room_where_they_are_not_needed() -> None:
    """REIN looks for ends that a value fails: an open one never does. REIN-O must find it."""
    ends = np.array([-np.inf, 0.5])
    numbers = np.arange(2, dtype=np.int64)
    clauses = ClauseTable(numbers, numbers + 1, np.zeros(2, np.int32), ends, np.array([0.5, np.inf]))
    entries = {}
    for mode, make in MODES.items():
        matcher = make()
        matcher.build(clauses, DOMAINS)
        entries[mode] = matcher.describe()["entries"]
    assert entries == {
        "rein": 2,
        "rein walk": 3,
        "rein-f": 2,
        "rein-f walk": 3,
        "rein-o": 4,
        "rein-o satisfied": 3,
    }


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("rein", {"absent": "skip"}, "absent must be 'bitset' or 'walk', not 'skip'"),
        ("rein-o", {"walk": "longest"}, "walk must be 'shortest' or 'satisfied', not 'longest'"),
        ("rein-f", {"buckets": 0}, "buckets must be from 1 to"),
        ("rein", {"transform": "logarithm"}, "no transform reads 'logarithm'"),
    ],
)
def test_wrong_parameters_are_refused_with_the_choices(name: str, params: dict[str, object], reason: str) -> None:
    with pytest.raises(MatcherError, match=reason):
        make_matcher(name, **params)


def test_a_transform_of_an_unknown_attribute_is_refused_at_build() -> None:
    matcher = Rein(transform={99: "quantiles"})
    with pytest.raises(MatcherError, match="there is no attribute 99"):
        matcher.build(new_table(3, seed=1).clauses(), DOMAINS)
