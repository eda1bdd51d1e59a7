"""Explanations: every predicate of a match, the nearest miss of a non-match, unknown for what is absent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventsieve.errors import DataError
from eventsieve.index.explain import Explanation, explain_condition
from eventsieve.language import parse
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time

SCHEMA = Schema({"price": Float(0, 100), "volume": Int(0, 10_000), "halted": Bool(), "at": Time(), "symbol": Text()})


def explained(text: str, **event: Any) -> Explanation:
    return explain_condition(parse(text, SCHEMA), SCHEMA, event)


def test_a_match_shows_every_predicate_with_its_value_and_interval() -> None:
    explanation = explained(
        "price BETWEEN 10 AND 20 AND volume > 5 AND symbol IN ('A', 'B')", price=12.5, volume=6, symbol="A"
    )
    assert explanation.matches
    assert not explanation.failed
    assert [(each.attribute, each.value, each.interval, each.holds) for each in explanation.predicates] == [
        ("price", 12.5, "[10.0, 20.0]", True),
        ("volume", 6, "(5, inf)", True),
        ("symbol", "A", "{'A', 'B'}", True),
    ]


def test_a_non_match_shows_what_failed_with_the_nearest_miss_first() -> None:
    explanation = explained(
        "price < 10 AND volume >= 200 AND symbol = 'A' AND NOT halted", price=30, volume=100, symbol="B", halted=False
    )
    assert not explanation.matches
    # 100 of 10,000 is nearer than 20 of 100; a text is not near or far.
    assert [(each.attribute, each.distance) for each in explanation.failed] == [
        ("volume", 100.0),
        ("price", 20.0),
        ("symbol", None),
    ]
    assert [each.attribute for each in explanation.predicates] == ["volume", "price", "symbol", "halted"]


@pytest.mark.parametrize(
    ("text", "event", "distance"),
    [
        ("price > 5", {"price": 5}, 0.0),
        ("price != 5", {"price": 5}, 0.0),
        ("NOT price = 5", {"price": 5}, 0.0),
        ("price = 5", {"price": 7}, 2.0),
        ("NOT price != 5", {"price": 7}, 2.0),
        ("price BETWEEN 5 AND 6", {"price": 8}, 2.0),
        ("price NOT BETWEEN 5 AND 9", {"price": 6}, 1.0),
        ("price IN (1, 4, 9)", {"price": 6}, 2.0),
        ("price NOT IN (1, 4)", {"price": 4}, 0.0),
        ("at < '1970-01-01'", {"at": "1970-01-01T00:00:01Z"}, 1e6),
        ("volume = 1152921504606846976", {"volume": 2**60 - 1}, 1.0),
        ("halted", {"halted": False}, None),
        ("symbol LIKE 'A%'", {"symbol": "B"}, None),
        ("price > 5", {}, None),
    ],
)
def test_distances(text: str, event: dict[str, Any], distance: float | None) -> None:
    (failed,) = explained(text, **event).failed
    assert failed.distance == distance


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("price > 5", None),
        ("NOT price > 5", None),
        ("price > 5 OR halted", True),
        ("price > 5 OR NOT halted", None),
        ("price > 5 AND NOT halted", False),
        ("NOT (price > 5 AND NOT halted)", True),
        ("price IS NULL", True),
        ("NOT price IS NULL", False),
        ("symbol LIKE 'A%' OR TRUE", True),
    ],
)
def test_what_is_absent_is_unknown_and_sqls_logic_decides(text: str, holds: bool | None) -> None:
    explanation = explained(text, halted=True, price=None)
    assert explanation.root.holds is holds
    assert explanation.matches is (holds is True)


def test_like_is_decided_with_escapes_and_without_case() -> None:
    assert explained(r"symbol LIKE '100!%\_' ESCAPE '!'", symbol="100%\\x").matches
    assert not explained("symbol LIKE 'a%'", symbol="AB").matches
    assert explained("symbol ILIKE 'a%' AND symbol NOT LIKE 'a%' AND regexp_like(symbol, 'B$')", symbol="AB").matches


def test_it_reads_well() -> None:
    text = "price < 10 AND (volume > 5 OR at < '2026-01-02') AND halted IS NULL"
    assert str(explained(text, price=12.0, at="2026-01-03")) == (
        "no match\n"
        "  ✗ all of\n"
        "    ✗ price < 10.0: price is 12.0, not in (-inf, 10.0), off by 2.0\n"
        "    ? one of\n"
        "      ✗ at < TIMESTAMP '2026-01-02 00:00:00': at is '2026-01-03', "
        "not in (-inf, TIMESTAMP '2026-01-02 00:00:00'), off by 1 day, 0:00:00\n"
        "      ? volume > 5: volume is absent\n"
        "    ✓ halted IS NULL: halted is absent"
    )
    assert str(explained("price > 5", price=6)) == "match\n  ✓ price > 5.0: price is 6, in (5.0, inf)"


def test_it_becomes_json() -> None:
    facts = explained("price > 5 AND (halted OR volume = 1)", price=6, volume=2).to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["matches"] is False
    assert facts["predicates"][0] == {
        "predicate": "volume = 1",
        "attribute": "volume",
        "value": 2,
        "interval": "{1}",
        "holds": False,
        "distance": 1.0,
    }
    assert [part.get("kind") for part in facts["tree"]["parts"]] == ["or", None]


def test_a_value_of_the_wrong_type_is_a_data_error() -> None:
    with pytest.raises(DataError, match="attribute 'price': a number is needed"):
        explained("price > 5", price="much")
