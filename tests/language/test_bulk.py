"""Bulk compilation gives exactly what parsing and compiling row by row gives, or leaves a row alone."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsieve.errors import FilterError
from eventsieve.language import compile_filter, parse
from eventsieve.language.bulk import BulkResult, compile_bulk
from eventsieve.model.clause import Bound, Clause
from eventsieve.model.codes import Codes
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time
from tests.language.random_filters import random_filter, random_schema

SCHEMA = Schema(
    {"price": Float(), "volume": Int(), "halted": Bool(), "at": Time(), "symbol": Text(), "date": Int(), "n": Float()}
)


def clause_of(result: BulkResult, row: int) -> Clause:
    found = slice(result.start[row], result.stop[row])
    ends = zip(result.attribute[found].tolist(), result.low[found].tolist(), result.high[found].tolist(), strict=True)
    return Clause(tuple(Bound(*each) for each in ends))


def check(texts: list[str], schema: Schema = SCHEMA) -> list[bool]:
    """Compare every handled row with the slow path, to the sign of a zero; return which were handled."""
    codes = Codes()
    result = compile_bulk(pa.array(texts, pa.string()), schema, codes)
    for row, text in enumerate(texts):
        if result.handled[row]:
            assert repr(compile_filter(parse(text, schema), schema, codes)) == repr([clause_of(result, row)]), text
        else:
            assert result.start[row] == result.stop[row]
    return result.handled.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "price = 5",
        "price<5",
        "price <= -5.25",
        "price>-5",
        "price >= 1e-7",
        "price < 0",
        "price > -0.0",
        "5 < price",
        "-5>=price",
        "price BETWEEN 0.1 AND 0.30000000000000004",
        "volume > 5.5",
        "volume < 5.5 AND price > 1",
        "volume BETWEEN -3 AND 123456789012345",
        "halted = TRUE",
        "halted != true",
        "FALSE <> halted",
        "halted < TRUE",
        "halted >= FALSE",
        "halted BETWEEN FALSE AND TRUE",
        "at > '2026-01-31'",
        "at <= TIMESTAMP '2026-01-31 23:59:59'",
        "TIMESTAMP '1969-12-31T23:59:59.999' < at",
        "at BETWEEN '2024-02-29' AND timestamp '2200-12-31 00:00:00.000001'",
        "symbol = 'ACME'",
        "'über' = symbol",
        "symbol = ''",
        "  symbol = 'a AND b' and\tvolume\n=\r1  ",
        "n = 1 AND symbol = '-- ; /*'",
        "halted = FALSE AND at < '2026-01-31' AND volume = 1 AND price = 2 AND symbol = 'B'",
    ],
)
def test_plain_conjunctions_are_handled(text: str) -> None:
    assert check([text]) == [True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "price",
        "halted",
        "NOT halted",
        "price > 5 OR volume > 5",
        "(price > 5)",
        "price > (5)",
        "price != 5",
        "symbol != 'A'",
        "symbol <> 'A'",
        "symbol > 'A'",
        "symbol LIKE 'A'",
        "symbol IN ('A')",
        "symbol = 'it''s'",
        "symbol = 'A' 'B'",
        "symbol = 'A",
        'symbol = "A"',
        '"price" > 5',
        "date > 5",
        "prise > 5",
        "price > volume",
        "price > 5 AND price < 7",
        "price > 1 + 1",
        "price > - 5",
        "price > --5",
        "price > +5",
        "price > .5",
        "price > 5.",
        "price > 1e400",
        "price > 1e",
        "price > 5x",
        "price > 5 6",
        "price > 5;",
        "price > 5 -- remark",
        "price > 5 AND",
        "AND price > 5",
        "price => 5",
        "price =< 5",
        "price == 5",
        "price <=> 5",
        "price = NULL",
        "price IS NULL",
        "price = '5'",
        "price = TRUE",
        "price NOT BETWEEN 1 AND 2",
        "price BETWEEN 1 OR 2",
        "price BETWEEN 2 AND 1",
        "5 BETWEEN 1 AND 2",
        "1 < price < 2",
        "volume = 5.5",
        "volume = 1e3",
        "volume = 9007199254740993",
        "halted = 1",
        "halted > TRUE",
        "at > 5",
        "at > '2026-02-29'",
        "at > '2026-13-01'",
        "at > '2026-01-31 24:00:00'",
        "at > '2026-01-31T09:30:00Z'",
        "at > '2026-01-31 9:30:00'",
        "at > DATE '2026-01-31'",
        "at > '9999-12-31'",
        "at > '1600-01-01'",
        "preis > 5 AND über = 3",
        "price\u00a0> 5",
    ],
)
def test_everything_else_is_left_to_the_parser(text: str) -> None:
    assert check([text]) == [False]


def test_null_empty_and_chunked_arrays_and_slices() -> None:
    texts = pa.array(["volume = 1", None, "volume = 2", "TRUE", "volume = 3"])
    for array in (texts, texts.cast(pa.large_string()), pa.chunked_array([texts[:1], texts[1:]])):
        result = compile_bulk(array, SCHEMA, Codes())
        assert result.handled.tolist() == [True, False, True, False, True]
        assert result.low.tolist() == [1.0, 2.0, 3.0]
    assert compile_bulk(texts[2:], SCHEMA, Codes()).low.tolist() == [2.0, 3.0]
    assert compile_bulk(texts[:0], SCHEMA, Codes()).handled.size == 0
    assert compile_bulk(pa.chunked_array([], pa.string()), SCHEMA, Codes()).handled.size == 0


def test_rows_that_are_left_get_no_codes() -> None:
    codes = Codes()
    compile_bulk(pa.array(["symbol = 'A' AND volume = 5.5", "symbol = 'B'", "symbol = 'C' OR halted"]), SCHEMA, codes)
    assert codes.values(SCHEMA.position("symbol")) == ["B"]


def test_more_rows_than_are_compiled_at_once() -> None:
    n = (1 << 16) + 3
    result = compile_bulk(pa.array([f"volume = {row} AND symbol = '{row % 7}'" for row in range(n)]), SCHEMA, Codes())
    assert result.handled.all()
    assert result.low[::2].tolist() == list(range(n))
    assert result.low[-1] == (n - 1) % 7 + 1


NUMBERS = st.one_of(
    st.floats(-1e30, 1e30).map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.decimals(-1000, 1000, places=4).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@given(st.lists(st.tuples(st.sampled_from(["price", "volume"]), st.sampled_from(["<", "<=", "=", ">", ">="]), NUMBERS)))
def test_numbers_round_as_in_the_parser(predicates: list[tuple[str, str, str]]) -> None:
    check(
        [" ".join(each) for each in predicates]
        + [f"{number} {operator} {name}" for name, operator, number in predicates]
    )


WORDS = """price volume halted at symbol date n AND and BETWEEN OR NOT TRUE false TIMESTAMP '2026-01-31' 'A' '' ' 5 -5 -
2.5 1e5 0 = < > <= >= <> != ! ( ) . , ; -- /* N x e ü \\ :: @"""
PIECES = st.sampled_from([*WORDS.split(), "'b '", "\n", " ", " ", " "])


@given(st.lists(st.lists(PIECES, max_size=9).flatmap(lambda words: st.sampled_from([" ".join(words), "".join(words)]))))
def test_any_text_is_handled_rightly_or_left(texts: list[str]) -> None:
    check(texts)


DATES = "(1[67]|19|20|22)[0-9]{2}-[01][0-9]-[0-3][0-9]"
MOMENTS = st.from_regex(DATES + r"([ T][0-2][0-9](:[0-6][0-9]){2}(\.[0-9]{3,7})?)?", fullmatch=True)


@given(st.lists(MOMENTS))
def test_times_are_read_as_in_the_parser(moments: list[str]) -> None:
    check([f"at >= '{moment}'" for moment in moments])


@pytest.mark.parametrize("seed", range(5))
def test_random_filters(seed: int) -> None:
    source = random.Random(seed)
    schema = random_schema(source)
    predicates = [random_filter(source, schema, depth=0) for _ in range(300)]
    check(predicates + [" AND ".join(source.sample(predicates, 3)) for _ in range(300)], schema)


def test_what_the_scanner_handles_the_parser_accepts() -> None:
    """A handled row that the parser refuses would be a filter that exists only in bulk."""
    with pytest.raises(FilterError):
        parse("volume = 5.000000000000000000001", SCHEMA)
    assert check(["volume = 5.000000000000000000001"]) == [False]
