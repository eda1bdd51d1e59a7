"""The reference scan and the brute-force definition agree, and both with a definition spelled out."""

import numpy as np
import pytest

from eventsieve.bench.reference import Reference
from eventsieve.bench.truth import brute_force
from eventsieve.model.columns import EventColumns
from eventsieve.workload import SubscriptionArrays, standard, workload_names


def event(**values: float) -> EventColumns:
    """Return one event; `a3=0.5` gives attribute 3 the value 0.5."""
    attribute = np.array([int(name[1:]) for name in values], np.int32)
    return EventColumns(np.array([0, attribute.size]), attribute, np.array(list(values.values()), np.float64))


@pytest.mark.parametrize("name", workload_names())
def test_the_reference_equals_brute_force(name: str) -> None:
    settings = {"width": 0.9} if name in ("bop", "htree") else {}
    workload = standard(name, n=3000, **settings)
    subscriptions, events = workload.subscription_arrays(2), workload.event_arrays(30, 2)
    reference = Reference(subscriptions, workload.d)
    found = 0
    for e in range(30):
        matches = brute_force(subscriptions, events, e, workload.d)
        assert np.array_equal(reference.scan(reference.row(events, e)), matches)
        found += matches.size
    assert found


def test_brute_force_is_the_definition() -> None:
    workload = standard("gem", n=200)
    start, attribute, low, high = subscriptions = workload.subscription_arrays(4)
    events = workload.event_arrays(5, 4)
    for e in range(5):
        carried = range(events.start[e], events.start[e + 1])
        value = {events.attribute[i]: events.value[i] for i in carried}
        expected = [
            s
            for s in range(200)
            if all(
                attribute[p] in value and low[p] <= value[attribute[p]] <= high[p]
                for p in range(start[s], start[s + 1])
            )
        ]
        assert brute_force(subscriptions, events, e, workload.d).tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a0": 1.0, "a1": 5.0}, [0, 1]),  # the very bounds
        ({"a0": np.nextafter(1.0, 2)}, [0]),
        ({"a0": np.nextafter(1.0, 0)}, [0]),
        ({"a0": -1e300}, []),
        ({"a0": 1e300}, [0]),
        ({"a1": 5.0}, []),  # an absent attribute fails
        ({}, []),
    ],
)
def test_bounds_are_closed_and_may_be_infinite(values: dict[str, float], expected: list[int]) -> None:
    subscriptions = SubscriptionArrays(
        np.array([0, 1, 3]),
        np.array([0, 0, 1], np.int32),
        np.array([0.5, 1.0, -np.inf]),
        np.array([np.inf, 1.0, 5.0]),
    )
    reference = Reference(subscriptions, 3)
    assert reference.scan(reference.row(event(**values), 0)).tolist() == expected
    assert brute_force(subscriptions, event(**values), 0, 3).tolist() == expected
