"""Clauses by slot and events, small enough for brute force, for tests at the level of a matcher."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import ClauseTable, Domains, EventColumns

N_ATTRIBUTES: Final = 7
DOMAINS: Final = Domains(np.zeros(N_ATTRIBUTES), np.ones(N_ATTRIBUTES))
BORDERS: Final = np.arange(-2, 19) / 16
"""Every border of the first halvings, and values outside the domain."""

Clause = list[tuple[int, float, float]]
Event = dict[int, float]


class Slots:
    """Clauses by slot with reuse of free slots, as the collection above a matcher keeps them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.clauses: list[Clause] = []

    def draw(self, values: NDArray[np.float64] = BORDERS) -> Clause:
        """Draw a clause: single values, narrow, wide and half-open intervals."""
        clause = []
        for a in np.sort(self.rng.permutation(N_ATTRIBUTES)[: self.rng.integers(1, N_ATTRIBUTES + 1)]):
            low, high = np.sort(self.rng.choice(values, 2))
            kind = self.rng.integers(0, 10)
            if kind <= 1:
                low, high = (-np.inf, high) if kind else (low, np.inf)
            elif kind == 2:
                low, high = -np.inf, np.inf
            elif kind <= 5:
                high = low
            clause.append((int(a), float(low), float(high)))
        return clause

    def table(self) -> ClauseTable:
        sizes = np.array([len(clause) for clause in self.clauses], np.int64)
        stop = np.cumsum(sizes)
        bounds = [bound for clause in self.clauses for bound in clause]
        attribute, low, high = zip(*bounds, strict=True) if bounds else ((), (), ())
        return ClauseTable(
            stop - sizes, stop, np.array(attribute, np.int32), np.array(low, np.float64), np.array(high, np.float64)
        )

    def change(self, matcher: Matcher, n_gone: int, n_new: int) -> None:
        """Delete some clauses, and insert some, first at free slots."""
        taken = np.flatnonzero([bool(clause) for clause in self.clauses]).astype(np.int32)
        gone = self.rng.permutation(taken)[:n_gone]
        matcher.delete(gone)
        for s in gone:
            self.clauses[s] = []
        free = [s for s, clause in enumerate(self.clauses) if not clause][: n_new * 2 // 3]
        new = [*free, *range(len(self.clauses), len(self.clauses) + n_new - len(free))]
        self.clauses += [[] for _ in range(n_new - len(free))]
        for s in new:
            self.clauses[s] = self.draw()
        matcher.insert(np.array(new, np.int32), self.table())

    def matching(self, event: Event) -> list[int]:
        return [
            s
            for s, clause in enumerate(self.clauses)
            if clause and all(a in event and low <= event[a] <= high for a, low, high in clause)
        ]

    @staticmethod
    def columns(events: list[Event]) -> EventColumns:
        start = np.concatenate([[0], np.cumsum([len(event) for event in events])]).astype(np.int64)
        attribute = np.array([a for event in events for a in event], np.int32)
        return EventColumns(start, attribute, np.array([v for event in events for v in event.values()], np.float64))


def draw_events(rng: np.random.Generator, n: int, values: NDArray[np.float64] = BORDERS) -> list[Event]:
    """Draw events, every second one with all attributes; the first has none."""
    events: list[Event] = [{}]
    for e in range(n):
        present = rng.permutation(N_ATTRIBUTES)[: N_ATTRIBUTES if e % 2 else rng.integers(1, N_ATTRIBUTES)]
        events.append({int(a): float(rng.choice(values)) for a in np.sort(present)})
    return events


def assert_exact(matcher: Matcher, slots: Slots, events: list[Event]) -> int:
    """Compare with brute force; return the number of matches."""
    start, found = matcher.match_batch(slots.columns(events))
    for e, event in enumerate(events):
        assert sorted(found[start[e] : start[e + 1]].tolist()) == slots.matching(event), event
    return int(start[-1])
