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
from eventsieve.model.large_arrays import end_to_end, large_array

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
        n_events = events.start.shape[0] - 1
        together = self._how_many()
        used = 0
        while first < n_events and out_slots.shape[0] - used >= self.n_slots:
            together = min(together, n_events - first)
            room = self.n_slots + 2 * _MOST_MATCHES
            found = self._match_together(events, first, together, out_count, out_slots[used : used + room])
            if found < 0:
                together = max(1, together // _SMALLER)
                continue
            first += together
            used += found
            self._note(found, together)
        return first

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
        if together == 1:
            # One event needs no gathering; there is too little room only if it matches nearly everything.
            out_count[first] = n_matches = self._find(events, first, 1, 0, 1, of_one_event(out_slots))
            if n_matches >= 0:
                return n_matches
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

    def _match_in_threads(self, events: EventColumns, threads: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        n_events = events.start.shape[0] - 1
        expected = self._expected_matches(events)
        event_start = np.zeros(n_events + 1, np.int64)
        pieces = []
        first, together = 0, self._how_many()
        while first < n_events:
            together = min(together, n_events - first)
            room = self.n_slots + BITS_AT_ONCE + min(expected * together // n_events, 2 * _MOST_MATCHES) // threads
            find = partial(self._find_part, events, first, together, threads, room)
            counts = np.empty((threads, together), np.int64)
            parts = [found for found in side_by_side(find, range(threads), counts) if found is not None]
            if len(parts) < threads:
                together = max(1, together // _SMALLER)
                continue
            first += together
            pieces.append(_joined(parts, counts, event_start[1 + first - together : 1 + first]))
            self._note(pieces[-1].size, together)
            # Now, so that the next round can use their memory.
            del parts
        np.cumsum(event_start, out=event_start)
        return event_start, end_to_end(pieces)

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
                    self._match_together(events, e, 1, count, out_slots)
            self._matches_per_event = float(count.mean())
        expected = int(_MARGIN * n_events * self._matches_per_event)
        return max(min(_ROOM_PER_EVENT * n_events, _LEAST_ROOM), min(expected, 4 * _MOST_MATCHES))


def _joined(parts: list[Found], counts: NDArray[np.int64], out_count: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the matches of all parts, which are counted by part and event, in order of their events."""
    counts.sum(axis=0, out=out_count)
    slots = large_array(int(out_count.sum()), np.int32)
    places = np.cumsum(out_count) - out_count + np.cumsum(counts, axis=0) - counts
    if slots.size < _FEW_MATCHES:
        for part, place in zip(parts, places, strict=True):
            put_in_place(part, place, slots)
    else:
        side_by_side(put_in_place, parts, places, [slots] * len(parts))
    return slots
