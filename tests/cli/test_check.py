"""`eventsieve check`: every problem by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventsieve.cli import _covering
from eventsieve.cli._covering import coverings, n_compared
from eventsieve.cli._guess import guess_schema
from eventsieve.model.clause import Bound, Clause, IsAbsent
from tests.cli.conftest import Run

ROWS = [
    {"id": "alice", "filter": "price BETWEEN 10 AND 20"},
    {"id": "bob", "filter": "price BETWEEN 12 AND 15 AND symbol = 'A'"},
    {"id": "carol", "filter": "price >= 10 AND price <= 20"},
    {"id": "dan", "filter": "price > 20 AND price < 10"},
    {"id": "alice", "filter": "price > 500"},
    {"id": "eve", "filter": "price > "},
    {"id": "fay", "filter": "price > 'x'"},
    {"id": None, "filter": "price > 1"},
    {"id": "gus"},
    {"id": "hal", "filter": "TRUE", "owner": "me"},
]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


def test_every_problem_by_line(run: Run, folder: Path) -> None:
    path = written(folder, ROWS)
    with (folder / path).open("a") as rows:
        rows.write("nope\n")
    done = run("check", path)
    assert done.code == 1
    assert [(each["line"], each["problem"]) for each in done.records] == [
        (2, "covered"),
        (3, "same-filter"),
        (4, "never"),
        (5, "duplicate-id"),
        (6, "error"),
        (7, "error"),
        (8, "error"),
        (9, "error"),
        (10, "error"),
        (11, "error"),
    ]
    by_line = {each["line"]: each for each in done.records}
    assert (by_line[2]["other_id"], by_line[2]["other_line"]) == ("alice", 1)
    assert by_line[5]["other_line"] == 1
    assert by_line[6]["column"] == 8
    assert "3 usable subscriptions" in done.stderr


def test_notes_alone_are_no_failure_unless_strict(run: Run, folder: Path) -> None:
    path = written(folder, [ROWS[0], ROWS[1], ROWS[2]])
    assert run("check", path).code == 0
    assert run("check", path, "--strict").code == 1
    assert [each["problem"] for each in run("check", path, "--no-covered").records] == ["same-filter"]


def test_a_schema_finds_misspelt_attributes(run: Run, folder: Path) -> None:
    path = written(folder, [{"id": 1, "filter": "prise > 3"}])
    assert run("check", path).records == []
    (record,) = run("check", path, "--schema", "schema.json").records
    assert "did you mean 'price'?" in record["message"]


def test_clean_and_empty_files(run: Run) -> None:
    assert run("check", "subs.jsonl").records == []
    done = run("check", "-", stdin="")
    assert (done.stdout, done.code) == ("", 0)
    assert run("check", "nope.jsonl").code == 2


def test_for_people_it_is_a_table_on_standard_error(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventsieve.cli.check.for_people", lambda json_asked: True)
    done = run("check", written(folder, ROWS))
    assert done.stdout == ""
    assert "duplicate-id" in done.stderr


# -- covering --------------------------------------------------------------------------------------------


def plainly_covers(outer: list[Clause], inner: list[Clause]) -> bool:
    """The definition, interval by interval."""

    def holds(wide: Clause, narrow: Clause) -> bool:
        ends = {bound.attribute: bound for bound in narrow.bounds}
        return all(
            bound.attribute in ends
            and bound.low <= ends[bound.attribute].low
            and ends[bound.attribute].high <= bound.high
            for bound in wide.bounds
        )

    return all(any(holds(wide, narrow) for wide in outer) for narrow in inner)


def test_coverings_are_those_of_the_definition(rng: np.random.Generator) -> None:
    def clause() -> Clause:
        chosen = np.sort(rng.choice(4, rng.integers(0, 4), replace=False))
        ends = np.sort(rng.choice([-np.inf, 0.0, 1.0, 2.0, 3.0, np.inf], (len(chosen), 2)), axis=1)
        return Clause(
            tuple(Bound(int(a), float(low), float(high)) for a, (low, high) in zip(chosen, ends, strict=True))
        )

    groups = [[clause() for _ in range(rng.integers(1, 3))] for _ in range(200)]
    found = dict(coverings(groups, 4))
    for inner, clauses in enumerate(groups):
        same = frozenset(clauses)
        wider = [
            outer
            for outer, others in enumerate(groups)
            if outer != inner and plainly_covers(others, clauses) and (outer < inner or frozenset(others) != same)
        ]
        # One subscription's clauses may be held by different clauses of the other; each must be held by one.
        assert found.get(inner) == (wider[0] if wider else None)


def test_residual_checks_of_the_wider_one_must_stand_in_the_narrower_one_too() -> None:
    box, wide = (Bound(0, 1.0, 2.0),), (Bound(0, 0.0, 3.0),)
    groups = [[Clause(box)], [Clause(wide, IsAbsent(1))], [Clause(box, IsAbsent(1))]]
    assert dict(coverings(groups, 2)) == {2: 0}
    assert dict(coverings(groups[1:], 2)) == {1: 0}


def test_the_comparison_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [[Clause((Bound(0, 0.0, float(high)),))] for high in range(1, 11)]
    assert len(list(coverings(groups, 1))) == 9
    monkeypatch.setattr(_covering, "MOST_COMPARISONS", 30)
    assert n_compared(groups) == 3
    assert [inner for inner, _ in coverings(groups, 1)] == [0, 1, 2]


# -- guessing --------------------------------------------------------------------------------------------


def test_types_are_guessed_from_what_attributes_are_compared_with() -> None:
    schema = guess_schema(
        [
            "price > 10 AND at < TIMESTAMP '2026-01-01 00:00:00' AND (halted OR NOT open)",
            "symbol IN ('A', 'B') OR name LIKE 'x%' OR flag = TRUE",
            "ghost IS NULL",
            "not ( a filter",
        ]
    )
    assert {name: kind.kind for name, kind in schema.items()} == {
        "price": "float",
        "at": "time",
        "halted": "bool",
        "open": "bool",
        "symbol": "text",
        "name": "text",
        "flag": "bool",
        "ghost": "text",
    }


def test_the_majority_decides_and_the_dissent_is_said() -> None:
    schema = guess_schema(["a > 1", "a < 2", "a = 'x'"])
    assert schema["a"].kind == "float"
    assert "text" in schema.decisions[0]


def test_known_attributes_are_left_out() -> None:
    assert list(guess_schema(["a > 1 AND b = 'a c'", "a < 3"], known=("a",))) == ["b"]
