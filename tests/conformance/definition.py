"""What a match is, in plain NumPy and by brute force. Shares no code with the package.

A subscription is a list of alternatives; an alternative maps attributes to tests that must all hold. An event maps
attributes to values. Absent attributes satisfy nothing but a test for absence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Range:
    """An interval whose ends may be open or missing."""

    low: float | None
    high: float | None
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float | None) -> bool:
        if value is None:
            return False
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below

    def text(self, name: str) -> str:
        parts = []
        if self.low is not None:
            parts.append(f"{name} {'>' if self.low_open else '>='} {self.low!r}")
        if self.high is not None:
            parts.append(f"{name} {'<' if self.high_open else '<='} {self.high!r}")
        return " AND ".join(parts) or f"{name} IS NOT NULL"


@dataclass(frozen=True)
class OneOf:
    """A list of values, or everything but these."""

    values: tuple[Any, ...]
    negated: bool = False

    def holds(self, value: Any) -> bool:
        return value is not None and (value in self.values) != self.negated

    def text(self, name: str) -> str:
        return f"{name} {'NOT IN' if self.negated else 'IN'} ({', '.join(map(repr, self.values))})"


@dataclass(frozen=True)
class Absent:
    """The attribute is not there."""

    def holds(self, value: Any) -> bool:
        return value is None

    def text(self, name: str) -> str:
        return f"{name} IS NULL"


Alternative = Mapping[str, Range | OneOf | Absent]


def matches(alternatives: Sequence[Alternative], event: Mapping[str, Any]) -> bool:
    """Say whether an event satisfies a subscription."""
    return any(all(test.holds(event.get(name)) for name, test in tests.items()) for tests in alternatives)


def filter_text(alternatives: Sequence[Alternative]) -> str:
    """Return a subscription in the filter language."""
    conjunctions = [" AND ".join(test.text(name) for name, test in tests.items()) or "TRUE" for tests in alternatives]
    return " OR ".join(f"({conjunction})" for conjunction in conjunctions)


def matching_pairs(
    start: np.ndarray, attribute: np.ndarray, low: np.ndarray, high: np.ndarray, events: np.ndarray
) -> set[tuple[int, int]]:
    """Return all (event, subscription) pairs for subscriptions as flat arrays and dense events, NaN where absent."""
    found = set()
    for s in range(len(start) - 1):
        mine = slice(start[s], start[s + 1])
        values = events[:, attribute[mine]]
        with np.errstate(invalid="ignore"):
            satisfied = ((values >= low[mine]) & (values <= high[mine])).all(axis=1)
        found.update((int(e), s) for e in np.flatnonzero(satisfied))
    return found
