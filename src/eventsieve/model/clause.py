"""Clauses: what a filter is compiled to, and what indexes are built from.

A subscription is one or more clauses that share its id; it matches when one of them does. A clause is a
conjunction of closed float64 intervals, at most one per attribute, which indexes see, and a residual: a check on
the candidates for whatever intervals cannot say. All numbers are in matched form (see `types` and `codes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class ClosedInterval(NamedTuple):
    """low <= value <= high; -inf and inf leave a side open."""

    low: float
    high: float


class Bound(NamedTuple):
    """One attribute's interval in a clause."""

    attribute: int
    low: float
    high: float


@dataclass(frozen=True)
class InSet:
    """Residual: the attribute is present and its value lies in one of these disjoint, rising intervals."""

    attribute: int
    intervals: tuple[ClosedInterval, ...]


@dataclass(frozen=True)
class IsAbsent:
    """Residual: the event does not carry the attribute."""

    attribute: int


@dataclass(frozen=True)
class MatchesPattern:
    """Residual: the attribute is present and its text fits (or, negated, does not fit) a regular expression.

    `regex` is in RE2 syntax and searched for anywhere in the text unless it is anchored.
    """

    attribute: int
    regex: str
    ignore_case: bool = False
    negated: bool = False


@dataclass(frozen=True)
class AllOf:
    """Residual: every part holds."""

    parts: tuple[Residual, ...]


@dataclass(frozen=True)
class AnyOf:
    """Residual: at least one part holds."""

    parts: tuple[Residual, ...]


Residual: TypeAlias = InSet | IsAbsent | MatchesPattern | AllOf | AnyOf


@dataclass(frozen=True)
class Clause:
    """Bounds by rising attribute, each attribute once, and what is left to check on candidates."""

    bounds: tuple[Bound, ...]
    residual: Residual | None = None
