"""Matchers that take many events side by side: how many at a time, and how much room they need."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.base import Matcher
from eventsieve.matchers.scratch import borrowed
from eventsieve.model.columns import EventColumns

_MOST_EVENTS: Final = 2048
"""Events that are matched side by side."""
_ROOM_PER_EVENT: Final = 4096
"""Matches that there is room for at least: some events match many times as much as others."""
_MOST_ROOM: Final = 1 << 22
_MOST_EXPECTED: Final = 1 << 26
"""Matches that room is made for at once."""


class TogetherMatcher(Matcher):
    """Base of matchers whose work for many events is less than that for each of them alone."""

    @abstractmethod
    def _match_together(
        self,
        events: EventColumns,
        first: int,
        together: int,
        out_count: NDArray[np.int64],
        out_slots: NDArray[np.int32],
    ) -> int:
        """Match events from `first` on side by side; return the number of matches, or -1 if there is no room for them.

        One event always has room.
        """

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        n_events = events.start.shape[0] - 1
        together = min(n_events - first, _MOST_EVENTS)
        used = 0
        while first < n_events and out_slots.shape[0] - used >= self.n_slots:
            together = min(together, n_events - first)
            found = self._match_together(events, first, together, out_count, out_slots[used:])
            if found < 0:
                together = max(1, together // 4)
                continue
            first += together
            used += found
        return first

    def _expected_matches(self, events: EventColumns) -> int:
        """Match the first event to learn how much room the others need."""
        n_events = int(events.start.shape[0]) - 1
        count = np.zeros(1, np.int64)
        with borrowed("matches", self.n_slots, np.int32) as out_slots:
            self._match_together(events, 0, 1, count, out_slots)
        return max(min(_ROOM_PER_EVENT * n_events, _MOST_ROOM), min(2 * n_events * int(count[0]), _MOST_EXPECTED))
