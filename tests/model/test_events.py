"""Events from dicts, JSON lines, Arrow and arrays: the same events, and the same complaints."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eventsieve as es

SCHEMA = es.Schema({"price": es.Float(0, 100), "n": es.Int(), "ok": es.Bool(), "at": es.Time(), "symbol": es.Text()})
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_dicts_come_back_as_they_were() -> None:
    """Every type survives the way into columns and back."""
    rows = [
        {"price": 1.5, "n": 3, "ok": True, "at": MOMENT, "symbol": "A"},
        {"n": 2**60, "symbol": ""},
        {},
        {"n": -(2**60), "ok": False},
    ]
    events = es.Events.from_dicts(SCHEMA, rows)
    assert [events[e] for e in range(len(events))] == rows


@pytest.mark.parametrize(
    "given",
    [
        MOMENT,
        MOMENT.astimezone(timezone(timedelta(hours=-5))),
        MOMENT.replace(tzinfo=None),
        "2026-01-02T03:04:05.678901",
        "2026-01-02T03:04:05.678901Z",
        "2026-01-02 04:04:05.678901+01:00",
        MOMENT.timestamp(),
    ],
)
def test_times_are_accepted_in_many_forms(given: Any) -> None:
    """ISO texts, datetimes and epoch seconds name the same moment."""
    assert es.Events.from_dicts(SCHEMA, [{"at": given}])[0] == {"at": MOMENT}


def test_dates_and_units() -> None:
    """A date is its midnight; epoch numbers count the declared unit."""
    assert es.Events.from_dicts(SCHEMA, [{"at": date(2026, 1, 2)}])[0]["at"] == datetime(2026, 1, 2, tzinfo=UTC)
    schema = es.Schema({"at": es.Time(unit="ms")})
    assert es.Events.from_dicts(schema, [{"at": 1500}])[0]["at"] == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"prise": 1}, "did you mean 'price'"),
        ({"price": "1"}, "attribute 'price': a number is needed, not '1'"),
        ({"price": True}, "attribute 'price': a number is needed"),
        ({"price": float("nan")}, "a finite number is needed, not nan"),
        ({"price": float("inf")}, "a finite number is needed, not inf"),
        ({"n": 1.5}, "attribute 'n': a whole number is needed"),
        ({"n": True}, "attribute 'n': a whole number is needed"),
        ({"ok": 1}, "attribute 'ok': true or false is needed"),
        ({"at": "yesterday"}, "an ISO 8601 time is needed"),
        ({"at": "9999-01-01"}, "outside the years 1684 to 2255"),
        ({"symbol": 5}, "attribute 'symbol': a text is needed"),
        ([1], "an event is a mapping"),
    ],
)
def test_a_bad_event_names_the_thing_the_place_and_the_remedy(event: Any, expected: str) -> None:
    """One bad value is an error that says which."""
    with pytest.raises(es.EventsieveError, match=r"line 2: .*" + expected):
        es.Events.from_dicts(SCHEMA, [{}, event])


def test_whole_floats_are_integers_and_none_is_absence() -> None:
    """3.0 is 3 for an Int; None leaves the attribute out."""
    assert es.Events.from_dicts(SCHEMA, [{"n": 3.0, "price": None}])[0] == {"n": 3}


def test_json_lines_keep_the_good_and_report_the_bad_by_line(tmp_path: Path) -> None:
    """Malformed lines, duplicates and bad values are counted, never dropped in silence."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"price": 1}\n\n{"price": \n{"price": NaN}\n[1]\n{"n": 1, "n": 2}\n{"price": 2}\n')
    with pytest.warns(es.LoadWarning, match="4 of 6 rows were left out"):
        events = es.Events.from_jsonl(SCHEMA, path)
    assert [events[e] for e in range(len(events))] == [{"price": 1.0}, {"price": 2.0}]
    assert [problem.line for problem in events.report.problems] == [3, 4, 5, 6]
    assert "malformed JSON" in events.report.problems[0].reason
    assert "'n' is given twice" in events.report.problems[3].reason
    assert events.lines is not None
    assert events.lines.tolist() == [1, 7]
    with pytest.raises(es.DataError, match="nothing was loaded"):
        es.Events.from_jsonl(SCHEMA, path, strict=True)


def test_missing_and_foreign_files_are_clear_errors(tmp_path: Path) -> None:
    """The path and the reason are named."""
    with pytest.raises(es.DataError, match=r"cannot read .*nowhere"):
        es.Events.from_jsonl(SCHEMA, tmp_path / "nowhere.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(es.DataError, match="not UTF-8"):
        es.Events.from_jsonl(SCHEMA, tmp_path / "binary")
    assert len(es.Events.from_jsonl(SCHEMA, io.StringIO('{"n": 1}\n'))) == 1


@pytest.mark.parametrize("encode", [False, True])
def test_arrow_equals_dicts(encode: bool) -> None:
    """A table gives the same events as the same rows as dicts, dictionary-encoded or not."""
    rows = [
        {"price": 1.5, "n": 2**60, "ok": True, "at": MOMENT, "symbol": "A"},
        {"price": None, "n": -5, "ok": None, "at": None, "symbol": None},
        {"price": 3.0, "n": None, "ok": False, "at": MOMENT + timedelta(days=1), "symbol": "B"},
    ]
    table = pa.Table.from_pylist(rows)
    if encode:
        table = table.set_column(4, "symbol", table["symbol"].dictionary_encode())
    events = es.Events.from_arrow(SCHEMA, table)
    expected = es.Events.from_dicts(SCHEMA, rows)
    assert [events[e] for e in range(3)] == [expected[e] for e in range(3)]
    assert len(es.Events.from_arrow(SCHEMA, table.to_batches()[0])) == 3


def test_arrow_reports_bad_rows_and_wrong_columns() -> None:
    """NaN is a bad row; a column of another type is an error at once."""
    table = pa.table({"price": [1.0, float("nan"), None], "at": ["2026-01-01", "2026-01-01", "never"]})
    with pytest.warns(es.LoadWarning):
        events = es.Events.from_arrow(SCHEMA, table)
    assert [(problem.line, "finite" in problem.reason) for problem in events.report.problems] == [(2, True), (3, False)]
    assert len(events) == 1
    with pytest.raises(es.SchemaError, match="column 'price' holds string"):
        es.Events.from_arrow(SCHEMA, pa.table({"price": ["a"]}))
    with pytest.raises(es.SchemaError, match="'eid'"):
        es.Events.from_arrow(SCHEMA, pa.table({"eid": [1]}))
    assert len(es.Events.from_arrow(SCHEMA, pa.table({"eid": [1]}), unknown="ignore")) == 1


def test_arrays_are_checked() -> None:
    """Offsets, attribute numbers, duplicates, NaN and texts without a list of texts are refused by name."""
    take = es.Events.from_arrays
    assert take(SCHEMA, [0, 2, 2], [1, 0], [3, 1.5])[0] == {"price": 1.5, "n": 3}
    assert take(SCHEMA, [0, 1], [4], [1], texts={"symbol": ["A", "B"]})[0] == {"symbol": "B"}
    for start, attribute, value, expected in [
        ([0, 3], [0, 1], [1, 1], "start must rise"),
        ([0, 2, 1, 2], [0, 1], [1, 1], "start must rise"),
        ([0, 1], [9], [1], "numbered from 0 to 4"),
        ([0, 2], [0, 0], [1, 1], "event 0, attribute 'price': given twice"),
        ([0, 1], [0], [np.nan], "event 0, attribute 'price': a finite number"),
        ([0, 0, 1], [1], [1.5], "event 1, attribute 'n': not a whole number"),
        ([0, 1], [4], [0], "is text; give its values"),
        ([0, 1], [4, 1], [0], "of one length"),
    ]:
        with pytest.raises(es.EventsieveError, match=expected):
            take(SCHEMA, start, attribute, value)


def test_arrays_given_are_left_alone() -> None:
    """The caller's arrays are neither changed nor referred to."""
    attribute, value = np.array([4, 0], np.int32), np.array([1.0, 2.0])
    events = es.Events.from_arrays(SCHEMA, np.array([0, 2]), attribute, value, texts={"symbol": ["A", "B"]})
    assert attribute.tolist() == [4, 0]
    assert value.tolist() == [1.0, 2.0]
    value[:] = 7
    assert events[0] == {"price": 2.0, "symbol": "B"}


def test_dense_events() -> None:
    """A matrix and a mask; NaN is refused where it counts and ignored where it does not."""
    schema = es.Schema({"x": es.Float(), "n": es.Int()})
    values = [[1.5, 2], [np.nan, 3]]
    events = es.Events.from_dense(schema, values, present=[[True, True], [False, True]])
    assert [events[0], events[1]] == [{"x": 1.5, "n": 2}, {"n": 3}]
    with pytest.raises(es.DataError, match="event 1, attribute 'x': a finite number"):
        es.Events.from_dense(schema, values)
    with pytest.raises(es.DataError, match="matrix of 2 columns"):
        es.Events.from_dense(schema, [[1.0]])


def test_batches_are_laid_end_to_end() -> None:
    """Parts of one batch share their tables of texts; batches of their own have the same text under other codes."""
    rows = [{"symbol": "A", "n": 1}, {"symbol": "B"}, {"price": 2.0}, {"symbol": "A", "n": 4}]
    whole = es.Events.from_dicts(SCHEMA, rows)
    parts = [whole.part(first, first + 2) for first in (2, 0)]
    own = [es.Events.from_dicts(SCHEMA, [{"symbol": "B", "n": 2**60}]), es.Events.from_dicts(SCHEMA, [{"symbol": "A"}])]
    for batches, expected in (
        (parts, rows[2:] + rows[:2]),
        ([*parts, *own], [*rows[2:], *rows[:2], *(e[0] for e in own)]),
    ):
        joined = es.Events.joined(SCHEMA, batches)
        assert [joined[e] for e in range(len(joined))] == expected
