"""Rows made beforehand rule out only what fails, in every block, and matching by them is exact."""

from __future__ import annotations

import numpy as np
import pytest

import eventsieve as es
from eventsieve.matchers.checked_blocks import events_at_once
from eventsieve.matchers.prepared_rows import group_cells, groups_for
from eventsieve.matchers.spare_rein import SpareRein
from eventsieve.workload import Workload, standard
from tests.conformance.test_arrays import pairs


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times on a busy machine must not decide what is tested."""
    monkeypatch.setattr(SpareRein, "_is_quicker", lambda self, lists: True)


def built(workload: Workload, **params: object) -> es.Index:
    index = es.build(workload.subscriptions(seed=1), matcher="spare-rein", ladder=[0.05], **params)
    index.learn(workload.events(200, seed=3))
    return index


def test_matching_by_rows_is_exact_in_all_blocks_and_groups_of_events() -> None:
    """Two blocks, the second nearly empty, and more events than are matched as one group."""
    workload = standard("ticks", n=33_000, attribute_skew=0.0)
    events = workload.events(70, seed=2)
    index = built(workload)
    exact = pairs(es.build(workload.subscriptions(seed=1), matcher="sieve").match_batch(events))
    plan = index.skip_plan(0.0)
    assert plan.lists[0] >= plan.rows > 40, "rows stand in for the lists of the first block"
    assert "are read in place of lists" in str(plan)
    assert index.describe()["prepared_rows"] > 1 << 20
    assert events_at_once(70, 2) < 70
    for threads in (1, 2):
        assert pairs(index.match_batch(events, threads=threads)) == exact
    assert pairs(index.match_batch(events, false_positive=0.05)) >= exact
    first = {key for key in exact if key[0] == 0}
    assert {(0, id) for id in index.match_batch(events.part(0, 1)).of(0)} == first


def test_new_subscriptions_in_old_slots_and_new_blocks_are_found() -> None:
    workload = standard("ticks", n=32_700, attribute_skew=0.0)
    events = workload.events(20, seed=2)
    index = built(workload)
    index.skip_plan(0.0)
    index.remove_many(list(range(0, 32_700, 30)))
    more = es.Subscriptions(workload.schema())
    for number in range(1200):
        more.add(40_000 + number, f"price >= {number % 900} AND beta <= {3 - number % 7 / 4}")
    index.extend(more)
    assert pairs(index.match_batch(events)) == pairs(es.build(index.subscriptions, matcher="sieve").match_batch(events))


def test_more_matches_than_expected_are_matched_in_several_rounds() -> None:
    """The room for results is guessed from the sample, which here shows events that match nothing."""
    schema = es.Schema({"x": es.Float(0, 1), "y": es.Float(0, 1)})
    subs = es.Subscriptions(schema)
    for number in range(4000):
        subs.add(number, f"x < 0.5 AND y < {0.3 + number / 10_000}")
    index = es.build(subs, matcher="spare-rein", ladder=[0.05])
    index.learn([{"x": 0.99, "y": 0.99}] * 50)
    assert index.skip_plan(0.0).skipped == 8000
    found = index.match_batch([{"x": 0.1, "y": number / 100} for number in range(100)])
    assert np.diff(found.event_start).tolist() == [
        int((0.3 + np.arange(4000) / 10_000 > y / 100).sum()) for y in range(100)
    ]


def test_cells_are_grouped_finer_where_values_and_ends_meet() -> None:
    values, ends = np.ones((2, 100)), np.ones((2, 100))
    values[1, 40:50] = 50.0
    groups = group_cells(values, ends, 10)
    assert (np.diff(groups.astype(int), axis=1) >= 0).all()
    assert np.bincount(groups[0]).tolist() == [10] * 10
    assert np.unique(groups[1, 40:50]).size > 3
    assert group_cells(np.zeros((1, 3)), np.zeros((1, 3)), 8).tolist() == [[1, 4, 6]]


def test_groups_are_as_many_as_memory_allows() -> None:
    assert groups_for(1_000_000, 1550) == 16
    assert groups_for(1_000_000, 500) == 50
    assert groups_for(1_000_000, 10) == 64
    assert groups_for(1_000_000, 100_000) == 8
