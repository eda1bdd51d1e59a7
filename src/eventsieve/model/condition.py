"""Conditions: what a filter says, as a tree, with its values and its open and closed ends as they were written.

A condition is for people: it is parsed from text, printed back and explained. Indexes are built from clauses,
to which `language.compile_filter` turns it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args

from eventsieve.model.clause import Bound
from eventsieve.model.codes import OTHER_TEXT, Codes
from eventsieve.model.schema import Schema
from eventsieve.model.types import LARGEST_EXACT, Bool, Float, Int, Text, Time

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

Value: TypeAlias = bool | int | float | str | datetime
"""Float attributes take floats, Int whole ones as int (and others as float), Time datetimes in UTC."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Constant:
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True)
class Flag:
    """A boolean attribute alone: it is true."""

    attribute: str


@dataclass(frozen=True)
class Comparison:
    """An attribute against a value; the attribute stands on the left."""

    attribute: str
    operator: Operator
    value: Value


@dataclass(frozen=True)
class Between:
    """low <= attribute <= high."""

    attribute: str
    low: Value
    high: Value


@dataclass(frozen=True)
class In:
    """The attribute equals one of the values."""

    attribute: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("IN needs at least one value")


@dataclass(frozen=True)
class IsNull:
    """The event does not carry the attribute. The only predicate that is never unknown."""

    attribute: str


@dataclass(frozen=True)
class Like:
    """The text fits a pattern in which % stands for any characters and _ for one."""

    attribute: str
    pattern: str
    ignore_case: bool = False
    escape: str | None = None


@dataclass(frozen=True)
class Regexp:
    """A regular expression in RE2 syntax is found somewhere in the text."""

    attribute: str
    pattern: str


@dataclass(frozen=True)
class Not:
    """The part is false. Unknown stays unknown."""

    part: Condition


@dataclass(frozen=True)
class And:
    """Every part holds. An And within an And is melted into it, so that one meaning has one form."""

    parts: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _melted(self.parts, And))


@dataclass(frozen=True)
class Or:
    """At least one part holds. An Or within an Or is melted into it."""

    parts: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _melted(self.parts, Or))


Predicate: TypeAlias = Constant | Flag | Comparison | Between | In | IsNull | Like | Regexp
Condition: TypeAlias = Predicate | Not | And | Or


def moment(micros: float) -> datetime:
    """Return the time that is so many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=int(micros))


def from_bounds(schema: Schema, bounds: Iterable[Bound], codes: Codes) -> Condition:
    """Return the condition that a clause of closed intervals stands for, where no text gave it.

    >>> schema = Schema({"price": Float(), "volume": Int()})
    >>> from_bounds(schema, [Bound(1, 10.0, math.inf)], Codes())
    Comparison(attribute='volume', operator='>=', value=10)
    """
    parts = [_from_bound(schema, bound, codes) for bound in bounds]
    if not parts:
        return Constant(True)
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _melted(parts: tuple[Condition, ...], kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    flat: list[Condition] = []
    for part in parts:
        if isinstance(part, And | Or) and type(part) is kind:
            flat.extend(part.parts)
        else:
            flat.append(part)
    if len(flat) < 2:
        raise ValueError(f"{kind.__name__} needs at least two parts, not {len(flat)}")
    return tuple(flat)


def _from_bound(schema: Schema, bound: Bound, codes: Codes) -> Condition:
    name, kind = schema.names[bound.attribute], schema.types[bound.attribute]
    low, high = bound.low, bound.high
    if isinstance(kind, Text):
        return _from_codes(name, bound, codes)
    if isinstance(kind, Bool):
        inside = [value for value in (False, True) if low <= value <= high]
        if len(inside) == 1:
            return Comparison(name, "=", inside[0])
        return Not(IsNull(name)) if inside else Constant(False)
    if isinstance(kind, Float):
        return _from_ends(name, *(None if math.isinf(end) else end + 0.0 for end in (low, high)))
    named = codes.value_of(bound.attribute, low) if low == high else None
    if named is not None:
        return Comparison(name, "=", named)
    # Beyond 2**53 nothing can be told apart by order, so an end out there leaves its side open.
    return _from_ends(
        name,
        None if abs(low) > LARGEST_EXACT else _written(kind, low, math.ceil(low)),
        None if abs(high) > LARGEST_EXACT else _written(kind, high, math.floor(high)),
    )


def _from_codes(name: str, bound: Bound, codes: Codes) -> Condition:
    """Name the texts within an interval of codes, or those outside it where it holds the unnamed ones too."""
    named = {codes.look_up(bound.attribute, value): value for value in codes.values(bound.attribute)}
    inside = bound.low <= OTHER_TEXT <= bound.high
    listed = tuple(value for code, value in named.items() if (bound.low <= code <= bound.high) != inside)
    if not listed:
        return Not(IsNull(name)) if inside else Constant(False)
    if len(listed) == 1:
        return Comparison(name, "!=" if inside else "=", listed[0])
    return Not(In(name, listed)) if inside else In(name, listed)


def _from_ends(name: str, low: Value | None, high: Value | None) -> Condition:
    if low is not None and high is not None:
        return Comparison(name, "=", low) if low == high else Between(name, low, high)
    if low is not None:
        return Comparison(name, ">=", low)
    return Not(IsNull(name)) if high is None else Comparison(name, "<=", high)


def _written(kind: Int | Time, end: float, whole: int) -> Value:
    """Return an end as it is written for integers, and as the nearest moment within for time."""
    if isinstance(kind, Time):
        return moment(whole)
    return whole if whole == end else end
