"""Random filters over random events: the same answers here and in DuckDB."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from eventsieve.errors import FilterError
from eventsieve.index.explain import explain_condition
from eventsieve.language import compile_filter, parse, to_text
from eventsieve.model.clause import Clause
from eventsieve.model.codes import Codes
from eventsieve.model.condition import Condition
from eventsieve.model.schema import Schema
from tests.language.evaluator import any_matches
from tests.language.random_filters import random_event, random_filter, random_schema

_ARROW_TYPES = {
    "float": pa.float64(),
    "int": pa.int64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "text": pa.string(),
}


def answers_of_duckdb(texts: list[str], schema: Schema, events: list[dict]) -> list[set[int]]:
    columns = {"event": pa.array(range(len(events)))}
    for name, kind in schema.items():
        values = [event.get(name) for event in events]
        if kind.kind == "time":
            values = [value and value.replace(tzinfo=None) for value in values]
        columns[name] = pa.array(values, _ARROW_TYPES[kind.kind])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", pa.table(columns))
        connection.execute("CREATE TABLE kept AS SELECT * FROM events")
        return [
            {row[0] for row in connection.execute(f"SELECT event FROM kept WHERE {text}").fetchall()} for text in texts
        ]


def compiled(condition: Condition, schema: Schema, codes: Codes, limit: int) -> list[Clause]:
    """Return the clauses, none for a filter that is refused because it can never match."""
    try:
        return compile_filter(condition, schema, codes, limit)
    except FilterError as refusal:
        if "never match" not in refusal.reason:
            raise
        return []


@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_random_filters_over_a_hundred_random_events_match_as_in_duckdb(seed: int) -> None:
    source = random.Random(seed)
    schema = random_schema(source)
    events = [random_event(source, schema) for _ in range(100)]
    texts = [random_filter(source, schema) for _ in range(100)]
    for text, expected in zip(texts, answers_of_duckdb(texts, schema, events), strict=True):
        condition = parse(text, schema)
        assert parse(to_text(condition, schema), schema) == condition
        explained = {n for n in range(30) if explain_condition(condition, schema, events[n]).matches}
        assert explained == {n for n in expected if n < 30}, text
        codes = Codes()
        for limit in (1, 16):
            clauses = compiled(condition, schema, codes, limit)
            matched = {n for n, event in enumerate(events) if any_matches(clauses, schema, codes, event)}
            assert matched == expected, text
