"""Random schemas, filters and events, made to meet: events repeat the values that filters name."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time

TEXTS = ("", "A", "a", "AB", "a%b", "it's", "über", "x_y", "long text\nwith a line", "\\", "NULL")
PATTERNS = ("%", "A%", "%b", "_", "a_b", "%t%", "", "A", "%\\%", "x!_y", "%%", "Ü%", ".*")
START = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def random_schema(source: random.Random) -> Schema:
    """Return two to six attributes, each type possible more than once."""
    kinds = [Float(), Float(-5, 5), Int(), Int(0, 9), Bool(), Time(), Text()]
    return Schema({f"attribute_{n}": source.choice(kinds) for n in range(source.randint(2, 6))})


def random_value(source: random.Random, kind: Any) -> Any:
    """Return a value from a small pool, so that equal ones are common."""
    match kind:
        case Float():
            return source.choice([-2.0, -0.1, 0.0, 0.1, 0.3, 1.0, 2.5, 3.0, 1e-9, 12345.678])
        case Int():
            return source.choice([-2, -1, 0, 1, 2, 3, 4, 5, 2**53, 2**53 + 1, -(2**53) - 1, 2**60])
        case Bool():
            return source.random() < 0.5
        case Time():
            return START + timedelta(microseconds=source.choice([-1, 0, 1, 2, 10**6, -(10**9)]))
    return source.choice(TEXTS)


def random_event(source: random.Random, schema: Schema) -> dict[str, Any]:
    """Return an event that lacks some of the attributes."""
    return {name: random_value(source, kind) for name, kind in schema.items() if source.random() < 0.75}


def random_filter(source: random.Random, schema: Schema, depth: int = 3) -> str:
    """Return a filter text that has the same meaning here and in DuckDB."""
    roll = source.random()
    if depth and roll < 0.55:
        joint = source.choice([" AND ", " OR "])
        parts = [random_filter(source, schema, depth - 1) for _ in range(source.randint(2, 4))]
        return joint.join(f"({part})" for part in parts)
    if depth and roll < 0.7:
        return f"NOT ({random_filter(source, schema, depth - 1)})"
    if roll < 0.72:
        return source.choice(["TRUE", "FALSE", "1 = 1", "2 < 1"])
    return _predicate(source, schema)


def _predicate(source: random.Random, schema: Schema) -> str:
    name, kind = source.choice(list(schema.items()))
    negation = source.choice(["", " NOT"])
    if source.random() < 0.12:
        return f"{name} IS{negation} NULL"
    if source.random() < 0.2:
        listed = ", ".join(_literal(source, kind, equality=True) for _ in range(source.randint(1, 5)))
        return f"{name}{negation} IN ({listed})"
    if isinstance(kind, Bool) and source.random() < 0.5:
        return name
    if isinstance(kind, Text) and source.random() < 0.5:
        escape = source.choice(["", "", " ESCAPE '!'"])
        return f"{name}{negation} {source.choice(['LIKE', 'ILIKE'])} {_quoted(source.choice(PATTERNS))}{escape}"
    if not isinstance(kind, Text) and source.random() < 0.3:
        return f"{name}{negation} BETWEEN {_literal(source, kind)} AND {_literal(source, kind)}"
    operator = source.choice(["=", "!=", "<>"] if isinstance(kind, Text) else ["=", "!=", "<", "<=", ">", ">="])
    value = _literal(source, kind, equality=operator in ("=", "!=", "<>"))
    return f"{name} {operator} {value}" if source.random() < 0.7 else f"{value} {operator} {name}"


def _literal(source: random.Random, kind: Any, equality: bool = False) -> str:
    value = random_value(source, kind)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        return f"TIMESTAMP '{text}'" if source.random() < 0.5 else f"'{text}'"
    if isinstance(value, int) and abs(value) > 2**53 and not equality:
        value = 2**53
    if source.random() < 0.15 and 1e-3 < abs(value) < 1e5:
        # Whole and decimal literals add up exactly here and in DuckDB.
        return f"({value!r} + {source.choice([0, 1, 2])} * {source.choice([1, 3])})"
    if isinstance(value, int) and source.random() < 0.15:
        return source.choice(["2.5", "-0.5", "3.0"])
    return repr(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
