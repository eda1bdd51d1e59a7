"""`eventsieve check`: every problem of a file of subscriptions, by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import (
    PROBLEMS,
    emit,
    for_people,
    only_one_standard_input,
    open_input,
    read_schema,
    say,
    say_decisions,
    show,
)

if TYPE_CHECKING:
    from eventsieve.model.clause import Clause
    from eventsieve.model.schema import Schema

_NOTES = ("same-filter", "covered")
"""Worth knowing, but no mistake: two people may well ask for the same thing."""


@dataclass
class Finding:
    """One thing found on a line, as it is written to standard output."""

    line: int
    id: Any
    problem: str
    message: str
    column: int | None = None
    other_line: int | None = None
    other_id: Any = None


@dataclass
class Row:
    """A subscription that can be used."""

    line: int
    id: Any
    clauses: list[Clause]


def check(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBS", help='Subscriptions, JSON lines like {"id": "a", "filter": "price > 10"}.')
    ],
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Attributes and types as JSON; without it they are guessed from the filters."
        ),
    ] = None,
    covered: Annotated[
        bool, typer.Option("--covered/--no-covered", help="Look for subscriptions that a wider one covers.")
    ] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for notes too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, on a terminal too.")] = False,
) -> None:
    """Report every problem of a file of subscriptions, by line.

    Problems: unreadable rows and filters (error), filters that no event can satisfy (never), ids used twice
    (duplicate-id). Notes: equal filters under several ids (same-filter), subscriptions that match only where a wider
    one matches too (covered). Problems make the exit code 1; notes do so with --strict.

    A misspelt attribute can only be found with --schema.

    Examples:

      eventsieve check subs.jsonl
      eventsieve check subs.jsonl --schema schema.json --strict
      eventsieve check subs.jsonl | jq -r 'select(.problem == "error") | .message'
      cat subs.jsonl | eventsieve check - --no-covered
    """
    from eventsieve.model.jsonl import read_objects
    from eventsieve.model.report import LoadReport

    only_one_standard_input(SUBS=subscriptions, schema=schema)
    report = LoadReport(subscriptions)
    with open_input(subscriptions) as source:
        lines = list(read_objects(source, report))
    agreed = read_schema(schema) if schema is not None else _guessed(subscriptions, lines)
    findings = [Finding(problem.line, None, "error", problem.reason) for problem in report.problems]
    rows = list(_usable(lines, agreed, findings))
    findings.extend(_same_filters(rows))
    if covered:
        findings.extend(_covered(rows, len(agreed)))
    findings.sort(key=lambda finding: finding.line)
    _write(findings, for_people(json))
    counts = Counter(finding.problem for finding in findings)
    found = ", ".join(f"{count} {problem}" for problem, count in sorted(counts.items())) or "no problems"
    say(f"{subscriptions}: {len(rows)} usable subscriptions; {found}")
    if any(strict or problem not in _NOTES for problem in counts):
        raise typer.Exit(PROBLEMS)


def _guessed(path: str, lines: list[tuple[int, dict[str, Any]]]) -> Schema:
    from eventsieve.cli._guess import guess_schema

    schema = guess_schema(row["filter"] for _, row in lines if isinstance(row.get("filter"), str))
    say_decisions(f"the filters in {path}", schema.decisions)
    return schema


def _usable(lines: list[tuple[int, dict[str, Any]]], schema: Schema, findings: list[Finding]) -> Iterator[Row]:
    """Yield the rows that can be used, and add what is wrong with the others to `findings`."""
    from eventsieve.errors import DataError, EventsieveError, FilterError, suggestion
    from eventsieve.language import compile_filter, parse
    from eventsieve.model.codes import Codes
    from eventsieve.model.ids import checked_id

    codes = Codes()
    line_of: dict[Any, int] = {}
    for line, row in lines:
        given, text = row.get("id"), row.get("filter")
        compiling = False
        try:
            for name in sorted(row.keys() - {"id", "filter"}):
                raise DataError(f"unknown field {name!r}{suggestion(name, ('id', 'filter'))}")
            if not isinstance(text, str):
                raise DataError(f"a filter is a text, not {text!r} ({type(text).__name__})")
            id = checked_id(given)
            if id in line_of:
                first = line_of[id]
                message = f"the id {id!r} is already on line {first}; keep one of them"
                findings.append(Finding(line, id, "duplicate-id", message, other_line=first, other_id=id))
            line_of.setdefault(id, line)
            condition = parse(text, schema)
            compiling = True
            clauses = compile_filter(condition, schema, codes)
        except FilterError as error:
            # A filter that can be read but not compiled is one that nothing satisfies.
            column = None if error.position is None else error.position + 1
            findings.append(Finding(line, given, "never" if compiling else "error", error.reason, column=column))
        except EventsieveError as error:
            findings.append(Finding(line, given, "error", str(error)))
        else:
            if line_of[id] == line:
                yield Row(line, id, clauses)


def _same_filters(rows: list[Row]) -> Iterator[Finding]:
    first_of: dict[frozenset[Clause], Row] = {}
    for row in rows:
        first = first_of.setdefault(frozenset(row.clauses), row)
        if first is not row:
            message = f"the same filter as {first.id!r} on line {first.line}"
            yield Finding(row.line, row.id, "same-filter", message, other_line=first.line, other_id=first.id)


def _covered(rows: list[Row], n_attributes: int) -> Iterator[Finding]:
    from eventsieve.cli._covering import coverings, n_compared

    if not rows:
        return
    groups = [row.clauses for row in rows]
    if n_compared(groups) < len(rows):
        say(f"covered: only the first {n_compared(groups)} of {len(rows)} subscriptions are compared with all others")
    for inner, outer in coverings(groups, n_attributes):
        if frozenset(groups[inner]) != frozenset(groups[outer]):
            row, wider = rows[inner], rows[outer]
            message = f"every event that matches it also matches {wider.id!r} on line {wider.line}"
            yield Finding(row.line, row.id, "covered", message, other_line=wider.line, other_id=wider.id)


def _write(findings: list[Finding], table: bool) -> None:
    from dataclasses import asdict

    if table:
        if findings:
            show(_table(findings))
        return
    for finding in findings:
        emit({name: value for name, value in asdict(finding).items() if value is not None})


def _table(findings: list[Finding]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("line", "id", "problem", "what"):
        table.add_column(heading, justify="right" if heading == "line" else "left")
    for finding in findings:
        place = "" if finding.column is None else f" (at character {finding.column})"
        style = "yellow" if finding.problem in _NOTES else "red"
        table.add_row(
            str(finding.line),
            Text("" if finding.id is None else str(finding.id)),
            Text(finding.problem, style),
            Text(finding.message + place),
        )
    return table
