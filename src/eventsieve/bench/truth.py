"""What an event matches by definition: plain NumPy over all subscriptions, sharing no code with any matcher."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.columns import EventColumns
from eventsieve.workload import SubscriptionArrays


def brute_force(
    subscriptions: SubscriptionArrays, events: EventColumns, e: int, n_attributes: int
) -> NDArray[np.int64]:
    """Return the positions of the subscriptions that event e satisfies, rising."""
    start, attribute, low, high = subscriptions
    value_of_attribute = np.full(n_attributes, np.nan)  # no comparison with NaN holds: absent fails
    carried = slice(int(events.start[e]), int(events.start[e + 1]))
    value_of_attribute[events.attribute[carried]] = events.value[carried]
    value = value_of_attribute[attribute]
    failed = np.flatnonzero(~((low <= value) & (value <= high)))
    fails = np.zeros(start.size - 1, np.bool_)
    fails[np.searchsorted(start, failed, side="right") - 1] = True
    return np.flatnonzero(~fails)
