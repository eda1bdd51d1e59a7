"""A small market that all broker tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eventsieve as es
from eventsieve.index.index import Index
from tests.kafka.server import kafka, own_kafka

__all__ = ["kafka", "own_kafka"]

SCHEMA = es.Schema({"price": es.Float(0, 100), "volume": es.Int(0, 1000), "symbol": es.Text()})


@pytest.fixture
def make_index() -> Callable[..., Index]:
    """Return a function that indexes filters by id."""

    def made(matcher: str = "simple", filters: dict[Any, str] | None = None, **params: Any) -> Index:
        subs = es.Subscriptions(SCHEMA)
        for id, text in ({"low": "price < 50", "all": "price >= 0"} if filters is None else filters).items():
            subs.add(id, text)
        return es.build(subs, matcher=matcher, **params)

    return made
