"""Reading subscriptions and events for commands: bad rows are said on standard error by line, and counted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from eventsieve.cli._guess import guess_schema
from eventsieve.cli._io import open_input, read_schema, say_decisions, say_problems
from eventsieve.errors import DataError
from eventsieve.model.events import Events, Unknown
from eventsieve.model.inference import infer_schema
from eventsieve.model.jsonl import read_objects
from eventsieve.model.report import LoadReport, LoadWarning, Problem
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions


class EventBatch(NamedTuple):
    """Events that are matched together, and what each of them is called in the results."""

    names: list[Any]
    events: Events


class EventReader:
    """Events of one source of JSON lines, batch by batch.

    An event is called by the value of its `key` field, or by its line number. The key field is not an attribute
    unless the schema says so.
    """

    def __init__(self, path: str, source: Iterable[str], key: str | None = None, unknown: Unknown = "refuse") -> None:
        self.path = path
        self.key = key
        self.unknown = unknown
        self.left_out = 0
        self._report = LoadReport(path)
        self._rows: Iterator[tuple[int, dict[str, Any]]] = read_objects(source, self._report)

    def all_rows(self) -> list[dict[str, Any]]:
        """Read everything, for inference; `batches` still gives all of it."""
        rows = list(self._rows)
        self._rows = iter(rows)
        return [{name: value for name, value in row.items() if name != self.key} for _, row in rows]

    def batches(self, schema: Schema, size: int) -> Iterator[EventBatch]:
        """Yield the good events, `size` lines at a time."""
        while rows := list(islice(self._rows, size)):
            self._say_new_problems()
            yield self._batch(schema, rows)
        self._say_new_problems()

    def _batch(self, schema: Schema, rows: list[tuple[int, dict[str, Any]]]) -> EventBatch:
        names: list[Any] = []
        lines: list[int] = []
        plain: list[dict[str, Any]] = []
        for line, row in rows:
            if self.key is not None and row.get(self.key) is None:
                self._report.reject(line, None, f"no value for the key field {self.key!r}")
                continue
            names.append(line if self.key is None else row[self.key])
            lines.append(line)
            plain.append(row if self.key is None or self.key in schema else _without(row, self.key))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoadWarning)  # said by line below
            events = Events.from_dicts(schema, plain, strict=False, unknown=self.unknown)
        for problem in events.report.problems:
            self._report.reject(lines[problem.line - 1], None, problem.reason)
        self._say_new_problems()
        if events.lines is not None:
            names = [names[row - 1] for row in events.lines]
        return EventBatch(names, events)

    def _say_new_problems(self) -> None:
        new, self._report.problems = self._report.problems, []
        self.left_out += say_problems(self.path, sorted(new, key=_line))


def _line(problem: Problem) -> int:
    return problem.line


def _without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


class SubscriptionReader:
    """Subscriptions of one file. Lines are read once, since standard input can be read only once."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open_input(path) as source:
            try:
                self._lines = list(source)
            except UnicodeDecodeError as cause:
                raise DataError(f"{path}: not UTF-8 text at byte {cause.start}; convert the file first") from cause

    def filters(self) -> list[str]:
        """Return the filter texts that can be read; what cannot is reported when it is loaded."""
        rows = read_objects(self._lines, LoadReport(self.path))
        return [row["filter"] for _, row in rows if isinstance(row.get("filter"), str)]

    def load(self, schema: Schema) -> Subscriptions:
        """Load the good rows and say which were left out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoadWarning)  # said by line below
            loaded = Subscriptions.from_jsonl(schema, self._lines)
        say_problems(self.path, loaded.report.problems)
        return loaded


def settle_schema(path: str | None, events: EventReader, subscriptions: SubscriptionReader) -> Schema:
    """Return the declared schema; or one inferred from all events, and from the filters for attributes no event has."""
    if path is not None:
        return read_schema(path)
    seen = infer_schema(events.all_rows())
    asked = guess_schema(subscriptions.filters(), known=seen.names)
    say_decisions(events.path, [*seen.decisions, *(f"{decision}, in filters only" for decision in asked.decisions)])
    return seen.extended(asked)
