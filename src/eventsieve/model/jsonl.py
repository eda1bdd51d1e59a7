"""JSON lines in, from a path, an open file or any iterable of lines, with the line number of every problem."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import IO, Any, NoReturn, TypeAlias

from eventsieve.errors import DataError
from eventsieve.model.report import LoadReport

Source: TypeAlias = str | PathLike[str] | IO[str] | Iterable[str]


def source_name(source: Any) -> str:
    """Return what to call a source in a message."""
    if isinstance(source, str | PathLike):
        return fspath(source)
    return str(getattr(source, "name", "the given lines"))


def read_objects(source: Source, report: LoadReport) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for every line that holds a JSON object; others are rejected in the report."""
    if isinstance(source, str | PathLike):
        try:
            with open(source, encoding="utf-8") as lines:
                yield from read_objects(lines, report)
        except OSError as cause:
            raise DataError(f"cannot read {fspath(source)}: {cause.strerror}") from cause
        return
    try:
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            try:
                yield number, parse_object(line)
            except DataError as problem:
                report.reject(number, None, problem)
    except UnicodeDecodeError as cause:
        raise DataError(f"{report.source}: not UTF-8 text at byte {cause.start}; convert the file first") from cause


def parse_object(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds; raise DataError if it holds none, a name twice, or NaN."""
    try:
        value = json.loads(line, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as cause:
        raise DataError(f"malformed JSON at column {cause.colno}: {cause.msg}") from cause
    except UnicodeDecodeError as cause:
        raise DataError(f"not UTF-8 text at byte {cause.start}") from cause
    except RecursionError as cause:
        raise DataError("JSON nested too deeply") from cause
    if not isinstance(value, dict):
        raise DataError(f"a JSON object is needed, not {type(value).__name__}")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"attribute {twice!r} is given twice; keep one of them")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise DataError(f"{name} is not a value that can be matched; leave the attribute out instead")
