"""Sets of disjoint, rising, closed intervals over matched numbers, and their algebra.

Open ends are closed by one step: to the next float64, or to the next whole number where an attribute has no
others. Event values are finite, so an interval that holds only an infinity is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

from eventsieve.model.clause import ClosedInterval
from eventsieve.model.condition import Operator
from eventsieve.model.types import AttributeType, Bool

IntervalSet: TypeAlias = tuple[ClosedInterval, ...]

NOTHING: Final[IntervalSet] = ()
EVERYTHING: Final[IntervalSet] = (ClosedInterval(-math.inf, math.inf),)


def compared(kind: AttributeType, operator: Operator, number: float) -> IntervalSet:
    """Return the values for which `value operator number` is true."""
    match operator:
        case "=":
            return between(kind, number, number)
        case "!=":
            return complement(kind, between(kind, number, number))
        case "<=":
            return between(kind, -math.inf, number)
        case ">=":
            return between(kind, number, math.inf)
        case "<":
            return complement(kind, between(kind, number, math.inf))
        case ">":
            return complement(kind, between(kind, -math.inf, number))


def between(kind: AttributeType, low: float, high: float) -> IntervalSet:
    """Return the values from low to high, both included."""
    if kind.discrete:
        low = low if math.isinf(low) else float(math.ceil(low))
        high = high if math.isinf(high) else float(math.floor(high))
    if low > high or low == math.inf or high == -math.inf:
        return NOTHING
    return _settled(kind, (ClosedInterval(low, high),))


def complement(kind: AttributeType, intervals: IntervalSet) -> IntervalSet:
    """Return all values that lie in none of the intervals."""
    gaps: list[ClosedInterval] = []
    low = -math.inf
    for interval in intervals:
        high = _step_down(kind, interval.low)
        if interval.low > -math.inf and low <= high and high > -math.inf:
            gaps.append(ClosedInterval(low, high))
        low = _step_up(kind, interval.high)
    if low < math.inf:
        gaps.append(ClosedInterval(low, math.inf))
    return _settled(kind, tuple(gaps))


def union(kind: AttributeType, sets: Iterable[IntervalSet]) -> IntervalSet:
    """Return all values that lie in one of the sets; neighbours without a value between them become one."""
    merged: list[ClosedInterval] = []
    for interval in sorted(interval for each in sets for interval in each):
        if merged and interval.low <= _step_up(kind, merged[-1].high):
            merged[-1] = ClosedInterval(merged[-1].low, max(merged[-1].high, interval.high))
        else:
            merged.append(interval)
    return _settled(kind, tuple(merged))


def intersection(one: IntervalSet, other: IntervalSet) -> IntervalSet:
    """Return all values that lie in both sets."""
    if one is EVERYTHING or other is EVERYTHING or one == other:
        return other if one is EVERYTHING else one
    common: list[ClosedInterval] = []
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i].low, other[j].low), min(one[i].high, other[j].high)
        if low <= high:
            common.append(ClosedInterval(low, high))
        if one[i].high < other[j].high:
            i += 1
        else:
            j += 1
    return tuple(common)


def contains(outer: IntervalSet, inner: IntervalSet) -> bool:
    """Say whether every value of the inner set lies in the outer one."""
    return outer is EVERYTHING or intersection(outer, inner) == inner


def hull(intervals: IntervalSet) -> ClosedInterval:
    """Return the smallest interval that holds a set that is not empty."""
    return ClosedInterval(intervals[0].low, intervals[-1].high)


def _settled(kind: AttributeType, intervals: IntervalSet) -> IntervalSet:
    """Give sets with the same values the same form: a boolean has no values but 0 and 1."""
    if intervals == EVERYTHING:
        return EVERYTHING
    if isinstance(kind, Bool):
        values = [value for value in (0.0, 1.0) if any(i.low <= value <= i.high for i in intervals)]
        if len(values) == 2:
            return EVERYTHING
        return tuple(ClosedInterval(value, value) for value in values)
    return intervals


def _step_up(kind: AttributeType, number: float) -> float:
    nearest = math.nextafter(number, math.inf)
    # Beyond 2**53, where adding one changes nothing, come only codes, which are floats apart.
    return max(number + 1.0, nearest) if kind.discrete else nearest + 0.0


def _step_down(kind: AttributeType, number: float) -> float:
    nearest = math.nextafter(number, -math.inf)
    return min(number - 1.0, nearest) if kind.discrete else nearest + 0.0
