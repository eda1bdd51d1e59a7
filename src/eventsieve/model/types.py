"""Attribute types: what values an attribute takes and how a value becomes a number.

Every value is matched as a float64. Floats are themselves; integers and booleans are whole numbers;
time is microseconds since 1970 in UTC; text becomes a code (see `codes`). A domain is a hint for
indexes that cut a value range into cells: values outside it are legal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import Any, ClassVar, Final, TypeAlias

LARGEST_EXACT: Final = 2**53
"""Whole numbers up to this size are exact in a float64."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Float:
    """A real number."""

    low: float | None = None
    high: float | None = None

    kind: ClassVar[str] = "float"
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_domain(self.low, self.high)

    def domain(self) -> tuple[float | None, float | None]:
        """Return the declared ends as the numbers that are matched; None where there is none."""
        return self.low, self.high

    def number(self, value: Any) -> float:
        """Return `value` as the float that is matched; raise ValueError with the reason if it is none."""
        # Most values are floats; asking an abstract class about them would take longer than all the rest.
        if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
            raise ValueError(f"a number is needed, not {_shown(value)}")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"a finite number is needed, not {number}")
        return number + 0.0  # -0.0 becomes 0.0

    def show(self, number: float) -> str:
        """Return `number` as a literal of the filter language."""
        return repr(float(number))


@dataclass(frozen=True)
class Int:
    """A whole number. Beyond 2**53 in size only equality can be asked (see `codes`)."""

    low: int | None = None
    high: int | None = None

    kind: ClassVar[str] = "int"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_domain(self.low, self.high)

    def domain(self) -> tuple[float | None, float | None]:
        """Return the declared ends as the numbers that are matched; None where there is none."""
        return self.low, self.high

    def number(self, value: Any) -> float:
        """Return `value` as the float that is matched; sizes beyond 2**53 are the business of `codes`."""
        whole = self.whole(value)
        if abs(whole) > LARGEST_EXACT:
            raise ValueError(f"{whole} is beyond 2**53, where only = and != work")
        return float(whole)

    def whole(self, value: Any) -> int:
        """Return `value` as a Python int; raise ValueError with the reason if it is not whole."""
        if isinstance(value, bool):
            raise ValueError(f"a whole number is needed, not {_shown(value)}")
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and float(value).is_integer():
            return int(float(value))
        raise ValueError(f"a whole number is needed, not {_shown(value)}")

    def show(self, number: float) -> str:
        """Return `number` as a literal of the filter language."""
        return str(int(number))


@dataclass(frozen=True)
class Bool:
    """True or false."""

    low: ClassVar[int] = 0
    high: ClassVar[int] = 1
    kind: ClassVar[str] = "bool"
    discrete: ClassVar[bool] = True

    def domain(self) -> tuple[float | None, float | None]:
        """Return the declared ends as the numbers that are matched; None where there is none."""
        return self.low, self.high

    def number(self, value: Any) -> float:
        """Return 1.0 for true and 0.0 for false; raise ValueError for anything that is not a boolean."""
        if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy.bool too, without importing it
            return 1.0 if value else 0.0
        raise ValueError(f"true or false is needed, not {_shown(value)}")

    def show(self, number: float) -> str:
        """Return `number` as a literal of the filter language."""
        return "TRUE" if number else "FALSE"


@dataclass(frozen=True)
class Time:
    """A moment, kept as microseconds since 1970 in UTC.

    ISO texts, dates and datetimes are accepted, those without a zone as UTC. Plain numbers count
    `unit`s since 1970: "s" (the default), "ms" or "us".
    """

    low: Any = None
    high: Any = None
    unit: str = "s"

    kind: ClassVar[str] = "time"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ValueError(f"the unit of epoch numbers is 's', 'ms' or 'us', not {self.unit!r}")
        # As ISO texts, so that a type equals what comes back from a stored schema.
        for end in ("low", "high"):
            if getattr(self, end) is not None:
                object.__setattr__(self, end, self.moment(self.number(getattr(self, end))).isoformat())
        _check_domain(*self.domain())

    def domain(self) -> tuple[float | None, float | None]:
        """Return the declared ends as the numbers that are matched; None where there is none."""
        return (
            None if self.low is None else self.number(self.low),
            None if self.high is None else self.number(self.high),
        )

    def number(self, value: Any) -> float:
        """Return the moment as microseconds since 1970; raise ValueError with the reason if it is none."""
        micros = self._micros(value)
        if abs(micros) > LARGEST_EXACT:
            raise ValueError(f"{_shown(value)} is outside the years 1684 to 2255 that microseconds cover exactly")
        return float(micros)

    def _micros(self, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value.strip())
            except ValueError as cause:
                raise ValueError(f"an ISO 8601 time is needed, not {_shown(value)}") from cause
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (moment - _EPOCH) // timedelta(microseconds=1)
        if isinstance(value, date):
            return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"a time is needed, not {_shown(value)}")
        if isinstance(value, Integral):
            return int(value) * _UNITS[self.unit]
        if not math.isfinite(value):
            raise ValueError(f"a finite number is needed, not {float(value)}")
        return round(float(value) * _UNITS[self.unit])

    def moment(self, number: float) -> datetime:
        """Return the moment that `number` stands for."""
        return _EPOCH + timedelta(microseconds=int(number))

    def show(self, number: float) -> str:
        """Return `number` as a literal of the filter language."""
        moment = self.moment(number)
        text = moment.replace(tzinfo=None).isoformat(
            sep=" ", timespec="microseconds" if moment.microsecond else "seconds"
        )
        return f"TIMESTAMP '{text}'"


@dataclass(frozen=True)
class Text:
    """A text, compared for equality only (ordering of texts depends on a collation, so it is refused)."""

    low: ClassVar[None] = None
    high: ClassVar[None] = None
    kind: ClassVar[str] = "text"
    discrete: ClassVar[bool] = True

    def domain(self) -> tuple[float | None, float | None]:
        """Return the declared ends as the numbers that are matched; None where there is none."""
        return self.low, self.high

    def number(self, value: Any) -> float:
        """Refuse: a text has a number only within one collection's `Codes`."""
        raise ValueError(f"a text has no number of its own: {_shown(value)}")

    def show(self, text: str) -> str:
        """Return `text` as a literal of the filter language."""
        return "'" + text.replace("'", "''") + "'"


AttributeType: TypeAlias = Float | Int | Bool | Time | Text
TYPES: Final[dict[str, type[AttributeType]]] = {each.kind: each for each in (Float, Int, Bool, Time, Text)}


def _check_domain(low: float | None, high: float | None) -> None:
    for end in (low, high):
        if end is not None and (isinstance(end, bool) or not isinstance(end, Real) or not math.isfinite(end)):
            raise ValueError(f"a domain ends at a finite number, not {_shown(end)}")
    if low is not None and high is not None and low > high:
        raise ValueError(f"the domain [{low}, {high}] is empty: its low end is above its high end")


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({type(value).__name__})"
