"""Conditions to clauses: closed ends, absent values, how far things are multiplied out, what can never match."""

from __future__ import annotations

import math
from typing import Any

import pytest

from eventsieve.errors import FilterError, SchemaError
from eventsieve.language import compile_filter, parse
from eventsieve.model.clause import AllOf, AnyOf, Bound, Clause, ClosedInterval, InSet, IsAbsent, MatchesPattern
from eventsieve.model.codes import Codes
from eventsieve.model.condition import And, Between, Comparison, Flag, Like, Not
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time
from tests.language.evaluator import any_matches

SCHEMA = Schema(
    {"price": Float(), "volume": Int(), "halted": Bool(), "at": Time(), "symbol": Text()}
    | {f"a{n}": Float() for n in range(40)}
)
INF = math.inf


def compiled(text: str, codes: Codes | None = None, limit: int = 16) -> list[Clause]:
    return compile_filter(parse(text, SCHEMA), SCHEMA, Codes() if codes is None else codes, limit)


def bounds(text: str) -> list[tuple[Bound, ...]]:
    clauses = compiled(text)
    assert all(clause.residual is None for clause in clauses)
    return [clause.bounds for clause in clauses]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("price < 5", -INF, math.nextafter(5, 0)),
        ("price > 5", math.nextafter(5, 6), INF),
        ("price < 0", -INF, -5e-324),
        ("price > -5e-324", 0.0, INF),
        ("price BETWEEN 1 AND 2", 1.0, 2.0),
        ("price >= 1 AND price < 2 AND price <= 7", 1.0, math.nextafter(2, 0)),
        ("price > 0.1 + 0.2", math.nextafter(0.3, 1), INF),
        ("NOT price < 5", 5.0, INF),
        ("NOT (price < 1 OR price > 5)", 1.0, 5.0),
        ("price < 3 OR price BETWEEN 2 AND 5", -INF, 5.0),
        ("price IS NOT NULL", -INF, INF),
        ("price != 5 OR price = 5", -INF, INF),
    ],
)
def test_open_ends_of_floats_close_at_the_next_float(text: str, low: float, high: float) -> None:
    assert bounds(text) == [(Bound(0, low, high),)]
    assert math.copysign(1, bounds(text)[0][0].low or 1.0) == math.copysign(1, low or 1.0)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("volume < 5", -INF, 4.0),
        ("volume > 5", 6.0, INF),
        ("volume > 5.5", 6.0, INF),
        ("volume >= 5.5", 6.0, INF),
        ("volume < 5.5", -INF, 5.0),
        ("volume BETWEEN 0.5 AND 3.5", 1.0, 3.0),
        ("volume IN (3, 1, 2, 2.5)", 1.0, 3.0),
        ("volume != 5.5", -INF, INF),
        ("volume > 9007199254740992", 2.0**53 + 2, INF),
    ],
)
def test_open_ends_of_integers_close_at_the_next_whole_number(text: str, low: float, high: float) -> None:
    assert bounds(text) == [(Bound(1, low, high),)]


def test_time_steps_by_microseconds() -> None:
    assert bounds("at > '1970-01-01' AND at < '1970-01-01 00:00:01'") == [(Bound(3, 1.0, 999_999.0),)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("halted", 1.0, 1.0),
        ("NOT halted", 0.0, 0.0),
        ("halted != TRUE", 0.0, 0.0),
        ("halted > FALSE", 1.0, 1.0),
        ("halted IN (TRUE, FALSE)", -INF, INF),
        ("halted >= FALSE", -INF, INF),
    ],
)
def test_booleans_have_two_values(text: str, low: float, high: float) -> None:
    assert bounds(text) == [(Bound(2, low, high),)]


def test_texts_are_compared_by_codes_given_in_order_of_appearance() -> None:
    codes = Codes()
    assert compiled("symbol = 'B'", codes) == [Clause((Bound(4, 1.0, 1.0),))]
    assert compiled("symbol IN ('A', 'B')", codes) == [Clause((Bound(4, 1.0, 2.0),))]
    assert compiled("symbol != 'B'", codes) == [Clause((Bound(4, -INF, 0.0),)), Clause((Bound(4, 2.0, INF),))]
    assert codes.values(4) == ["B", "A"]


def test_integers_beyond_two_to_the_53_are_compared_by_codes() -> None:
    codes = Codes()
    big, other = 2**53 + 1, 2**60
    equal, unequal = compiled(f"volume = {big}", codes), compiled(f"volume != {big}", codes)
    for value in (big, other, -big, 5):
        assert any_matches(equal, SCHEMA, codes, {"volume": value}) == (value == big)
        assert any_matches(unequal, SCHEMA, codes, {"volume": value}) == (value != big)
    assert any_matches(compiled("volume > 5", codes), SCHEMA, codes, {"volume": other})


def test_is_null_is_a_residual_and_excludes_presence() -> None:
    assert compiled("price IS NULL") == [Clause((), IsAbsent(0))]
    assert compiled("price IS NULL OR price IS NOT NULL") == [Clause(())]
    assert compiled("TRUE") == [Clause(())]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("symbol LIKE 'A'", Clause((Bound(4, 1.0, 1.0),))),
        ("symbol LIKE 'A!%' ESCAPE '!'", Clause((Bound(4, 1.0, 1.0),))),
        ("symbol LIKE ''", Clause((Bound(4, 1.0, 1.0),))),
        ("symbol LIKE '%'", Clause((Bound(4, -INF, INF),))),
        ("symbol LIKE 'A.%'", Clause((Bound(4, -INF, INF),), MatchesPattern(4, r"(?s)^A\..*$"))),
        ("symbol ILIKE 'a'", Clause((Bound(4, -INF, INF),), MatchesPattern(4, "(?s)^a$", ignore_case=True))),
        ("symbol NOT LIKE '_'", Clause((Bound(4, -INF, INF),), MatchesPattern(4, "(?s)^.$", negated=True))),
        ("regexp_like(symbol, 'b+')", Clause((Bound(4, -INF, INF),), MatchesPattern(4, "b+"))),
    ],
)
def test_like_is_an_equality_a_presence_or_a_pattern(text: str, clause: Clause) -> None:
    assert compiled(text) == [clause]


def test_alternatives_on_several_attributes_become_clauses() -> None:
    assert bounds("price > 5 AND (volume = 1 OR halted)") == [
        (Bound(0, math.nextafter(5, 6), INF), Bound(1, 1.0, 1.0)),
        (Bound(0, math.nextafter(5, 6), INF), Bound(2, 1.0, 1.0)),
    ]


def test_sets_of_intervals_split_while_few() -> None:
    assert bounds("volume NOT BETWEEN 2 AND 4 AND price IN (1, 2)") == [
        (Bound(0, 1.0, 1.0), Bound(1, -INF, 1.0)),
        (Bound(0, 1.0, 1.0), Bound(1, 5.0, INF)),
        (Bound(0, 2.0, 2.0), Bound(1, -INF, 1.0)),
        (Bound(0, 2.0, 2.0), Bound(1, 5.0, INF)),
    ]


def test_beyond_the_limit_a_set_leaves_its_hull_and_an_exact_check() -> None:
    values = tuple(ClosedInterval(float(n), float(n)) for n in range(0, 40, 2))
    text = f"volume IN ({', '.join(str(n) for n in range(0, 40, 2))})"
    assert compiled(text) == [Clause((Bound(1, 0.0, 38.0),), InSet(1, values))]


def test_beyond_the_limit_a_choice_leaves_the_hulls_it_implies_and_a_check() -> None:
    text = "(price = 1 AND volume = 1 OR price = 3 AND halted) AND symbol = 'A'"
    (clause,) = compiled(text, limit=1)
    assert clause.bounds == (Bound(0, 1.0, 3.0), Bound(4, 1.0, 1.0))
    point = ClosedInterval(1.0, 1.0)
    assert clause.residual == AnyOf(
        (
            AllOf((InSet(0, (point,)), InSet(1, (point,)))),
            AllOf((InSet(0, (ClosedInterval(3.0, 3.0),)), InSet(2, (point,)))),
        )
    )


def test_nothing_explodes() -> None:
    assert len(compiled(" AND ".join(f"a{n} != 1" for n in range(10)))) == 16
    assert len(compiled(" AND ".join(f"(a{n} = 1 OR a{n + 1} = 1)" for n in range(30)))) <= 16
    assert len(compiled(" AND ".join(f"(a{n} = 1 OR symbol = '{n}')" for n in range(30)))) <= 16
    many = " AND ".join(f"(price > {n} OR a{n % 40} != {n})" for n in range(2000))
    assert 1 <= len(compiled(many)) <= 16


def test_an_or_at_the_top_gives_a_clause_per_alternative() -> None:
    assert len(compiled(" OR ".join(f"(a{n % 40} = {n} AND price > {n})" for n in range(1000)))) == 1000


def test_alternatives_that_say_nothing_new_are_dropped() -> None:
    assert len(compiled("price > 5 OR price > 5 AND volume = 1 OR price > 7 AND halted")) == 1
    assert len(compiled("price > 5 AND volume = 1 OR volume = 1 AND price > 5")) == 1
    assert bounds("price = 1 AND (price = 1 OR volume = 1)") == [(Bound(0, 1.0, 1.0),)]
    assert bounds("price = 1 AND (price = 2 OR volume = 1)") == [(Bound(0, 1.0, 1.0), Bound(1, 1.0, 1.0))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("price > 20 AND volume = 1 AND price < 10", "price > 20.0 and price < 10.0 cannot both hold"),
        ("price IS NULL AND price > 5", "price IS NULL and price > 5.0 cannot both hold"),
        ("price BETWEEN 20 AND 10", "its low end is above its high end"),
        ("volume = 5.5", "'volume' holds whole numbers"),
        ("volume > 5 AND volume < 6", "cannot both hold"),
        ("FALSE", "it says FALSE"),
        ("price > 5 AND 1 = 2", "it says FALSE"),
        ("NOT (price > 5 OR price <= 5)", "is true of no value"),
        ("price > 1.7976931348623157e308", "is true of no value"),
        ("(price > 5 AND price < 4) OR FALSE", "none of its alternatives can be true; price > 5.0 and price < 4.0"),
        ("symbol = 'A' AND symbol = 'B'", "symbol = 'A' and symbol = 'B' cannot both hold"),
        ("price = 1 AND (price = 2 OR price = 3)", "cannot both hold"),
        ("(price = 1 OR volume = 1) AND price = 2 AND volume = 2", "its parts exclude each other"),
    ],
)
def test_a_filter_that_can_never_match_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match="the filter can never match") as caught:
        compiled(text)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (Flag("price"), "alone it is no condition"),
        (Like("price", "a%"), "LIKE takes a text attribute"),
        (Comparison("symbol", "<", "A"), "collation"),
        (Comparison("volume", "<", 2**60), "only =, != and IN work"),
        (Comparison("price", "=", math.nan), "finite"),
        (Between("price", 1.0, math.inf), "finite"),
        (Not(Comparison("halted", "=", 1)), "TRUE or FALSE is needed"),
    ],
)
def test_conditions_made_by_hand_obey_the_same_rules(condition: Any, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        compile_filter(condition, SCHEMA, Codes())


def test_an_unknown_attribute_of_a_condition_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="did you mean 'price'"):
        compile_filter(And((Flag("halted"), Comparison("prise", "=", 1.0))), SCHEMA, Codes())
