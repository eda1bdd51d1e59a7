"""`eventsieve matchers`: the capability table, from the registry."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from eventsieve.cli._io import emit, for_people, show

_MARKS: Final = {
    "exact": "exact",
    "approx.": "approximate",
    "elastic": "elastic",
    "transf.": "transforms",
    "batch": "shares_batch",
}
"""Headings of the capability marks, and where they are in a record."""


def matchers(
    json: Annotated[bool, typer.Option("--json", help="JSON lines, on a terminal too.")] = False,
) -> None:
    """List the matchers: what each one is, where it comes from, what it can do, its parameters.

    On a terminal this is a table; into a file or a pipe, one JSON line per matcher. Marks: exact by default; can be
    told to be approximate; takes a bound on false positives per batch (elastic); a value transform pays on skewed
    values; shares work within a batch.

    Examples:

      eventsieve matchers
      eventsieve matchers --json
      eventsieve matchers | grep '"exact": true'
    """
    from eventsieve.matchers.registry import matchers as names

    records = [_record(name) for name in names()]
    if for_people(json):
        show(_table(records))
        return
    for record in records:
        emit(record)


def _record(name: str) -> dict[str, Any]:
    from dataclasses import asdict

    from eventsieve.matchers.registry import default_params, matcher_class

    found = matcher_class(name)
    return {
        "name": name,
        "summary": found.summary,
        **asdict(found.capabilities),
        "params": default_params(name),
    }


def _table(records: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("matcher", no_wrap=True)
    table.add_column("what it is, where it comes from, its parameters")
    for heading in _MARKS:
        table.add_column(heading, justify="center", no_wrap=True)
    for record in records:
        parameters = ", ".join(f"{key}={value}" for key, value in record["params"].items())
        told = Text(record["summary"])
        for more in filter(None, (record["paper"], parameters)):
            told.append(f"\n{more}", "dim")
        marks = ("✓" if record[name] else "" for name in _MARKS.values())
        table.add_row(record["name"], told, *marks)
    return table
