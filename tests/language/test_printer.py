"""Conditions print as text that reads back to an equal condition."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.tokens import Tokenizer

from eventsieve.errors import SchemaError
from eventsieve.language import parse, to_text
from eventsieve.model.condition import (
    OPERATORS,
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
    Regexp,
)
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time

SCHEMA = Schema({"price": Float(), "volume": Int(), "halted": Bool(), "at": Time(), 'a "quoted" näme': Text()})
TEXT_NAME = 'a "quoted" näme'

numbers = {
    "price": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
    "volume": st.integers(-(2**53), 2**53) | st.sampled_from([0.5, -2.25]),
    "halted": st.booleans(),
    "at": st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
}
texts = st.text(st.characters(codec="utf-8"), max_size=8)
patterns = st.builds(Like, st.just(TEXT_NAME), texts, st.booleans(), st.sampled_from([None, ""]))


def predicates_on(name: str) -> st.SearchStrategy[Condition]:
    value = numbers[name]
    return st.one_of(
        st.builds(Comparison, st.just(name), st.sampled_from(OPERATORS), value),
        st.builds(Between, st.just(name), value, value),
        st.builds(In, st.just(name), st.lists(value, min_size=1, max_size=3).map(tuple)),
        st.builds(IsNull, st.just(name)),
    )


predicates: st.SearchStrategy[Condition] = st.one_of(
    *(predicates_on(name) for name in numbers),
    st.builds(Comparison, st.just(TEXT_NAME), st.sampled_from(["=", "!="]), texts),
    st.builds(In, st.just(TEXT_NAME), st.lists(texts, min_size=1, max_size=3).map(tuple)),
    st.builds(In, st.just("volume"), st.just((2**60, -(2**70)))),
    st.builds(Regexp, st.just(TEXT_NAME), st.sampled_from(["^a'b", "x|y", ""])),
    patterns,
    st.just(Flag("halted")),
    st.builds(Constant, st.booleans()),
)


def joined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


@given(st.recursive(predicates, joined, max_leaves=8))
def test_any_condition_reads_back_as_it_was(condition: Condition) -> None:
    text = to_text(condition, SCHEMA)
    assert parse(text, SCHEMA) == condition
    assert to_text(parse(text, SCHEMA), SCHEMA) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("5<price", "price > 5.0"),
        ("not(price between 1 and 2)", "price NOT BETWEEN 1.0 AND 2.0"),
        ("NOT (volume IN (1,2))", "volume NOT IN (1, 2)"),
        ("not price is null", "price IS NOT NULL"),
        ("(price>1 or volume>2) and halted", "(price > 1.0 OR volume > 2) AND halted"),
        ("not (price>1 and halted)", "NOT (price > 1.0 AND halted)"),
        ("at > '2026-01-31T09:30:00.5Z'", "at > TIMESTAMP '2026-01-31 09:30:00.500000'"),
    ],
)
def test_one_meaning_has_one_text(text: str, canonical: str) -> None:
    assert to_text(parse(text, SCHEMA), SCHEMA) == canonical


def test_every_keyword_of_sql_can_name_an_attribute() -> None:
    words = [word for word in Tokenizer.KEYWORDS if word.isidentifier()] + ["count", "hour", "value", "left", "N", "x"]
    schema = Schema({name: Int() for word in words for name in (word, word.lower())})
    for name in schema:
        condition = And((Comparison(name, ">", 5), Between(name, 1, 2), Not(IsNull(name))))
        assert parse(to_text(condition, schema), schema) == condition


def test_an_attribute_that_the_schema_lacks_is_an_error() -> None:
    with pytest.raises(SchemaError, match="prise"):
        to_text(IsNull("prise"), SCHEMA)
