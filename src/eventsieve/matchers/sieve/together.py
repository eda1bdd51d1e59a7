"""Events side by side: how many at a time, how much room their matches need, and how threads share the work.

All events meet a block before the next one is looked at, so threads take parts of the index and not of the events: each
reads its part once for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.base import Matcher
from eventsieve.matchers.scratch import borrowed
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, Found, count_by_event, gather, of_one_event, put_in_place
from eventsieve.matchers.sieve.masks import MASK_EVENTS
from eventsieve.matchers.threads import side_by_side
from eventsieve.model.columns import EventColumns
from eventsieve.model.large_arrays import large_array

_MOST_EVENTS: Final = 2048
"""Events that are matched side by side,"""
_MOST_MATCHES: Final = 1 << 24
"""and matches that they are expected to have. More would take so much room that its memory could not be used again."""
_ROOM_PER_EVENT: Final = 4096
"""Matches that there is room for at least: some events match many times as much as others."""
_LEAST_ROOM: Final = 1 << 22
_MARGIN: Final = 1.75
"""Times as many matches as expected that there is room for. With twice as many, results would have to be copied."""
_ALIKE: Final = 1.25
"""Times as much as before that events have to match, or as little, to count as others."""
_TRIED: Final = 8
"""Events that are matched one by one to guess what others match, where nothing is known."""
_FEW_MATCHES: Final = 1 << 16
"""Matches that are put in place in less time than a thread takes to wake up."""
_SMALLER: Final = 4
"""Where there is too little room, so many times fewer events are tried."""


class TogetherMatcher(Matcher):
    """Base of a matcher whose work for many events is less than that for each of them alone."""

    _matches_per_event: float = 0.0
    """As seen lately: by this the next events are taken together, more or fewer of them."""

    @abstractmethod
    def _find(self, events: EventColumns, first: int, together: int, part: int, n_parts: int, out: Found) -> int:
        """Find what events from `first` on match in a part of the index; return how much, or -1 if there is no room.

        Room for all clauses is enough for one event.
        """

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        return self._match_all(1, events, first, out_count, out_slots)

    def _match_in_threads(self, events: EventColumns, threads: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return self._match_rounds(partial(self._match_all, threads), events)

    def _match_all(
        self, threads: int, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        """Match events from `first` on, as `_match_events` does."""
        n_events = events.start.shape[0] - 1
        together = self._how_many()
        used = 0
        while first < n_events and out_slots.shape[0] - used >= self.n_slots:
            together = min(together, n_events - first)
            room = self.n_slots + 2 * _MOST_MATCHES
            found = self._match_together(threads, events, first, together, out_count, out_slots[used : used + room])
            if found < 0:
                together = max(1, together // _SMALLER)
                continue
            first += together
            used += found
            self._note(found, together)
        return first

    def _match_together(
        self,
        threads: int,
        events: EventColumns,
        first: int,
        together: int,
        out_count: NDArray[np.int64],
        out_slots: NDArray[np.int32],
    ) -> int:
        """Match events from `first` on side by side; return the number of matches, or -1 if there is no room for them.

        One event always has room.
        """
        if together == 1:
            # One event needs no gathering; there is too little room only if it matches nearly everything.
            out_count[first] = n_matches = self._find(events, first, 1, 0, 1, of_one_event(out_slots))
            if n_matches >= 0:
                return n_matches
        if threads > 1:
            return self._match_in_parts(threads, events, first, together, out_count[first:], out_slots)
        room = out_slots.shape[0] + BITS_AT_ONCE
        with (
            borrowed("found", room, np.int32) as slots,
            borrowed("runs", room, np.uint16) as run_event,
            borrowed("runs", room, np.int32) as run_stop,
        ):
            found = Found(slots, run_event, run_stop, np.zeros(1, np.int64))
            n_matches = self._find(events, first, together, 0, 1, found)
            if n_matches >= 0:
                gather(found, out_count[first : first + together], out_slots)
        return n_matches

    def _match_in_parts(
        self,
        n_parts: int,
        events: EventColumns,
        first: int,
        together: int,
        out_count: NDArray[np.int64],
        out_slots: NDArray[np.int32],
    ) -> int:
        """Match events in as many threads as the index has parts for them; return as above."""
        room = self.n_slots + BITS_AT_ONCE + (out_slots.shape[0] - self.n_slots) // n_parts
        counts = np.empty((n_parts, together), np.int64)
        find = partial(self._find_part, events, first, together, n_parts, room)
        parts = [found for found in side_by_side(find, range(n_parts), counts) if found is not None]
        if len(parts) < n_parts or (n_matches := int(counts.sum())) > out_slots.shape[0]:
            return -1
        of_event = counts.sum(axis=0, out=out_count[:together])
        places = np.cumsum(of_event) - of_event + np.cumsum(counts, axis=0) - counts
        if n_matches < _FEW_MATCHES:
            for part, place in zip(parts, places, strict=True):
                put_in_place(part, place, out_slots)
        else:
            side_by_side(put_in_place, parts, places, [out_slots] * n_parts)
        return n_matches

    def _note(self, n_matches: int, n_events: int) -> None:
        """Note how much events match, unless it is about as before: to ask for as much room is to get the same memory.

        A single event tells little about others.
        """
        seen, before = n_matches / n_events, self._matches_per_event
        if n_events > 1 and not before / _ALIKE <= seen <= before * _ALIKE:
            self._matches_per_event = seen

    def _how_many(self) -> int:
        """Return how many events to take together. Masks take them by hundreds, and half as many cost as much."""
        fitting = int(_MOST_MATCHES / max(1.0, self._matches_per_event))
        by_masks = round(fitting / MASK_EVENTS) * MASK_EVENTS
        return min(_MOST_EVENTS, by_masks or max(1, fitting))

    def _find_part(
        self,
        events: EventColumns,
        first: int,
        together: int,
        n_parts: int,
        room: int,
        part: int,
        out_count: NDArray[np.int64],
    ) -> Found | None:
        """Return what events match in a part of the index, or None if that is more than there is room for."""
        runs = large_array(room, np.uint16), large_array(room, np.int32), np.zeros(1, np.int64)
        found = Found(large_array(room, np.int32), *runs)
        if self._find(events, first, together, part, n_parts, found) < 0:
            return None
        count_by_event(found, out_count)
        return found

    def _expected_matches(self, events: EventColumns) -> int:
        """Go by what has been seen; if that is nothing, match some events to learn how much room the others need."""
        n_events = int(events.start.shape[0]) - 1
        if not self._matches_per_event:
            tried = min(n_events, _TRIED)
            count = np.zeros(tried, np.int64)
            with borrowed("matches", self.n_slots, np.int32) as out_slots:
                for e in range(tried):
                    self._match_together(1, events, e, 1, count, out_slots)
            self._matches_per_event = float(count.mean())
        expected = int(_MARGIN * n_events * self._matches_per_event)
        return max(min(_ROOM_PER_EVENT * n_events, _LEAST_ROOM), min(expected, 4 * _MOST_MATCHES))
