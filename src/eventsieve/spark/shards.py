"""Cut a collection of subscriptions into shards of equal size."""

from __future__ import annotations

import numpy as np

from eventsieve.subscriptions import Subscriptions


def cut(subscriptions: Subscriptions, n_shards: int) -> list[Subscriptions]:
    """Return `n_shards` collections that together hold every subscription once."""
    if n_shards == 1:
        return [subscriptions]
    return [subscriptions.select(slots) for slots in np.array_split(subscriptions.live_slots(), n_shards)]
