"""Types inferred from events, and what is said about it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from eventsieve.model.inference import infer_schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "int"),
        ([1, 2.5], "float"),
        ([np.int64(1), np.float64(0.5)], "float"),
        ([True, False], "bool"),
        ([np.True_], "bool"),
        (["A", "2026-01-31T09:30:00"], "text"),
        (["2026-01-31T09:30:00", "2026-01-31 10:00:00+01:00"], "time"),
        (["2026-01-31"], "text"),
        ([datetime(2026, 1, 31, tzinfo=UTC), date(2026, 1, 31)], "time"),
        ([1, None], "int"),
    ],
)
def test_the_type_fits_the_values(values: list[Any], kind: str) -> None:
    assert infer_schema([{"x": value} for value in values])["x"].kind == kind


def test_the_majority_wins_and_misfits_are_counted() -> None:
    schema = infer_schema([{"x": 1}, {"x": 2}, {"x": "three"}])
    assert schema["x"].kind == "int"
    assert schema.decisions == ("x: int (3 values, 1 of them of another type)",)


def test_what_cannot_be_matched_is_left_out_and_said() -> None:
    schema = infer_schema([{"tags": ["a"], "gone": None, "x": 1}])
    assert list(schema) == ["x"]
    assert [decision.split(":")[0] for decision in schema.decisions] == ["tags", "gone", "x"]
    assert "every value is null" in schema.decisions[1]


def test_no_events_give_an_empty_schema() -> None:
    assert len(infer_schema([])) == 0
