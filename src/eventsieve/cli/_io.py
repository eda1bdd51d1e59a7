"""What all commands share: the two outputs, the two inputs, exit codes and `key=value` settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any, Final

import typer

from eventsieve.errors import SchemaError

if TYPE_CHECKING:
    from eventsieve.model.report import Problem
    from eventsieve.model.schema import Schema

PROBLEMS: Final = 1
UNREADABLE: Final = 2

_SHOWN: Final = 20
"""Rows spelled out on standard error before the rest is only counted."""


def emit(record: dict[str, Any]) -> None:
    """Write one JSON line to standard output, which carries nothing else."""
    sys.stdout.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def say(text: str) -> None:
    """Write a line for people to standard error."""
    sys.stderr.write(text + "\n")


def for_people(json_asked: bool) -> bool:
    """Return whether results are shown as tables on standard error: on a terminal, unless JSON is asked for."""
    return sys.stdout.isatty() and not json_asked


def show(renderable: Any) -> None:
    """Draw a Rich table or text for people on standard error."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(renderable)


def open_input(path: str) -> AbstractContextManager[IO[str]]:
    """Open a file of JSON lines; `-` is standard input, which stays open."""
    if path == "-":
        return nullcontext(sys.stdin)
    return open(path, encoding="utf-8")


def only_one_standard_input(**paths: str | None) -> None:
    """Refuse two inputs that are both `-`."""
    asked = [name for name, path in paths.items() if path == "-"]
    if len(asked) > 1:
        raise typer.BadParameter(
            f"{' and '.join(asked)} cannot both be standard input (-); name a file for one of them"
        )


def read_schema(path: str) -> Schema:
    """Read a declared schema: `{"price": "float", ...}` or a list of `{"name", "type", "low", "high"}`."""
    from eventsieve.model.schema import Schema

    with open_input(path) as source:
        try:
            return Schema.from_json(json.load(source))
        except (json.JSONDecodeError, UnicodeDecodeError) as cause:
            raise SchemaError(f'{path} is not JSON: {cause}; a schema is like {{"price": "float"}}') from cause


def say_decisions(source: str, decisions: Iterable[str]) -> None:
    """Say what inference decided."""
    say(f"no --schema: types inferred from {source}")
    for decision in decisions:
        say(f"  {decision}")


def say_problems(source: str, problems: Iterable[Problem]) -> int:
    """Report rows that were left out, by line, and return their number."""
    rows = list(problems)
    for problem in rows[:_SHOWN]:
        say(f"{source}: {problem}")
    if len(rows) > _SHOWN:
        say(f"{source}: and {len(rows) - _SHOWN} more")
    return len(rows)


def read_settings(pairs: list[str] | None) -> dict[str, Any]:
    """Read `key=value` settings; a value is JSON where it can be (numbers, true, null) and text otherwise.

    >>> read_settings(["buckets=1000", "absent=walk"])
    {'buckets': 1000, 'absent': 'walk'}
    """
    settings: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not a setting; write key=value, for example buckets=1000")
        try:
            settings[key.strip()] = json.loads(text)
        except json.JSONDecodeError:
            settings[key.strip()] = text
    return settings
