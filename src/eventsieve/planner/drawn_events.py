"""Events to try matchers on where nobody has given any: drawn from what subscriptions ask about.

Half of the events carry every attribute, half of them two in five. A number is drawn evenly from its domain; where
all predicates of an attribute are single values, as those on texts are, one of these values is drawn.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from eventsieve.model.columns import ClauseTable, Domains, EventColumns

_SPARSE: Final = 0.4


def draw_events(clauses: ClauseTable, domains: Domains, count: int, seed: int = 1) -> EventColumns:
    """Return `count` events for a sample of clauses; the same for the same sample."""
    rng = np.random.default_rng(seed)
    n_attributes = domains.low.shape[0]
    # Halves, because the width of a domain can be too large for a float.
    share = rng.random((count, n_attributes))
    values = 2 * (domains.low / 2 + share * (domains.high / 2 - domains.low / 2))
    predicates = _predicates_of(clauses)
    attribute, low, high = clauses.attribute[predicates], clauses.low[predicates], clauses.high[predicates]
    for a in np.unique(attribute).tolist():
        own = attribute == a
        if np.all(low[own] == high[own]):
            values[:, a] = rng.choice(low[own], count)
    present = rng.random((count, n_attributes)) < np.where(np.arange(count) % 2 == 0, 1.0, _SPARSE)[:, None]
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return EventColumns(start, np.nonzero(present)[1].astype(np.int32), values[present])


def _predicates_of(clauses: ClauseTable) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    length = clauses.stop - clauses.start
    first = np.cumsum(length) - length
    return np.repeat(clauses.start - first, length) + np.arange(int(length.sum()))
