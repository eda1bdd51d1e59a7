"""Count near misses: how often a predicate alone keeps its clause from matching a sample of events.

That is what skipping the predicate would report falsely, counted and not derived. Attributes that hang together show
in it. Events are bits: a predicate holds for the events whose values rank between its ends, which is the difference of
two prepared rows of bits. So a clause is compared with 64 events at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount
from eventsieve._kernels.compiler import kernel
from eventsieve.elastic.population import NearMisses
from eventsieve.model.columns import ClauseTable, EventColumns, slice_events

_WORDS: Final = 8
_AT_ONCE: Final = _WORDS * WORD_BITS
"""Events that are looked at together: more would make the rows of an attribute too long for the cache."""


class RankedEvents(NamedTuple):
    """Up to 512 events by attribute: row r of an attribute has the bits of its r events with the least values."""

    start: NDArray[np.int64]  # (n_attributes + 1,)
    value: NDArray[np.float64]  # (n_values,), rising within an attribute
    least: NDArray[np.uint64]  # (n_values + n_attributes, _WORDS): attribute a has its rows from start[a] + a on
    all: NDArray[np.uint64]  # (_WORDS,)


def near_misses(
    clauses: ClauseTable, position: NDArray[np.int64], events: EventColumns, n_attributes: int
) -> NearMisses:
    """Return near misses per event of the predicates at `position`, and the clauses that match per event."""
    n_events = events.start.shape[0] - 1
    alone = np.zeros(clauses.attribute.shape[0], np.int64)
    matches = 0
    for first in range(0, n_events, _AT_ONCE):
        part = slice_events(events, first, min(first + _AT_ONCE, n_events))
        matches += _count(clauses, _ranked(part, n_attributes), alone)
    return NearMisses(alone[position] / max(1, n_events), matches / max(1, n_events))


def _ranked(events: EventColumns, n_attributes: int) -> RankedEvents:
    n_events = events.start.shape[0] - 1
    event = np.repeat(np.arange(n_events), np.diff(events.start))
    order = np.lexsort((events.value, events.attribute))
    start = np.zeros(n_attributes + 1, np.int64)
    np.cumsum(np.bincount(events.attribute, minlength=n_attributes), out=start[1:])
    least = np.zeros((event.size + n_attributes, _WORDS), np.uint64)
    _accumulate(start, event[order], least)
    everybody = np.zeros(_WORDS, np.uint64)
    for e in range(n_events):
        everybody[e // WORD_BITS] |= np.uint64(1 << e % WORD_BITS)
    return RankedEvents(start, events.value[order], least, everybody)


@kernel
def _accumulate(start: NDArray[np.int64], event: NDArray[np.int64], out_least: NDArray[np.uint64]) -> None:
    """Make each row of an attribute from the one before and one more event."""
    for a in range(start.shape[0] - 1):
        for i in range(start[a], start[a + 1]):
            out_least[i + a + 1] = out_least[i + a]
            out_least[i + a + 1, event[i] // WORD_BITS] |= np.uint64(1) << np.uint64(event[i] % WORD_BITS)


@kernel
def _count(clauses: ClauseTable, events: RankedEvents, out_alone: NDArray[np.int64]) -> int:
    """Compare every clause with the events; count single failures by predicate, and return the matches."""
    matches = 0
    once, again = np.empty(_WORDS, np.uint64), np.empty(_WORDS, np.uint64)
    fails = np.empty((max(1, (clauses.stop - clauses.start).max()), _WORDS), np.uint64)
    for s in range(clauses.start.shape[0]):
        first, stop = clauses.start[s], clauses.stop[s]
        if first == stop:
            continue
        once[:] = 0
        again[:] = 0
        for p in range(first, stop):
            below, upto, everybody = _rows(clauses, events, p)
            for word in range(_WORDS):
                failed = events.all[word] & ~(events.least[upto, word] ^ events.least[below, word])
                fails[p - first, word] = failed
                # An absent attribute is asked for even when its predicate is skipped: no near miss.
                again[word] |= (once[word] & failed) | (events.all[word] & ~events.least[everybody, word])
                once[word] |= failed
        for word in range(_WORDS):
            matches += popcount(events.all[word] & ~once[word])
            single = once[word] & ~again[word]
            if single:
                for p in range(first, stop):
                    out_alone[p] += popcount(single & fails[p - first, word])
    return matches


@kernel
def _rows(clauses: ClauseTable, events: RankedEvents, p: int) -> tuple[int, int, int]:
    """Return the rows of the events below a predicate's low end, up to its high end, and of all with its attribute."""
    a = clauses.attribute[p]
    first, stop = events.start[a], events.start[a + 1]
    low, high = clauses.low[p], clauses.high[p]
    below = upto = first
    step = _AT_ONCE
    # Two searches in one, without a branch to guess: which way an end lies is a matter of chance.
    while step:
        at = below + step
        below = at if at <= stop and events.value[at - 1] < low else below
        at = upto + step
        upto = at if at <= stop and events.value[at - 1] <= high else upto
        step >>= 1
    # An empty interval has no events, wherever its ends lie.
    return below + a, max(below, upto) + a, stop + a
