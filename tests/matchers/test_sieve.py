"""What sieve promises beyond conformance: exact in every way to finish and after growth, with similar clauses together.

test_sieve_masks.py and test_sieve_chunks.py have more about two of the three ways to match.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eventsieve as es
from eventsieve.errors import MatcherError
from eventsieve.matchers.sieve import matcher as sieve_matcher
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.matchers.sieve.order import BLOCK
from eventsieve.workload import Workload
from tests.matchers.small_workloads import pairs, small, truth


def built(workload: Workload, **params: Any) -> es.Index:
    return es.build(workload.subscriptions(seed=1), matcher="sieve", **params)


def sieve_of(index: es.Index) -> Sieve:
    assert isinstance(index.matcher, Sieve)
    return index.matcher


@pytest.mark.parametrize(
    "workload",
    [
        small("bop", 3000),
        small("full", 3000),
        small("gem", 3000),
        small("eem", 3000, d=60, m=40),
        small("full", 3000, width=0.95),
    ],
    ids=["few matches", "many", "whole numbers", "rare attributes", "nearly all"],
)
@pytest.mark.parametrize("params", [{}, {"cells": 2}, {"rare": 3}], ids=str)
def test_every_way_to_finish_is_exact(workload: Workload, params: dict[str, Any]) -> None:
    """Certain from the rows, held against predicates or cleared by runs of ends: as the definition says."""
    index = built(workload, **params)
    assert pairs(index, workload, 30) == truth(workload, 30)


@pytest.mark.parametrize("n_events", [1, 8, 9, 130, 600])
def test_any_number_of_events_at_a_time(n_events: int) -> None:
    """Hulls are compared event by event or for all together, and rows until none or few are left: all the same."""
    workload = small("bop", 2500, d=10, k=4, m=8)
    assert pairs(built(workload), workload, n_events) == truth(workload, n_events)


def test_clauses_stand_in_chunks_where_events_match_much() -> None:
    """On `full`; not on `bop`, and not where whole numbers with cells of their own leave no doubt."""
    chunks = {name: built(small(name, 2000)).describe()["chunks"] for name in ("full", "bop", "gem")}
    assert chunks == {"full": 1, "bop": 0, "gem": 0}


@pytest.mark.parametrize("name", ["bop", "full"])
def test_removing_restores_the_rows(name: str) -> None:
    """After clauses came and went, rows hold nothing of them."""
    workload = small(name, 500)
    index = built(workload)
    before = {name: array.copy() for name, array in index.matcher.arrays().items()}
    start, attribute, low, high = small(name, 200).subscription_arrays(seed=2)
    ids = np.arange(1000, 1200)
    index.extend(es.Subscriptions.from_arrays(workload.schema(), start, attribute, low, high, ids=ids))
    index.remove_many(ids.tolist())
    after = index.matcher.arrays()
    for array in ("bits", "alive"):
        n_blocks = before[array].shape[0]
        assert np.array_equal(before[array], after[array][:n_blocks]), array
    assert not after["alive"][before["alive"].shape[0] :].any()


def test_similar_clauses_share_blocks() -> None:
    """Most blocks have attributes in common, and an event looks into few of them."""
    index = built(small("bop", 20_000, d=12, k=3, m=6, width=0.1))
    assert index.describe()["blocks_looked_into"] < 0.4


def test_newcomers_do_not_spoil_arranged_blocks() -> None:
    """A freed place among similar clauses stays free, so their hull stays as narrow as it was."""
    workload = small("bop", 4 * BLOCK, d=12, k=3, m=6, width=0.1)
    index = built(workload)
    before = index.matcher.arrays()["hull"][:4].copy()
    index.remove_many(range(400))
    start, attribute, low, high = small("bop", 400, d=12, k=3, m=6).subscription_arrays(seed=2)
    ids = np.arange(10_000, 10_400)
    index.extend(es.Subscriptions.from_arrays(workload.schema(), start, attribute, low, high, ids=ids))
    assert np.array_equal(index.matcher.arrays()["hull"][:4], before)
    assert sieve_of(index)._positions.n_tail == 400


def test_a_long_tail_is_arranged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came one after the other is put beside what is like it, and found as before."""
    monkeypatch.setattr(sieve_matcher, "_LONGEST_TAIL", 2 * BLOCK)
    workload = small("bop", 9000, d=10, k=3, m=8, width=0.1)
    start, attribute, low, high = workload.subscription_arrays(seed=1)

    def some(first: int, stop: int) -> es.Subscriptions:
        begin, end = start[first], start[stop]
        part = (start[first : stop + 1] - begin, attribute[begin:end], low[begin:end], high[begin:end])
        return es.Subscriptions.from_arrays(workload.schema(), *part, ids=np.arange(first, stop))

    index = es.build(some(0, 7000), matcher="sieve")
    for first in range(7000, 9000, 250):
        index.extend(some(first, first + 250))
        index.remove_many(range(first, first + 100))
        index.extend(some(first, first + 100))
    assert sieve_of(index)._positions.n_arranged > 7000
    assert sieve_of(index)._positions.n_tail <= 2 * BLOCK
    assert pairs(index, workload, 20) == truth(workload, 20)


def test_a_tie_of_codes_is_settled_by_exact_bounds() -> None:
    """Values closer to a bound than codes can tell are still on the right side of it."""
    schema = es.Schema({"a": es.Float(0, 1)})
    bounds = np.array([0.5, np.nextafter(0.5, 1), 0.5 + 1e-9, 0.5 - 1e-9])
    subscriptions = es.Subscriptions.from_arrays(
        schema, np.arange(5), np.zeros(4, np.int32), bounds, np.ones(4), ids=np.arange(4)
    )
    index = es.build(subscriptions, matcher="sieve")
    values = np.array([0.5, np.nextafter(0.5, 1), 0.5 - 1e-10])
    found = index.match_batch(es.Events.from_arrays(schema, np.arange(4), np.zeros(3, np.int32), values))
    assert [sorted(ids) for ids in found] == [[0, 3], [0, 1, 3], [3]]


def test_growth_builds_anew_and_stays_exact() -> None:
    """An index that grew from nothing answers like one that was built, in the same number of rows."""
    workload = small("full", 9000)
    start, attribute, low, high = workload.subscription_arrays(seed=1)
    index = es.build(es.Subscriptions(workload.schema()), matcher="sieve")
    for first in range(0, 9000, 1500):
        begin, end = start[first], start[first + 1500]
        part = (start[first : first + 1501] - begin, attribute[begin:end], low[begin:end], high[begin:end])
        ids = np.arange(first, first + 1500)
        index.extend(es.Subscriptions.from_arrays(workload.schema(), *part, ids=ids))
    assert index.matcher.describe()["attributes_with_rows"] == workload.d
    assert pairs(index, workload, 10) == truth(workload, 10)


def test_a_misleading_first_event_costs_only_time() -> None:
    """Room is guessed from the first event; here it matches nothing, and all others everything."""
    schema = es.Schema({"a": es.Float(0, 1)})
    n = 40_000
    subscriptions = es.Subscriptions.from_arrays(
        schema, np.arange(n + 1), np.zeros(n, np.int32), np.full(n, 0.5), np.linspace(0.6, 1.0, n)
    )
    index = es.build(subscriptions, matcher="sieve")
    values = np.array([0.1, *([0.55] * 12)])
    events = es.Events.from_arrays(schema, np.arange(14), np.zeros(13, np.int32), values)
    assert np.diff(index.match_batch(events).event_start).tolist() == [0, *([n] * 12)]


@pytest.mark.parametrize("params", [{"memory": 0}, {"cells": 0}, {"cells": 2000}, {"rare": 0}])
def test_parameters_are_checked(params: dict[str, int]) -> None:
    """A parameter out of range is refused by name."""
    with pytest.raises(MatcherError, match=next(iter(params))):
        es.build(es.Subscriptions(es.Schema({"a": es.Float(0, 1)})), matcher="sieve", **params)
