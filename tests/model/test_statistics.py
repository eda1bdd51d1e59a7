"""The statistics record tells the truth, and records of parts merge into the record of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve.model.columns import ClauseTable, Domains, EventColumns, slice_events
from eventsieve.model.statistics import SETS_KEPT, SKETCH_SIZE, WIDTH_EDGES, Statistics, statistics_of

N_ATTRIBUTES = 6
DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.full(N_ATTRIBUTES, 10.0))


def _clauses(rng: np.random.Generator, n: int) -> ClauseTable:
    sizes = rng.integers(0, 4, n)
    attribute = np.concatenate(
        [np.empty(0, np.int32), *(np.sort(rng.permutation(N_ATTRIBUTES)[:size]) for size in sizes)]
    ).astype(np.int32)
    low = rng.uniform(0, 8, attribute.size)
    high = low + rng.choice([0.0, 0.5, 2.0, np.inf], attribute.size)
    stop = np.cumsum(sizes)
    return ClauseTable(stop - sizes, stop, attribute, low, high)


def _part(clauses: ClauseTable, first: int, stop: int) -> ClauseTable:
    return clauses._replace(start=clauses.start[first:stop], stop=clauses.stop[first:stop])


def _events(rng: np.random.Generator, n: int, values: int = 4) -> EventColumns:
    attribute = np.concatenate([np.sort(rng.permutation(N_ATTRIBUTES)[:values]) for _ in range(n)]).astype(np.int32)
    return EventColumns(np.arange(n + 1) * values, attribute, rng.uniform(-1, 11, n * values))


def _assert_counts_equal(one: Statistics, other: Statistics) -> None:
    assert one.n_clauses == other.n_clauses
    for name in ("clauses_of_attribute", "clauses_of_size", "width_classes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.width_sum, other.width_sum)
    np.testing.assert_array_equal(one.bounds.count, other.bounds.count)
    assert one.sets.top == other.sets.top
    np.testing.assert_array_equal(one.sets.sketch, other.sets.sketch)


def test_counts_widths_and_sets_of_a_small_table() -> None:
    clauses = ClauseTable(
        start=np.array([0, 2, 2, 3]),
        stop=np.array([2, 2, 3, 5]),
        attribute=np.array([0, 3, 3, 0, 3], np.int32),
        low=np.array([1.0, -np.inf, 5.0, 2.0, 20.0]),
        high=np.array([2.0, 5.0, 5.0, 4.0, np.inf]),
    )
    statistics = statistics_of(clauses, DOMAINS)
    assert statistics.n_clauses == 3
    assert statistics.n_predicates == 5
    assert statistics.clauses_of_size.tolist() == [0, 1, 2]
    assert statistics.frequency.tolist() == pytest.approx([2 / 3, 0, 0, 1, 0, 0])
    # [1, 2] and [2, 4] of 10; then (-inf, 5], the single value 5, and a range wholly above the domain.
    assert statistics.mean_width.tolist() == pytest.approx([0.15, 1, 1, 0.5 / 3, 1, 1])
    assert statistics.width_classes[3, 0] == 2
    assert statistics.width_classes[3, WIDTH_EDGES.index(1 / 2)] == 1
    assert statistics.sets.top == (((0, 3), 2), ((3,), 1))
    assert statistics.sets.distinct == 2
    assert statistics.bounds.count.tolist() == [4, 0, 0, 4, 0, 0]
    assert statistics.bounds.value[0, [0, -1]].tolist() == [1.0, 4.0]
    assert np.isnan(statistics.bounds.value[1]).all()
    assert statistics.match_rate is None


def test_no_clauses_give_an_empty_record_that_merges() -> None:
    empty = ClauseTable(*(np.empty(0, dtype) for dtype in (np.int64, np.int64, np.int32, np.float64, np.float64)))
    nothing = statistics_of(empty, DOMAINS, EventColumns(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)))
    assert nothing.n_clauses == 0
    assert nothing.mean_size == 0
    assert nothing.match_rate is None
    something = statistics_of(_clauses(np.random.default_rng(5), 50), DOMAINS)
    _assert_counts_equal(nothing.merge(something), something)
    np.testing.assert_array_equal(nothing.merge(something).bounds.value, something.bounds.value)


def test_parts_merge_into_the_whole_in_any_order(rng: np.random.Generator) -> None:
    clauses, events = _clauses(rng, 900), _events(rng, 40)
    whole = statistics_of(clauses, DOMAINS, events)
    parts = [statistics_of(_part(clauses, at, at + 300), DOMAINS, events) for at in (0, 300, 600)]
    for order in ((0, 1, 2), (2, 0, 1)):
        merged = parts[order[0]].merge(parts[order[1]]).merge(parts[order[2]])
        _assert_counts_equal(merged, whole)
        assert merged.match_rate == pytest.approx(whole.match_rate)
        for a in range(N_ATTRIBUTES):
            np.testing.assert_allclose(merged.bounds.value[a], whole.bounds.value[a], atol=0.5)
            assert merged.bounds.value[a, [0, -1]].tolist() == whole.bounds.value[a, [0, -1]].tolist()


def test_the_match_rate_and_the_matchability_are_those_of_a_full_count(rng: np.random.Generator) -> None:
    clauses, events = _clauses(rng, 400), _events(rng, 30)
    statistics = statistics_of(clauses, DOMAINS, events)
    matched = 0
    satisfied: NDArray[np.int64] = np.zeros(N_ATTRIBUTES, np.int64)
    for e in range(30):
        event = slice_events(events, e, e + 1)
        values = dict(zip(event.attribute.tolist(), event.value.tolist(), strict=True))
        for start, stop in zip(clauses.start, clauses.stop, strict=True):
            holds = [
                clauses.low[p] <= values.get(int(clauses.attribute[p]), np.nan) <= clauses.high[p]
                for p in range(start, stop)
            ]
            satisfied[clauses.attribute[start:stop][holds]] += 1
            matched += bool(holds) and all(holds)
    assert statistics.events is not None
    assert statistics.events.satisfied.tolist() == satisfied.tolist()
    assert statistics.match_rate == matched / (30 * statistics.n_clauses)
    assert statistics.events.present.sum() == 120


def test_many_attribute_sets_are_counted_within_a_few_percent() -> None:
    n, size, n_attributes = 20_000, 6, 40
    rng = np.random.default_rng(3)
    attribute = np.sort(np.argsort(rng.random((n, n_attributes)), axis=1)[:, :size], axis=1).astype(np.int32)
    start = np.arange(n) * size
    clauses = ClauseTable(start, start + size, attribute.ravel(), np.zeros(n * size), np.ones(n * size))
    statistics = statistics_of(clauses, Domains(np.zeros(n_attributes), np.ones(n_attributes)))
    truth = len(np.unique(attribute, axis=0))
    assert statistics.sets.sketch.size == SKETCH_SIZE
    assert len(statistics.sets.top) == SETS_KEPT
    assert statistics.sets.distinct == pytest.approx(truth, rel=0.1)


def test_records_of_different_schemas_are_not_merged() -> None:
    clauses = _clauses(np.random.default_rng(5), 10)
    wider = statistics_of(clauses, Domains(np.zeros(9), np.ones(9)))
    with pytest.raises(ValueError, match="6 and 9 attributes"):
        statistics_of(clauses, DOMAINS).merge(wider)
