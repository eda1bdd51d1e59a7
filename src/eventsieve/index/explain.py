"""Explanations: why an event does or does not satisfy a condition, predicate by predicate.

The condition is evaluated here on the raw values, in SQL's three-valued logic, and shares nothing with the
compiled path: an explanation that contradicts a match would show a bug in one of the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from eventsieve.errors import DataError
from eventsieve.language.patterns import Wildcard, read_like
from eventsieve.language.printer import to_text
from eventsieve.language.values import literal
from eventsieve.model.condition import (
    And,
    Between,
    Comparison,
    Condition,
    Constant,
    Flag,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Regexp,
    Value,
)
from eventsieve.model.schema import Schema
from eventsieve.model.types import AttributeType, Bool, Int, Text, Time

_DAY: Final = 86_400e6


@dataclass(frozen=True)
class PredicateReport:
    """One predicate against one event. `holds` is None where the attribute is absent and so nothing is known."""

    predicate: str
    attribute: str | None
    value: Any
    interval: str
    holds: bool | None
    distance: float | None = None
    """How far a failed number is from the nearest one that would do (microseconds for time); 0 is on an open end."""
    miss: float = math.inf
    """The distance relative to the attribute's domain, or to the size of the numbers where none is declared."""
    is_time: bool = False

    def __str__(self) -> str:
        if self.attribute is None:
            return self.predicate
        if self.value is None:
            return f"{self.predicate}: {self.attribute} is absent"
        shown = f"{self.predicate}: {self.attribute} is {_shown(self.value)}"
        if not self.interval:
            return shown
        return f"{shown}, {'in' if self.holds else 'not in'} {self.interval}{self._by_how_much()}"

    def _by_how_much(self) -> str:
        if self.distance is None:
            return ""
        if self.distance == 0:
            return ", just outside"
        return f", off by {timedelta(microseconds=self.distance) if self.is_time else self.distance}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        value = self.value.isoformat() if hasattr(self.value, "isoformat") else self.value
        facts = {"predicate": self.predicate, "attribute": self.attribute, "value": value, "interval": self.interval}
        return facts | {"holds": self.holds, "distance": self.distance}


@dataclass(frozen=True)
class Group:
    """An AND or an OR with its parts: in one that fails, the failed ones first, the nearest miss before the others."""

    kind: Literal["and", "or"]
    holds: bool | None
    parts: tuple[Group | PredicateReport, ...]

    @property
    def miss(self) -> float:
        """How far the group is from holding: an AND as far as its worst part, an OR as its best."""
        misses = [part.miss for part in self.parts if part.holds is not True]
        return (max if self.kind == "and" else min)(misses, default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"kind": self.kind, "holds": self.holds, "parts": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True)
class Explanation:
    """Whether the event matches, and the report of every predicate that says why."""

    matches: bool
    root: Group | PredicateReport

    @property
    def predicates(self) -> list[PredicateReport]:
        """Every predicate; for a non-match the failed ones first, the nearest miss before the others."""
        found = list(_leaves(self.root))
        return found if self.matches else sorted(found, key=_failed_and_near)

    @property
    def failed(self) -> list[PredicateReport]:
        """The predicates that are not true, the nearest miss first."""
        return sorted((each for each in _leaves(self.root) if each.holds is not True), key=_failed_and_near)

    def __str__(self) -> str:
        heading = "match" if self.matches else "no match"
        return "\n".join([heading, *_lines(self.root, 1)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "matches": self.matches,
            "predicates": [each.to_dict() for each in self.predicates],
            "tree": self.root.to_dict(),
        }


def explain_condition(condition: Condition, schema: Schema, event: Mapping[str, Any]) -> Explanation:
    """Return why `event` does or does not satisfy `condition`.

    >>> from eventsieve.model.types import Float
    >>> schema = Schema({"price": Float(0, 100)})
    >>> print(explain_condition(Comparison("price", "<", 10.0), schema, {"price": 12.0}))
    no match
      ✗ price < 10.0: price is 12.0, not in (-inf, 10.0), off by 2.0
    """
    root = _explained(condition, schema, event, negated=False)
    return Explanation(root.holds is True, root)


# -- the tree ----------------------------------------------------------------------------------------------


def _explained(
    condition: Condition, schema: Schema, event: Mapping[str, Any], negated: bool
) -> Group | PredicateReport:
    """Push negations down to the predicates, where a distance means something, and evaluate on the way up."""
    if isinstance(condition, Not):
        return _explained(condition.part, schema, event, not negated)
    if not isinstance(condition, And | Or):
        return _report(condition, schema, event, negated)
    parts = [_explained(part, schema, event, negated) for part in condition.parts]
    verdicts = [part.holds for part in parts]
    all_needed = isinstance(condition, And) != negated
    decisive = not all_needed
    holds = decisive if decisive in verdicts else None if None in verdicts else all_needed
    if holds is not True:
        parts.sort(key=_failed_and_near)
    return Group("and" if all_needed else "or", holds, tuple(parts))


def _failed_and_near(part: Group | PredicateReport) -> tuple[bool, float]:
    return part.holds is True, part.miss


def _leaves(part: Group | PredicateReport) -> Iterator[PredicateReport]:
    if isinstance(part, PredicateReport):
        yield part
    else:
        for each in part.parts:
            yield from _leaves(each)


def _lines(part: Group | PredicateReport, depth: int) -> list[str]:
    mark = f"{'  ' * depth}{'✓' if part.holds else '✗' if part.holds is False else '?'} "
    if isinstance(part, PredicateReport):
        return [mark + str(part)]
    inner = [line for each in part.parts for line in _lines(each, depth + 1)]
    return [mark + ("all of" if part.kind == "and" else "one of"), *inner]


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | float | int) else str(value)


# -- one predicate -----------------------------------------------------------------------------------------


def _report(condition: Predicate, schema: Schema, event: Mapping[str, Any], negated: bool) -> PredicateReport:
    text = to_text(Not(condition) if negated else condition, schema)
    if isinstance(condition, Constant):
        return PredicateReport(text, None, None, "", condition.value != negated)
    name, kind = condition.attribute, schema[condition.attribute]
    raw = event.get(name)
    interval = _interval(condition, negated)
    if isinstance(condition, IsNull):
        return PredicateReport(text, name, raw, interval, (raw is None) != negated)
    if raw is None:
        return PredicateReport(text, name, None, interval, None)
    value = _comparable(kind, name, raw)
    holds = _holds(condition, kind, value) != negated
    if holds or isinstance(kind, Text):
        return PredicateReport(text, name, raw, interval, holds)
    distance = _distance(condition, kind, value, negated)
    miss = _relative(kind, value, distance)
    return PredicateReport(text, name, raw, interval, holds, distance, miss, isinstance(kind, Time))


def _comparable(kind: AttributeType, name: str, raw: Any) -> Any:
    """Return an event's value as a plain text or number; integers stay exact."""
    try:
        if isinstance(kind, Text):
            if not isinstance(raw, str):
                raise ValueError(f"a text is needed, not {raw!r}")
            return raw
        return kind.whole(raw) if isinstance(kind, Int) else kind.number(raw)
    except ValueError as cause:
        raise DataError(f"attribute {name!r}: {cause}") from cause


def _number(kind: AttributeType, value: Value) -> Any:
    """Return a condition's value in the same terms as `_comparable`."""
    return kind.number(value) if isinstance(kind, Time | Bool) else value


def _holds(condition: Predicate, kind: AttributeType, value: Any) -> bool:
    match condition:
        case Flag():
            return bool(value)
        case Comparison(_, operator, operand):
            return _compares(value, operator, _number(kind, operand))
        case Between(_, low, high):
            return bool(_number(kind, low) <= value <= _number(kind, high))
        case In(_, values):
            return any(value == _number(kind, each) for each in values)
        case Like():
            return _fits(condition, value)
        case Regexp(_, pattern):
            return bool(pc.match_substring_regex(pa.array([value]), pattern=pattern)[0].as_py())
    raise TypeError(f"{condition!r} is not a predicate over values")


def _compares(value: Any, operator: str, operand: Any) -> bool:
    if operator in ("=", "!="):
        return bool((value == operand) == (operator == "="))
    if value == operand:
        return operator in ("<=", ">=")
    return bool((value < operand) == operator.startswith("<"))


def _fits(like: Like, text: str) -> bool:
    """Ask Arrow's own LIKE, whose escape character is always the backslash."""
    marks = str.maketrans({mark: "\\" + mark for mark in "\\%_"})
    parts = read_like(like.pattern, like.escape)
    pattern = "".join(part.value if isinstance(part, Wildcard) else part.translate(marks) for part in parts)
    return bool(pc.match_like(pa.array([text]), pattern=pattern, ignore_case=like.ignore_case)[0].as_py())


# -- how far -----------------------------------------------------------------------------------------------


def _distance(condition: Predicate, kind: AttributeType, value: Any, negated: bool) -> float | None:
    """Return how far a failed value is from the edge of what would do."""
    if isinstance(kind, Bool):
        return None
    match condition:
        case Comparison(_, operator, operand):
            unequal = (operator == "!=") != negated and operator in ("=", "!=")
            return 0.0 if unequal else float(abs(value - _number(kind, operand)))
        case Between(_, low, high):
            return float(min(abs(value - _number(kind, low)), abs(value - _number(kind, high))))
        case In(_, values):
            return 0.0 if negated else float(min(abs(value - _number(kind, each)) for each in values))
    return None


def _relative(kind: AttributeType, value: Any, distance: float | None) -> float:
    if distance is None:
        return math.inf
    low, high = kind.domain()
    if low is not None and high is not None and high > low:
        return distance / (high - low)
    # Without a domain: against the size of the value itself, and a time, whose size means nothing, against a day.
    scale = _DAY if isinstance(kind, Time) else max(abs(float(value)), 1.0)
    return distance / (distance + scale)


# -- intervals for people ----------------------------------------------------------------------------------


def _interval(condition: Predicate, negated: bool) -> str:
    """Return the values for which a predicate is true; nothing where the predicate itself says it best."""
    match condition:
        case Comparison(_, "=" | "!=" as operator, value):
            return _listed([value], (operator == "!=") != negated)
        case Comparison(_, operator, value):
            return _half_line(operator, literal(value), negated)
        case Between(_, low, high) if negated:
            return f"(-inf, {literal(low)}) or ({literal(high)}, inf)"
        case Between(_, low, high):
            return f"[{literal(low)}, {literal(high)}]"
        case In(_, values):
            return _listed(values, negated)
    return ""


def _listed(values: Sequence[Value], negated: bool) -> str:
    return ("all but " if negated else "") + "{" + ", ".join(map(literal, values)) + "}"


def _half_line(operator: str, end: str, negated: bool) -> str:
    below = operator.startswith("<") != negated
    closed = operator.endswith("=") != negated
    if below:
        return f"(-inf, {end}{']' if closed else ')'}"
    return f"{'[' if closed else '('}{end}, inf)"
