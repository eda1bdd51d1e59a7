"""Clauses and events as dense tables, one interval per slot and attribute, for tests of matchers by blocks of slots."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

N_ATTRIBUTES: Final = 5
DOMAINS: Final = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))


class Table:
    """Random intervals, from which clause tables and answers are derived; `asked` says which of them count.

    `popularity` is the chance that a clause asks for an attribute, per slot and attribute or for all alike.
    """

    def __init__(self, n_slots: int, seed: int, popularity: ArrayLike, open_share: float = 0.2) -> None:
        rng = np.random.default_rng(seed)
        ends = np.sort(rng.choice(np.linspace(-0.1, 1.1, 25), (n_slots, N_ATTRIBUTES, 2)), axis=2)
        ends[..., 0][rng.random((n_slots, N_ATTRIBUTES)) < open_share] = -np.inf
        ends[..., 1][rng.random((n_slots, N_ATTRIBUTES)) < open_share] = np.inf
        self.low, self.high = ends[..., 0], ends[..., 1]
        self.asked: NDArray[np.bool_] = rng.random((n_slots, N_ATTRIBUTES)) < popularity

    def clauses(self) -> ClauseTable:
        counts = self.asked.sum(axis=1)
        stop = np.cumsum(counts).astype(np.int64)
        attribute = np.nonzero(self.asked)[1].astype(np.int32)
        return ClauseTable(stop - counts, stop, attribute, self.low[self.asked], self.high[self.asked])

    def answer(self, values: NDArray[np.float64]) -> list[set[int]]:
        """Per event of a dense table, NaN where an attribute is absent, the slots that match."""
        found = []
        for row in values:
            holds = ~self.asked | ((self.low <= row) & (row <= self.high))
            found.append(set(np.flatnonzero(holds.all(axis=1) & self.asked.any(axis=1)).tolist()))
        return found


def random_values(n_events: int, seed: int) -> NDArray[np.float64]:
    """Values that often equal bounds, some outside the domain; sparse events, full ones, and an empty one."""
    rng = np.random.default_rng(seed)
    values = rng.choice(np.linspace(-0.2, 1.2, 57), (n_events, N_ATTRIBUTES))
    values[rng.random(values.shape) < rng.choice([0.0, 0.3, 0.8], (n_events, 1))] = np.nan
    values[0] = np.nan
    return values


def event_columns(values: NDArray[np.float64]) -> EventColumns:
    present = ~np.isnan(values)
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return EventColumns(start, np.nonzero(present)[1].astype(np.int32), values[present])


def matched(matcher: Matcher, values: NDArray[np.float64], threads: int = 1) -> list[set[int]]:
    """Return the slots that each event matches, and see to it that none comes twice."""
    start, slots = matcher.match_batch(event_columns(values), threads)
    found = [slots[first:stop].tolist() for first, stop in pairwise(start)]
    assert all(len(slots) == len(set(slots)) for slots in found)
    return [set(slots) for slots in found]
