"""Which values an attribute may be compared with, and how: the one set of rules for texts and for conditions.

Everything here raises ValueError with the reason; callers add the place.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Final, TypeAlias

from eventsieve.model.codes import Codes
from eventsieve.model.condition import Value, moment
from eventsieve.model.types import LARGEST_EXACT, AttributeType, Bool, Float, Int, Text, Time

EQUALITY: Final = ("=", "!=", "IN")
"""The operators that texts and integers beyond 2**53 take."""

Written: TypeAlias = bool | Fraction | str | datetime
"""A literal before it meets an attribute. Fractions keep literal arithmetic exact: 0.1 + 0.2 is 0.3."""


def as_value(kind: AttributeType, written: Written, operator: str) -> Value:
    """Return a literal as the attribute's type keeps it."""
    value = _as_value(kind, written)
    check_value(kind, value, operator)
    return value


def _as_value(kind: AttributeType, written: Written) -> Value:
    if isinstance(kind, Float | Int) and isinstance(written, Fraction):
        return _as_number(kind, written)
    if isinstance(kind, Time) and not isinstance(written, bool):
        return moment(kind.number(written))
    if isinstance(written, Fraction):
        return _as_number(Int() if written.denominator == 1 else Float(), written)
    return written


def _as_number(kind: Float | Int, written: Fraction) -> int | float:
    if isinstance(kind, Int) and written.denominator == 1:
        return written.numerator
    try:
        number = float(written)
    except OverflowError:
        raise ValueError("the number is too large for a float64") from None
    if isinstance(kind, Int) and number.is_integer():
        raise ValueError(f"the fraction is too close to {int(number)} for a float64 to tell; write a whole number")
    return number + 0.0  # -0.0 becomes 0.0


def check_value(kind: AttributeType, value: Value, operator: str) -> None:
    """Raise ValueError unless the operator may compare the attribute with this value."""
    if isinstance(kind, Text):
        if not isinstance(value, str):
            raise ValueError(f"a text in single quotes is needed, not {shown(value)}")
        if operator not in EQUALITY:
            raise ValueError(f"{operator} on a text is refused: the order of texts depends on a collation; use = or IN")
    elif isinstance(kind, Bool):
        if not isinstance(value, bool):
            raise ValueError(f"TRUE or FALSE is needed, not {shown(value)}")
    elif isinstance(kind, Time):
        if not isinstance(value, datetime):
            raise ValueError(f"a time is needed, not {shown(value)}")
        kind.number(value)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number is needed, not {shown(value)}")
    elif isinstance(kind, Float):
        kind.number(value)
    elif abs(value) > LARGEST_EXACT and (operator not in EQUALITY or isinstance(value, float)):
        raise ValueError(f"{value} is beyond 2**53, where only =, != and IN work")
    else:
        Float().number(value)


def matched_number(kind: AttributeType, attribute: int, value: Value, operator: str, codes: Codes) -> float:
    """Return the number that stands for the value in clauses, giving it a code where it needs one."""
    check_value(kind, value, operator)
    if isinstance(kind, Text):
        return codes.assign(attribute, str(value))
    if isinstance(kind, Int):
        if isinstance(value, int) and abs(value) > LARGEST_EXACT:
            return codes.assign(attribute, value)
        return float(value)  # type: ignore[arg-type]  # check_value has seen to it
    return kind.number(value)


def literal(value: Value) -> str:
    """Return the value as the filter language writes it."""
    if isinstance(value, bool):
        return Bool().show(value)
    if isinstance(value, str):
        return Text().show(value)
    if isinstance(value, datetime):
        return Time().show(Time().number(value))
    return str(value) if isinstance(value, int) else Float().show(value)


def shown(value: Value) -> str:
    """Return the literal, cut to a length that suits a message."""
    text = literal(value)
    return text if len(text) <= 60 else text[:57] + "..."
