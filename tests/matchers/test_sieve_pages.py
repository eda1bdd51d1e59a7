"""What sieve-pages promises beyond test_sieves.py: rows and lists come back as they were."""

from __future__ import annotations

import numpy as np

import eventsieve as es
from tests.matchers.small_workloads import small


def test_removing_restores_the_rows() -> None:
    """After clauses came and went, rows and lists hold nothing of them."""
    workload = small("bop", 500)
    index = es.build(workload.subscriptions(seed=1), matcher="sieve-pages")
    before = {name: array.copy() for name, array in index.matcher.arrays().items()}
    start, attribute, low, high = small("bop", 200).subscription_arrays(seed=2)
    ids = np.arange(1000, 1200)
    index.extend(es.Subscriptions.from_arrays(workload.schema(), start, attribute, low, high, ids=ids))
    index.remove_many(ids.tolist())
    after = index.matcher.arrays()
    for name in ("rows", "alive", "null", "ends_cell_start"):
        assert np.array_equal(before[name], after[name]), name
