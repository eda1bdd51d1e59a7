"""A definition of what clauses mean, one event at a time, written to be obviously right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eventsieve.model.clause import AllOf, AnyOf, Clause, InSet, IsAbsent, MatchesPattern, Residual
from eventsieve.model.codes import Codes
from eventsieve.model.schema import Schema
from eventsieve.model.types import LARGEST_EXACT, Text


def any_matches(clauses: list[Clause], schema: Schema, codes: Codes, event: Mapping[str, Any]) -> bool:
    """Say whether one of the clauses matches an event."""
    numbers = {schema.position(name): _number(schema, codes, name, value) for name, value in event.items()}
    texts = {schema.position(name): value for name, value in event.items()}
    return any(
        all(a in numbers and low <= numbers[a] <= high for a, low, high in clause.bounds)
        and (clause.residual is None or _holds(clause.residual, numbers, texts))
        for clause in clauses
    )


def _number(schema: Schema, codes: Codes, name: str, value: Any) -> float:
    kind, attribute = schema[name], schema.position(name)
    if isinstance(kind, Text) or (type(value) is int and abs(value) > LARGEST_EXACT):
        return codes.look_up(attribute, value)
    return kind.number(value)


def _holds(residual: Residual, numbers: dict[int, float], texts: dict[int, Any]) -> bool:
    match residual:
        case InSet(a, intervals):
            return a in numbers and any(low <= numbers[a] <= high for low, high in intervals)
        case IsAbsent(a):
            return a not in numbers
        case MatchesPattern(a, regex, ignore_case, negated):
            # Python's "$" also matches before a final newline, RE2's does not.
            found = a in texts and re.search(regex.replace("$", r"\Z"), texts[a], re.IGNORECASE * ignore_case)
            return a in texts and bool(found) != negated
        case AllOf(parts):
            return all(_holds(part, numbers, texts) for part in parts)
        case AnyOf(parts):
            return any(_holds(part, numbers, texts) for part in parts)
