"""Conditions as canonical text: what `parse` reads back to an equal condition."""

from __future__ import annotations

import re
from typing import Final

from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

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
)
from eventsieve.model.schema import Schema

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MEANT_OTHERWISE: Final = frozenset((*Tokenizer.KEYWORDS, *Parser.NO_PAREN_FUNCTION_PARSERS))
"""Words that SQL reads as something else than a name; a superset does no harm but a pair of quotes."""


def to_text(condition: Condition, schema: Schema) -> str:
    """Return the condition in the filter language.

    >>> from eventsieve.model.types import Float
    >>> to_text(Not(Between("price", 1.0, 2.0)), Schema({"price": Float()}))
    'price NOT BETWEEN 1.0 AND 2.0'
    """
    if isinstance(condition, And):
        return " AND ".join(_inner(part, schema, Or) for part in condition.parts)
    if isinstance(condition, Or):
        return " OR ".join(to_text(part, schema) for part in condition.parts)
    if isinstance(condition, Not):
        return _negation(condition.part, schema)
    return _predicate(condition, schema)


def name_text(name: str) -> str:
    """Return an attribute's name, in double quotes where SQL would misread it."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _MEANT_OTHERWISE:
        return name
    return '"' + name.replace('"', '""') + '"'


def _inner(part: Condition, schema: Schema, *weaker: type) -> str:
    text = to_text(part, schema)
    return f"({text})" if isinstance(part, weaker) else text


def _negation(part: Condition, schema: Schema) -> str:
    if isinstance(part, Between | In | IsNull | Like):
        return _predicate(part, schema, " NOT")
    return "NOT " + _inner(part, schema, And, Or)


def _predicate(part: Predicate, schema: Schema, negation: str = "") -> str:
    if isinstance(part, Constant):
        return literal(part.value)
    schema.position(part.attribute)
    name = name_text(part.attribute)
    match part:
        case Flag():
            return name
        case Comparison(_, operator, value):
            return f"{name} {operator} {literal(value)}"
        case Between(_, low, high):
            return f"{name}{negation} BETWEEN {literal(low)} AND {literal(high)}"
        case In(_, values):
            return f"{name}{negation} IN ({', '.join(map(literal, values))})"
        case IsNull():
            return f"{name} IS{negation} NULL"
        case Like(_, pattern, ignore_case, escape):
            ending = "" if escape is None else f" ESCAPE {literal(escape)}"
            return f"{name}{negation} {'ILIKE' if ignore_case else 'LIKE'} {literal(pattern)}{ending}"
        case Regexp(_, pattern):
            return f"regexp_like({name}, {literal(pattern)})"
