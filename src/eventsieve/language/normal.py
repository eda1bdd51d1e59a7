"""Conditions in a form that is easy to cut into clauses: sets per attribute, residual checks, and choices.

Negations are pushed down to the predicates. In three-valued logic De Morgan's laws hold, and a predicate and its
negation are both not true where its attribute is absent; so each becomes a set of values that the attribute has to
have, and truth alone remains: what is unknown and what is false need no telling apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from eventsieve.errors import FilterError
from eventsieve.language.intervals import (
    EVERYTHING,
    NOTHING,
    IntervalSet,
    compared,
    complement,
    contains,
    intersection,
    union,
)
from eventsieve.language.patterns import Wildcard, check_regex, like_regex, read_like
from eventsieve.language.values import matched_number
from eventsieve.model.clause import MatchesPattern
from eventsieve.model.codes import Codes
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
from eventsieve.model.types import AttributeType, Bool, Text

_ROUNDS: Final = 8
"""Simplification stops after so many rounds: a chain of a thousand choices is not walked a thousand times."""

Choice: TypeAlias = tuple["Conjunction", ...]
"""Two or more alternatives, at least one of which has to hold."""


@dataclass(frozen=True)
class Conjunction:
    """All of: every attribute's value in its set, some attributes absent, some patterns met, one of each choice."""

    sets: tuple[tuple[int, IntervalSet], ...] = ()
    absent: frozenset[int] = frozenset()
    patterns: tuple[MatchesPattern, ...] = ()
    choices: tuple[Choice, ...] = ()


ALWAYS: Final = Conjunction()


def conjoined(parts: Iterable[Conjunction | None]) -> Conjunction | None:
    """Return the conjunction of several, or None if they exclude each other. None, for never, excludes all."""
    sets: dict[int, IntervalSet] = {}
    absent: set[int] = set()
    patterns: dict[MatchesPattern, None] = {}
    choices: dict[Choice, None] = {}
    for part in parts:
        if part is None:
            return None
        for attribute, values in part.sets:
            sets[attribute] = intersection(sets.get(attribute, EVERYTHING), values)
            if not sets[attribute]:
                return None
        absent |= part.absent
        patterns |= dict.fromkeys(part.patterns)
        choices |= dict.fromkeys(part.choices)
    if not absent.isdisjoint(sets):
        return None
    return Conjunction(tuple(sorted(sets.items())), frozenset(absent), tuple(patterns), tuple(choices))


def simplified(conjunction: Conjunction) -> Conjunction | None:
    """Drop choices that are settled already and alternatives that are out of the question; None if nothing is left."""
    for _ in range(_ROUNDS):
        if not conjunction.choices:
            break
        kept: list[Choice] = []
        forced: list[Conjunction] = []
        sets = dict(conjunction.sets)
        for choice in conjunction.choices:
            if any(_implied(each, sets, conjunction) for each in choice):
                continue
            open_ones = tuple(each for each in choice if not _excluded(each, sets, conjunction.absent))
            if len(open_ones) > 1:
                kept.append(open_ones)
            elif open_ones:
                forced.append(open_ones[0])
            else:
                return None
        rest = Conjunction(conjunction.sets, conjunction.absent, conjunction.patterns, tuple(kept))
        if not forced:
            return rest
        merged = conjoined([rest, *forced])
        if merged is None:
            return None
        conjunction = merged
    return conjunction


def _implied(part: Conjunction, sets: dict[int, IntervalSet], given: Conjunction) -> bool:
    return (
        not part.choices
        and part.absent <= given.absent
        and all(attribute in sets and contains(values, sets[attribute]) for attribute, values in part.sets)
        and all(pattern in given.patterns for pattern in part.patterns)
    )


def _excluded(part: Conjunction, sets: dict[int, IntervalSet], absent: frozenset[int]) -> bool:
    return not part.absent.isdisjoint(sets) or any(
        attribute in absent or not intersection(sets.get(attribute, EVERYTHING), values)
        for attribute, values in part.sets
    )


class Normaliser:
    """Brings conditions over one schema into normal form; texts and big integers get their codes on the way."""

    def __init__(self, schema: Schema, codes: Codes) -> None:
        self.schema = schema
        self.codes = codes

    def normal(self, condition: Condition, negated: bool = False) -> Conjunction | None:
        """Return when the condition (or, negated, its negation) is true; None for never."""
        if isinstance(condition, Not):
            return self.normal(condition.part, not negated)
        if isinstance(condition, And | Or):
            parts = [self.normal(part, negated) for part in condition.parts]
            # De Morgan: a negated OR is an AND of negations, and the other way round.
            if isinstance(condition, And) != negated:
                together = conjoined(parts)
                return together and simplified(together)
            return self.disjoined([part for part in parts if part is not None])
        return self.predicate(condition, negated)

    def disjoined(self, parts: list[Conjunction]) -> Conjunction | None:
        """Return the disjunction of several. Alternatives on the same single attribute become one set."""
        united: dict[int, IntervalSet] = {}
        others: dict[Conjunction, None] = {}
        for part in _spread(parts):
            if part == ALWAYS:
                return ALWAYS
            if len(part.sets) == 1 and not (part.absent or part.patterns or part.choices):
                attribute, values = part.sets[0]
                united[attribute] = union(self.schema.types[attribute], (united.get(attribute, NOTHING), values))
            else:
                others[part] = None
        alternatives = [Conjunction(((attribute, values),)) for attribute, values in united.items()] + list(others)
        for attribute, values in united.items():
            if values is EVERYTHING and Conjunction(absent=frozenset({attribute})) in others:
                return ALWAYS
        if len(alternatives) < 2:
            return alternatives[0] if alternatives else None
        return Conjunction(choices=(tuple(alternatives),))

    def predicate(self, condition: Predicate, negated: bool) -> Conjunction | None:
        if isinstance(condition, Constant):
            return ALWAYS if condition.value != negated else None
        attribute = self.schema.position(condition.attribute)
        kind = self.schema.types[attribute]
        if isinstance(condition, IsNull) and not negated:
            return Conjunction(absent=frozenset({attribute}))
        try:
            if isinstance(condition, Regexp) or (isinstance(condition, Like) and not _as_set(condition)):
                pattern = _pattern(condition, attribute, kind, negated)
                return Conjunction(((attribute, EVERYTHING),), patterns=(pattern,))
            values = EVERYTHING if isinstance(condition, IsNull) else self.values(condition, attribute, kind)
        except ValueError as cause:
            raise FilterError(f"{condition.attribute!r}: {cause}") from cause
        if negated and not isinstance(condition, IsNull):
            values = complement(kind, values)
        return Conjunction(((attribute, values),)) if values else None

    def values(self, condition: Predicate, attribute: int, kind: AttributeType) -> IntervalSet:
        """Return the values for which a predicate is true."""

        def number(value: Value, operator: str) -> float:
            return matched_number(kind, attribute, value, operator, self.codes)

        match condition:
            case Flag():
                if not isinstance(kind, Bool):
                    raise ValueError(f"alone it is no condition: it is {kind.kind}, not bool")
                return compared(kind, "=", 1.0)
            case Comparison(_, operator, value):
                return compared(kind, operator, number(value, operator))
            case Between(_, low, high):
                above = compared(kind, ">=", number(low, "BETWEEN"))
                return intersection(above, compared(kind, "<=", number(high, "BETWEEN")))
            case In(_, values):
                return union(kind, (compared(kind, "=", number(value, "IN")) for value in values))
            case Like():
                _check_text(kind, "LIKE")
                return self.plain_like(condition, attribute, kind)
        raise TypeError(f"{condition!r} is not a predicate over values")

    def plain_like(self, condition: Like, attribute: int, kind: AttributeType) -> IntervalSet:
        parts = read_like(condition.pattern, condition.escape)
        if parts == (Wildcard.ANY,):
            return EVERYTHING
        text = parts[0] if parts else ""
        return compared(kind, "=", self.codes.assign(attribute, str(text)))


def _spread(parts: list[Conjunction]) -> Iterable[Conjunction]:
    """Yield alternatives, with the alternatives of a part that is nothing but one choice in its place."""
    for part in parts:
        if len(part.choices) == 1 and not (part.sets or part.absent or part.patterns):
            yield from part.choices[0]
        else:
            yield part


def _as_set(like: Like) -> bool:
    """Say whether a LIKE is a plain equality or a mere check for presence."""
    parts = read_like(like.pattern, like.escape)
    if all(part is Wildcard.ANY for part in parts) and parts:
        return len(parts) == 1
    return not like.ignore_case and not any(isinstance(part, Wildcard) for part in parts)


def _pattern(condition: Like | Regexp, attribute: int, kind: AttributeType, negated: bool) -> MatchesPattern:
    if isinstance(condition, Regexp):
        _check_text(kind, "regexp_like")
        check_regex(condition.pattern)
        return MatchesPattern(attribute, condition.pattern, negated=negated)
    _check_text(kind, "LIKE")
    return MatchesPattern(attribute, like_regex(condition.pattern, condition.escape), condition.ignore_case, negated)


def _check_text(kind: AttributeType, operator: str) -> None:
    if not isinstance(kind, Text):
        raise ValueError(f"{operator} takes a text attribute, and it is {kind.kind}")
