"""Filter texts to conditions, operator by operator, and what is refused, with the place and the remedy."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsieve.errors import FilterError
from eventsieve.language import parse
from eventsieve.model.condition import (
    And,
    Between,
    Comparison,
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

SCHEMA = Schema(
    {
        "price": Float(0, 1000),
        "volume": Int(),
        "halted": Bool(),
        "at": Time(),
        "symbol": Text(),
        "bid size": Int(),
        "order.size": Int(),
    }
)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price = 5", Comparison("price", "=", 5.0)),
        ("price == 5", Comparison("price", "=", 5.0)),
        ("price != 5", Comparison("price", "!=", 5.0)),
        ("price <> 5", Comparison("price", "!=", 5.0)),
        ("price < 5", Comparison("price", "<", 5.0)),
        ("price <= 5", Comparison("price", "<=", 5.0)),
        ("price > 5", Comparison("price", ">", 5.0)),
        ("price >= 5", Comparison("price", ">=", 5.0)),
        ("5 < price", Comparison("price", ">", 5.0)),
        ("5 >= price", Comparison("price", "<=", 5.0)),
        ("5 = price", Comparison("price", "=", 5.0)),
        ("(price) > (5)", Comparison("price", ">", 5.0)),
        ("price BETWEEN 1 AND 2", Between("price", 1.0, 2.0)),
        ("price NOT BETWEEN 1 AND 2", Not(Between("price", 1.0, 2.0))),
        ("volume IN (1, 2)", In("volume", (1, 2))),
        ("volume NOT IN (1, 2)", Not(In("volume", (1, 2)))),
        ("price IS NULL", IsNull("price")),
        ("price IS NOT NULL", Not(IsNull("price"))),
        ("symbol LIKE 'A%'", Like("symbol", "A%")),
        ("symbol NOT LIKE 'A%'", Not(Like("symbol", "A%"))),
        ("symbol ILIKE 'a_'", Like("symbol", "a_", ignore_case=True)),
        ("symbol LIKE 'a!%' ESCAPE '!'", Like("symbol", "a!%", escape="!")),
        ("symbol NOT LIKE 'a!%' ESCAPE '!'", Not(Like("symbol", "a!%", escape="!"))),
        ("regexp_like(symbol, '^A')", Regexp("symbol", "^A")),
        ("NOT regexp_like(symbol, '^A')", Not(Regexp("symbol", "^A"))),
        ("halted", Flag("halted")),
        ("NOT halted", Not(Flag("halted"))),
        ("halted = FALSE", Comparison("halted", "=", False)),
        ("TRUE", Constant(True)),
        ("1 = 1", Constant(True)),
        ("2 <= 1", Constant(False)),
        ("NOT price > 5", Not(Comparison("price", ">", 5.0))),
        ('"bid size" > 5', Comparison("bid size", ">", 5)),
        ("order.size > 5", Comparison("order.size", ">", 5)),
        ("price > 5 -- a remark", Comparison("price", ">", 5.0)),
    ],
)
def test_every_operator_reads_as_its_condition(text: str, expected: object) -> None:
    assert parse(text, SCHEMA) == expected


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("-5", -5.0),
        ("- -5", 5.0),
        ("10 / 4", 2.5),
        ("10 - 4 - 3", 3.0),
        ("0.1 + 0.2", 0.3),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", 0.0),
    ],
)
def test_literal_arithmetic_is_folded_exactly_and_rounded_once(literal: str, value: float) -> None:
    assert parse(f"price = {literal}", SCHEMA) == Comparison("price", "=", value)


def test_whole_numbers_stay_exact_whatever_their_size() -> None:
    assert parse("volume = 9007199254740993", SCHEMA) == Comparison("volume", "=", 2**53 + 1)
    assert parse("volume NOT IN (-9007199254740993)", SCHEMA) == Not(In("volume", (-(2**53) - 1,)))


@pytest.mark.parametrize(
    "literal",
    [
        "TIMESTAMP '2026-01-01'",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "'2026-01-01T00:00:00Z'",
        "'2026-01-01 01:00:00+01:00'",
        "DATE '2026-01-01'",
        "'2026-01-01'",
        "1767225600",
    ],
)
def test_times_are_timestamps_iso_texts_and_epoch_numbers(literal: str) -> None:
    assert parse(f"at >= {literal}", SCHEMA) == Comparison("at", ">=", NEW_YEAR)


def test_texts_take_doubled_quotes_and_nothing_else_is_special_in_them() -> None:
    assert parse(r"symbol = 'it''s \n -- ; 100%'", SCHEMA) == Comparison("symbol", "=", r"it's \n -- ; 100%")


def test_and_binds_stronger_than_or_and_chains_are_flat() -> None:
    a, b, c = (Comparison("volume", "=", n) for n in (1, 2, 3))
    assert parse("volume = 1 OR volume = 2 AND volume = 3", SCHEMA) == Or((a, And((b, c))))
    assert parse("volume = 1 AND (volume = 2 AND volume = 3)", SCHEMA) == And((a, b, c))


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ("prise > 5", "did you mean 'price'?", "prise"),
        ("price > 5 AND volme < 3", "did you mean 'volume'?", "volme"),
        ('symbol = "A"', "texts take single quotes", '"A"'),
        ("price > volume", "an attribute is compared with an attribute", "volume"),
        ("price = NULL", "write IS NULL", "price"),
        ("volume IN (1, NULL)", "write IS NULL", "volume"),
        ("symbol > 'A'", "collation", "'A'"),
        ("symbol BETWEEN 'A' AND 'B'", "collation", "'A'"),
        ("symbol = 5", "a text in single quotes is needed", "5"),
        ("price = 'A'", "a number is needed, not 'A'", "'A'"),
        ("price = TRUE", "a number is needed, not TRUE", "price"),
        ("halted = 1", "TRUE or FALSE is needed", "1"),
        ("at > 'yesterday'", "an ISO 8601 time is needed", "'yesterday'"),
        ("at > TIMESTAMP 'x'", "an ISO 8601 time is needed", "'x'"),
        ("at > '9999-12-31'", "outside the years", "'9999-12-31'"),
        ("volume > 9007199254740993", "only =, != and IN work", "9007199254740993"),
        ("volume BETWEEN 0 AND 1e300", "only =, != and IN work", "1e300"),
        ("volume < 5.000000000000000000001", "too close to 5", "5.0"),
        ("price > 1 / 0", "divides by zero", "0"),
        ("price > 1e400", "too large for a float64", "1e400"),
        ("price > 1e99999", "is not a number that filters take", "1e99999"),
        ("price + 1 > 5", "leave the attribute alone", "price"),
        ("price LIKE 'A%'", "LIKE takes a text attribute; 'price' is float", "price"),
        ("symbol LIKE 5", "takes a text in single quotes", "5"),
        ("symbol LIKE 'a!' ESCAPE '!'", "nothing to escape", "'a!'"),
        ("symbol LIKE 'a' ESCAPE '!!'", "ESCAPE takes one character", "'a'"),
        ("regexp_like(symbol, 'a(')", "not a regular expression", "'a('"),
        ("price", "alone is no condition", "price"),
        ("5", "a literal alone", "5"),
        ("price IS TRUE", "IS TRUE and IS FALSE are not taken", "price"),
        ("price IN ()", "at least one value", "price"),
        ("price IN (SELECT 1)", "a subquery", "1"),
        ("price BETWEEN SYMMETRIC 2 AND 1", "BETWEEN is not taken with SYMMETRIC", "price"),
        ("abs(price) > 5", "the function ABS", "abs"),
        ("nonsense(price) > 5", "the function nonsense", "nonsense"),
        ("CASE WHEN price > 3 THEN TRUE END", "CASE is not part of the filter language", "price"),
        ("CAST(price AS INT) = 3", "a cast", "price"),
        ("price::int = 3", "a cast", "price"),
        ("EXISTS (SELECT 1)", "the function EXISTS", "1"),
        ("price SIMILAR TO 'x'", "SIMILARTO is not part", "price"),
        ("price IS DISTINCT FROM 3", "NULLSAFENEQ is not part", "price"),
        ("price > 5;", "one condition, without a semicolon", ";"),
        ("price > 5; DROP TABLE x", "one condition, without a semicolon", ";"),
        ("price > 5 6", "'6' is not expected here", "6"),
        ("price > 5)", "')' is not expected here", ")"),
        ("symbol = 'abc", "this quote is never closed", "'abc"),
    ],
)
def test_what_is_refused_is_named_with_its_place_and_a_remedy(text: str, reason: str, at: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, SCHEMA)
    assert reason in caught.value.reason
    assert caught.value.position is not None
    assert text[caught.value.position :].startswith(at)


@pytest.mark.parametrize("text", ["price >", "(price > 5", "price > 5 AND", "price BETWEEN 1", "NOT"])
def test_a_filter_that_breaks_off_says_so(text: str) -> None:
    with pytest.raises(FilterError, match="breaks off") as caught:
        parse(text, SCHEMA)
    assert caught.value.position == len(text)


@pytest.mark.parametrize("text", ["", "   ", "-- nothing"])
def test_an_empty_filter_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(FilterError, match="write TRUE"):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "halted" + ")" * 1000,
        "NOT " * 20_000 + "halted",
        "price = " + "- " * 20_000 + "5",
        "price IN (" * 500 + "5" + ")" * 500,
        "CASE WHEN " * 2000,
        "[" * 3000,
        "price = " + "(1 + " * 500 + "1" + ")" * 500,
        "price > 5 AND " * 20_000 + "halted",
        "price = " + "9" * 5000,
        "price = " + " * ".join(["1e300"] * 5000),
    ],
)
def test_hostile_texts_are_refused_without_a_crash_or_a_hang(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text, SCHEMA)


def test_long_chains_are_no_deep_nesting() -> None:
    condition = parse(" AND ".join(["price > 5"] * 5000), SCHEMA)
    assert isinstance(condition, And)
    assert len(condition.parts) == 5000
    assert parse("price = " + " + ".join(["1"] * 5000), SCHEMA) == Comparison("price", "=", 5000.0)


PIECES = """
price volume symbol halted nothing AND OR NOT IN BETWEEN LIKE IS NULL ( ) ( ) , + - * / % = < >= <> 1 2.5
1e9 'A' 'b%' TRUE FALSE TIMESTAMP DATE CASE WHEN END SELECT FROM WHERE CAST AS INT :: [ ] { } . ? : @ $ ~ ! ^ & | ;
ESCAPE ANY ALL INTERVAL OVER regexp_like abs -- /* */ " ' \\ ü \0"""
WORDS = st.sampled_from([*PIECES.split(), "\n"])


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_with_our_own_error(text: str) -> None:
    with suppress(FilterError):
        parse(text, SCHEMA)
