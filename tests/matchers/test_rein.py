"""REIN, REIN-F and REIN-O beyond the common suite: their own modes, several blocks, and what they store."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.errors import MatcherError
from eventsieve.matchers.registry import make_matcher
from eventsieve.matchers.rein import Rein, ReinF
from eventsieve.matchers.rein_index import ReinIndex
from eventsieve.matchers.rein_o import ReinO
from eventsieve.model.columns import ClauseTable, Domains, EventColumns
from eventsieve.model.transform import TransformChoice

MODES = {
    "rein": lambda **more: Rein(**more),
    "rein walk": lambda **more: Rein(absent="walk", **more),
    "rein-f": lambda **more: ReinF(**more),
    "rein-f walk": lambda **more: ReinF(absent="walk", **more),
    "rein-o": lambda **more: ReinO(**more),
    "rein-o satisfied": lambda **more: ReinO(walk="satisfied", **more),
}
N_ATTRIBUTES = 5
DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))


class Table:
    """Clauses as one dense interval per slot and attribute, from which tables and answers are derived."""

    def __init__(self, n_slots: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ends = np.sort(rng.choice(np.linspace(-0.1, 1.1, 25), (n_slots, N_ATTRIBUTES, 2)), axis=2)
        ends[..., 0][rng.random((n_slots, N_ATTRIBUTES)) < 0.3] = -np.inf
        ends[..., 1][rng.random((n_slots, N_ATTRIBUTES)) < 0.3] = np.inf
        self.low, self.high = ends[..., 0], ends[..., 1]
        self.asked = rng.random((n_slots, N_ATTRIBUTES)) < rng.choice([0.2, 0.5, 1.0], (n_slots, 1))

    def clauses(self) -> ClauseTable:
        counts = self.asked.sum(axis=1)
        stop = np.cumsum(counts).astype(np.int64)
        attribute = np.nonzero(self.asked)[1].astype(np.int32)
        return ClauseTable(stop - counts, stop, attribute, self.low[self.asked], self.high[self.asked])

    def answer(self, values: np.ndarray) -> list[set[int]]:
        """Per event of a dense table, NaN where an attribute is absent, the slots that match."""
        found = []
        for row in values:
            holds = ~self.asked | ((self.low <= row) & (row <= self.high))
            found.append(set(np.flatnonzero(holds.all(axis=1) & self.asked.any(axis=1)).tolist()))
        return found


def random_values(n_events: int, seed: int) -> np.ndarray:
    """Values that often equal bounds, some outside the domain; sparse events, full ones, and an empty one."""
    rng = np.random.default_rng(seed)
    values = rng.choice(np.linspace(-0.2, 1.2, 57), (n_events, N_ATTRIBUTES))
    values[rng.random(values.shape) < rng.choice([0.0, 0.3, 0.8], (n_events, 1))] = np.nan
    values[0] = np.nan
    return values


def event_columns(values: np.ndarray) -> EventColumns:
    present = ~np.isnan(values)
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return EventColumns(start, np.nonzero(present)[1].astype(np.int32), values[present])


def matched(matcher: ReinIndex, values: np.ndarray) -> list[set[int]]:
    start, slots = matcher.match_batch(event_columns(values))
    found = [slots[first:stop].tolist() for first, stop in pairwise(start)]
    assert all(len(slots) == len(set(slots)) for slots in found)
    return [set(slots) for slots in found]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("buckets", [1, 6, 1000])
@pytest.mark.parametrize("n_slots", [1, 63, 64, 65, 500])
def test_every_mode_equals_brute_force(mode: str, buckets: int, n_slots: int) -> None:
    table = Table(n_slots, seed=n_slots)
    matcher = MODES[mode](buckets=buckets)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(40, seed=buckets)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("mode", MODES)
def test_slots_beyond_one_block_are_found(mode: str) -> None:
    table = Table(2 * BLOCK_SLOTS + 100, seed=1)
    matcher = MODES[mode](buckets=50)
    matcher.build(table.clauses(), DOMAINS)
    values = random_values(4, seed=2)
    assert matched(matcher, values) == table.answer(values)


@pytest.mark.parametrize("mode", MODES)
def test_growing_into_a_new_block_in_place(mode: str) -> None:
    table = Table(BLOCK_SLOTS + 200, seed=3)
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
    table = Table(130, seed=6)
    matcher = MODES[mode](buckets=9)
    matcher.build(table.clauses(), DOMAINS)
    for turn in range(12):
        slots = np.sort(rng.choice(130, rng.integers(1, 60), replace=False)).astype(np.int32)
        matcher.delete(slots[table.asked[slots].any(axis=1)])
        table.asked[slots] = False
        matcher.rebind(table.clauses())
        values = random_values(10, seed=turn)
        assert matched(matcher, values) == table.answer(values)
        other = Table(130, seed=100 + turn)
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
    table = Table(200, seed=7)
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
        matcher.build(Table(3, seed=1).clauses(), DOMAINS)
