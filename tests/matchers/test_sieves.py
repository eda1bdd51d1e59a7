"""What sieve and sieve-pages promise alike, beyond conformance: every way to finish is exact, and so is growing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eventsieve as es
from eventsieve.errors import MatcherError
from eventsieve.workload import Workload
from tests.matchers.small_workloads import pairs, small, truth

pytestmark = pytest.mark.parametrize("matcher", ["sieve", "sieve-pages"])


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
def test_every_way_to_finish_is_exact(matcher: str, workload: Workload, params: dict[str, Any]) -> None:
    """Checked in the table, cleared by lists or certain from the rows: the matches are those of the definition."""
    index = es.build(workload.subscriptions(seed=1), matcher=matcher, **params)
    assert pairs(index, workload, 30) == truth(workload, 30)


def test_growth_builds_anew_and_stays_exact(matcher: str) -> None:
    """An index that grew from nothing answers like one that was built, in the same number of rows."""
    workload = small("full", 9000)
    start, attribute, low, high = workload.subscription_arrays(seed=1)
    index = es.build(es.Subscriptions(workload.schema()), matcher=matcher)
    for first in range(0, 9000, 1500):
        begin, end = start[first], start[first + 1500]
        part = (start[first : first + 1501] - begin, attribute[begin:end], low[begin:end], high[begin:end])
        ids = np.arange(first, first + 1500)
        index.extend(es.Subscriptions.from_arrays(workload.schema(), *part, ids=ids))
    assert index.matcher.describe()["attributes_with_rows"] == workload.d
    assert pairs(index, workload, 10) == truth(workload, 10)


def test_a_misleading_first_event_costs_only_time(matcher: str) -> None:
    """Room is guessed from the first event; here it matches nothing, and all others everything."""
    schema = es.Schema({"a": es.Float(0, 1)})
    n = 40_000
    subscriptions = es.Subscriptions.from_arrays(
        schema, np.arange(n + 1), np.zeros(n, np.int32), np.full(n, 0.5), np.linspace(0.6, 1.0, n)
    )
    index = es.build(subscriptions, matcher=matcher)
    values = np.array([0.1, *([0.55] * 12)])
    events = es.Events.from_arrays(schema, np.arange(14), np.zeros(13, np.int32), values)
    assert np.diff(index.match_batch(events).event_start).tolist() == [0, *([n] * 12)]


@pytest.mark.parametrize("params", [{"memory": 0}, {"cells": 0}, {"cells": 2000}, {"rare": 0}])
def test_parameters_are_checked(matcher: str, params: dict[str, int]) -> None:
    """A parameter out of range is refused by name."""
    with pytest.raises(MatcherError, match=next(iter(params))):
        es.build(es.Subscriptions(es.Schema({"a": es.Float(0, 1)})), matcher=matcher, **params)
