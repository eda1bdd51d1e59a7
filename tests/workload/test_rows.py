"""Filter texts and event rows say the same as the arrays."""

import numpy as np
import pytest

from eventsieve.index.index import build
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload import event_rows, filter_texts, standard, workload_names


@pytest.mark.parametrize("name", workload_names())
def test_texts_and_rows_match_as_the_arrays_do(name: str) -> None:
    workload = standard(name, n=150, width=0.9) if name != "ticks" else standard(name, n=150, k=2)
    from_texts = Subscriptions(workload.schema())
    for id, text in filter_texts(workload, seed=3):
        from_texts.add(id, text)
    as_texts = build(from_texts, matcher="simple").match_batch(list(event_rows(workload, 10, seed=3)))
    as_arrays = build(workload.subscriptions(3), matcher="simple").match_batch(workload.events(10, 3))
    for e in range(10):
        assert as_texts.of(e) == as_arrays.of(e)
    assert as_arrays.slots.size or name in ("bop", "htree")


def test_numeric_texts_give_back_the_very_bounds() -> None:
    workload = standard("hem", n=50)
    subscriptions = Subscriptions(workload.schema())
    for id, text in filter_texts(workload):
        subscriptions.add(id, text)
    _, _, low, high = workload.subscription_arrays()
    assert np.array_equal(subscriptions.table().low, low)
    assert np.array_equal(subscriptions.table().high, high)
