"""Schemas: declared, stored, extended, inferred."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pytest

import eventsieve as es


def test_a_schema_survives_json() -> None:
    """Types, domains and units come back equal."""
    schema = es.Schema(
        {
            "price": es.Float(0, 1000),
            "n": es.Int(),
            "ok": es.Bool(),
            "at": es.Time("2026-01-01", datetime(2027, 1, 1), unit="ms"),
            "symbol": es.Text(),
        }
    )
    again = es.Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again["at"].domain() == (1767225600e6, 1798761600e6)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"name": "x", "type": "flaot"}], "did you mean 'float'"),
        ([{"name": "x"}], "an attribute of a schema is"),
        ([{"name": "x", "type": "int"}, {"name": "x", "type": "int"}], "declared twice"),
        ([{"name": "x", "type": "float", "low": 3, "high": 1}], "'x'.*is empty"),
        ([{"name": "x", "type": "float", "wide": 3}], "attribute 'x'"),
        (5, "a schema is a list"),
    ],
)
def test_bad_schemas_are_refused_by_name(rows: object, expected: str) -> None:
    """The attribute and what is wrong with it."""
    with pytest.raises(es.SchemaError, match=expected):
        es.Schema.from_json(rows)


def test_attributes_keep_their_numbers_when_a_schema_grows() -> None:
    """New attributes go behind; types cannot change."""
    schema = es.Schema({"x": es.Float()})
    assert schema.extended({"y": es.Int()}).position("y") == 1
    with pytest.raises(es.SchemaError, match="cannot become"):
        schema.extended({"x": es.Int()})
    with pytest.raises(es.SchemaError, match="did you mean 'x'"):
        es.Schema({"x": es.Float(), "volume": es.Int()}).position("xx")


def test_inference_says_what_it_decided() -> None:
    """From dicts and from Arrow, one line per attribute."""
    rows = [{"price": 2, "symbol": "A", "ok": True}, {"price": 2.5, "symbol": "B", "ok": None}]
    for data in (rows, pa.Table.from_pylist(rows)):
        schema = es.Schema.infer(data)
        assert [kind.kind for kind in schema.types] == ["float", "text", "bool"]
        assert len(schema.decisions) == 3
