"""Workloads as people and files see them: filter texts and events as dicts, one at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from eventsieve.model.types import AttributeType, Text
from eventsieve.workload.spec import Workload


def filter_texts(workload: Workload, seed: int = 1) -> Iterator[tuple[int, str]]:
    """Yield (id, filter) for the subscriptions of `subscription_arrays(seed)`, in order.

    >>> from eventsieve.workload import standard
    >>> next(filter_texts(standard("gem", n=1, k=2, single=0.1)))
    (0, 'a16 BETWEEN 18 AND 20 AND a25 BETWEEN 15 AND 17')
    """
    schema, texts = workload.schema(), workload.texts()
    start, attribute, low, high = (column.tolist() for column in workload.subscription_arrays(seed))
    for s in range(workload.n):
        predicates = []
        for p in range(start[s], start[s + 1]):
            name = schema.names[attribute[p]]
            predicates.append(_predicate(name, schema.types[attribute[p]], low[p], high[p], texts.get(name)))
        yield s, " AND ".join(predicates)


def event_rows(workload: Workload, count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the events of `events(count, seed)` as dicts that JSON can hold; times are ISO texts."""
    events = workload.events(count, seed)
    for e in range(count):
        yield {name: value.isoformat() if isinstance(value, datetime) else value for name, value in events[e].items()}


def _predicate(name: str, kind: AttributeType, low: float, high: float, texts: list[str] | None) -> str:
    if isinstance(kind, Text):
        return f"{name} = '{(texts or [])[int(low)]}'"
    if low == high:
        return f"{name} = {kind.show(low)}"
    if math.isinf(high):
        return f"{name} >= {kind.show(low)}"
    if math.isinf(low):
        return f"{name} <= {kind.show(high)}"
    return f"{name} BETWEEN {kind.show(low)} AND {kind.show(high)}"
