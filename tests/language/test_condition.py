"""Conditions as values, and back from the closed intervals of a clause."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from eventsieve.language import compile_filter, parse
from eventsieve.model.clause import Bound, Clause
from eventsieve.model.codes import Codes
from eventsieve.model.condition import (
    And,
    Between,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    from_bounds,
)
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time

SCHEMA = Schema({"price": Float(), "volume": Int(), "halted": Bool(), "at": Time(), "symbol": Text()})
INF = math.inf


def test_an_and_within_an_and_is_one_and() -> None:
    a, b, c = (IsNull(name) for name in "abc")
    assert And((a, And((b, c)))) == And((a, b, c))
    assert Or((Or((a, b)), c)) == Or((a, b, c))
    assert And((a, Or((b, c)))) != And((a, b, c))


def test_too_few_parts_or_values_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two parts"):
        And((IsNull("a"),))
    with pytest.raises(ValueError, match="at least one value"):
        In("a", ())


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (Bound(0, 1.5, 2.5), Between("price", 1.5, 2.5)),
        (Bound(0, 1.5, 1.5), Comparison("price", "=", 1.5)),
        (Bound(0, -INF, 2.5), Comparison("price", "<=", 2.5)),
        (Bound(0, 1.5, INF), Comparison("price", ">=", 1.5)),
        (Bound(0, -INF, INF), Not(IsNull("price"))),
        (Bound(1, 1.0, 2.0), Between("volume", 1, 2)),
        (Bound(1, -1e18, 2.0), Comparison("volume", "<=", 2)),
        (Bound(2, 1.0, 1.0), Comparison("halted", "=", True)),
        (Bound(2, -INF, 0.5), Comparison("halted", "=", False)),
        (Bound(2, 0.0, 1.0), Not(IsNull("halted"))),
        (Bound(2, 3.0, 4.0), Constant(False)),
        (Bound(3, 0.0, INF), Comparison("at", ">=", datetime(1970, 1, 1, tzinfo=UTC))),
        (Bound(3, -0.5, 0.5), Comparison("at", "=", datetime(1970, 1, 1, tzinfo=UTC))),
        (Bound(1, 0.5, 3.0), Between("volume", 0.5, 3)),
        (Bound(4, 1.0, 1.0), Comparison("symbol", "=", "A")),
        (Bound(4, 1.0, 2.0), In("symbol", ("A", "B"))),
        (Bound(4, -INF, 0.0), Not(In("symbol", ("A", "B", "C")))),
        (Bound(4, -INF, 2.0), Comparison("symbol", "!=", "C")),
        (Bound(4, -INF, INF), Not(IsNull("symbol"))),
        (Bound(4, 9.0, 9.0), Constant(False)),
    ],
)
def test_an_interval_reads_as_the_condition_it_stands_for(bound: Bound, expected: object) -> None:
    codes = Codes()
    codes.assign_all(4, ["A", "B", "C"])
    assert from_bounds(SCHEMA, [bound], codes) == expected


def test_a_big_integer_is_named_again() -> None:
    codes = Codes()
    code = codes.assign(1, 2**60)
    assert from_bounds(SCHEMA, [Bound(1, code, code)], codes) == Comparison("volume", "=", 2**60)


def test_no_bound_is_true() -> None:
    assert from_bounds(SCHEMA, [], Codes()) == Constant(True)


def test_a_conjunction_survives_the_way_there_and_back() -> None:
    codes = Codes()
    text = "price BETWEEN 1 AND 2 AND volume >= 3 AND halted = TRUE AND symbol IN ('A', 'B') AND at <= '2026-01-01'"
    clause = Clause(bounds=compile_filter(parse(text, SCHEMA), SCHEMA, codes)[0].bounds)
    again = from_bounds(SCHEMA, clause.bounds, codes)
    assert compile_filter(again, SCHEMA, codes) == [clause]
