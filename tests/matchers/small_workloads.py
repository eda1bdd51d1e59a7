"""Small draws of the standard workloads, matched one by one and together, and what the definition says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import eventsieve as es
from eventsieve.workload import Workload, standard
from tests.conformance.definition import matching_pairs


def small(name: str, n: int, **settings: Any) -> Workload:
    return standard(name, n=n, **settings)


def pairs(index: es.Index, workload: Workload, n_events: int) -> set[tuple[int, int]]:
    """Match events one by one and together, and return what both ways found."""
    together = index.match_batch(workload.events(n_events, seed=3))
    found = list(zip(together.event.tolist(), together.ids.tolist(), strict=True))
    assert len(found) == len(set(found))
    columns = workload.event_arrays(n_events, seed=3)
    for e in range(min(n_events, 5)):
        begin, end = columns.start[e], columns.start[e + 1]
        one = es.Events.from_arrays(
            workload.schema(), np.array([0, end - begin]), columns.attribute[begin:end], columns.value[begin:end]
        )
        assert sorted(index.match_batch(one).ids.tolist()) == sorted(id for event, id in found if event == e)
    return set(found)


def truth(workload: Workload, n_events: int) -> set[tuple[int, int]]:
    columns = workload.event_arrays(n_events, seed=3)
    dense = np.full((n_events, workload.d), np.nan)
    dense[np.repeat(np.arange(n_events), np.diff(columns.start)), columns.attribute] = columns.value
    return matching_pairs(*workload.subscription_arrays(seed=1), dense)
