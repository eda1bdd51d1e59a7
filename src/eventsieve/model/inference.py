"""A schema inferred from events: what type fits the values seen of each attribute, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from eventsieve.model.schema import Schema
from eventsieve.model.types import TYPES, AttributeType

_OTHER = "other"


def infer_schema(rows: Iterable[Mapping[str, Any]] | pa.Table) -> Schema:
    """Return a schema for these events; its `decisions` say what was decided for each attribute, and from what.

    The type that most values have wins; whole numbers and others together are floats. Domains are left open,
    because what was seen need not be all there is.

    >>> schema = infer_schema([{"price": 12, "symbol": "A"}, {"price": 12.5}])
    >>> print(*schema.decisions, sep=", ")
    price: float (2 values), symbol: text (1 value)
    """
    if isinstance(rows, pa.Table | pa.RecordBatch):
        rows = rows.to_pylist()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for name, value in row.items():
            if value is not None:
                counts[name][_kind(value)] += 1
            else:
                counts[name] += Counter()
    attributes: dict[str, AttributeType] = {}
    decisions = []
    for name, seen in counts.items():
        kind = _decided(seen)
        decisions.append(f"{name}: {_reason(seen, kind)}")
        if kind is not None:
            attributes[name] = TYPES[kind]()
    return Schema(attributes, tuple(decisions))


def _kind(value: Any) -> str:
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy.bool too, without importing it
        return "bool"
    if isinstance(value, Integral):
        return "int"
    if isinstance(value, Real):
        return "float"
    if isinstance(value, datetime | date):
        return "time"
    if isinstance(value, str):
        return "time" if _is_moment(value) else "text"
    return _OTHER


def _is_moment(text: str) -> bool:
    """Say whether a text is a date with a time of day. A date alone is as often a label, so it stays text."""
    if len(text) < len("2026-01-31T09:30") or not text[:4].isdigit():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _decided(seen: Counter[str]) -> str | None:
    votes = Counter({kind: count for kind, count in seen.items() if kind != _OTHER})
    if votes["float"] and votes["int"]:
        votes["float"] += votes.pop("int")
    if votes["text"] and votes["time"]:
        votes["text"] += votes.pop("time")  # a time is a text too, but not the other way round
    best = votes.most_common(1)
    return best[0][0] if best and best[0][1] > 0 else None


def _reason(seen: Counter[str], kind: str | None) -> str:
    total = sum(seen.values())
    if not total:
        return "left out, every value is null"
    if kind is None:
        return "left out, no value is a number, a text, a boolean or a time"
    fitting = {"float": ("float", "int"), "text": ("text", "time")}.get(kind, (kind,))
    misfits = total - sum(seen[each] for each in fitting)
    shown = f"{kind} ({total} value{'s' if total != 1 else ''}"
    return f"{shown}, {misfits} of them of another type)" if misfits else f"{shown})"
