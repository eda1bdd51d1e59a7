"""Events as columns: a batch of attribute values, sparse by event, ready for compiled code.

Texts and integers beyond 2**53 carry codes of the batch's own (see `codes`); `columns_for` translates them to
the codes of one collection of subscriptions, at a cost per distinct value rather than per event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eventsieve.errors import DataError, SchemaError, suggestion
from eventsieve.model import arrow
from eventsieve.model.codes import Codes, ranks
from eventsieve.model.columns import EventColumns, flat, slice_events
from eventsieve.model.jsonl import Source, read_objects, source_name
from eventsieve.model.report import LoadReport
from eventsieve.model.schema import Schema
from eventsieve.model.types import LARGEST_EXACT, Bool, Int, Text, Time

Unknown: TypeAlias = Literal["refuse", "ignore"]
"""What to do with attributes the schema does not have."""


class Events:
    """A batch of events. Make one with `from_dicts`, `from_jsonl`, `from_arrow` or `from_arrays`.

    >>> from eventsieve.model.types import Float, Text
    >>> events = Events.from_dicts(Schema({"price": Float(), "symbol": Text()}), [{"price": 2}, {"symbol": "A"}])
    >>> len(events), events[1]
    (2, {'symbol': 'A'})
    """

    def __init__(
        self,
        schema: Schema,
        columns: EventColumns,
        codes: Codes,
        report: LoadReport,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        self.schema = schema
        self.report = report
        """What the load left out and why; empty unless rows of a bulk load were bad."""
        self.lines = lines
        """For each event its line (or row, from 1) in the source; None where every row was taken."""
        self._columns = columns
        self._codes = codes

    def __len__(self) -> int:
        return self._columns.start.shape[0] - 1

    def __getitem__(self, e: int) -> dict[str, Any]:
        """Return one event as a plain dict, for a person to read."""
        if not -len(self) <= e < len(self):
            raise IndexError(f"event {e} of {len(self)}")
        columns, e = self._columns, e % len(self)
        found: dict[str, Any] = {}
        for i in range(columns.start[e], columns.start[e + 1]):
            a = int(columns.attribute[i])
            found[self.schema.names[a]] = self._readable(a, float(columns.value[i]))
        return found

    def _readable(self, a: int, number: float) -> Any:
        kind = self.schema.types[a]
        if isinstance(kind, Text) or (isinstance(kind, Int) and abs(number) > LARGEST_EXACT):
            return self._codes.value_of(a, number)
        if isinstance(kind, Bool):
            return bool(number)
        if isinstance(kind, Time):
            return kind.moment(number)
        return int(number) if isinstance(kind, Int) else number

    def columns_for(self, codes: Codes) -> EventColumns:
        """Return the batch with texts and big integers in the codes of one collection of subscriptions."""
        coded = self._codes.attributes()
        if not coded:
            return self._columns
        value = self._columns.value.copy()
        for a in coded:
            theirs = np.array([codes.look_up(a, named) for named in self._codes.values(a)])
            at = _coded(self.schema, self._columns.attribute, value, a)
            value[at] = theirs[ranks(value[at])]
        return self._columns._replace(value=value)

    def texts(self, a: int) -> tuple[list[str], NDArray[np.int64]]:
        """Return an attribute's distinct texts and, per event, which of them it has (-1 for none)."""
        which = np.full(len(self), -1, np.int64)
        at = np.flatnonzero(self._columns.attribute == a)
        which[np.searchsorted(self._columns.start, at, side="right") - 1] = self._columns.value[at].astype(np.int64) - 1
        return [str(text) for text in self._codes.values(a)], which

    def part(self, first: int, stop: int) -> Events:
        """Return the events first:stop as a batch of their own; the codes are shared."""
        lines = None if self.lines is None else self.lines[first:stop]
        return Events(self.schema, slice_events(self._columns, first, stop), self._codes, self.report, lines)

    def one(self, e: int) -> Events:
        """Return a copy of one event as a batch."""
        start, attribute, value = slice_events(self._columns, e, e + 1)
        return Events(self.schema, EventColumns(start, attribute.copy(), value.copy()), self._codes, self.report)

    # -- making --------------------------------------------------------------------------------------------

    @classmethod
    def joined(cls, schema: Schema, parts: Sequence[Events]) -> Events:
        """Lay batches end to end. Their schemas are this one, or what it was before attributes were added behind."""
        if len(parts) == 1:
            only = parts[0]
            return only if only.schema is schema else cls(schema, only._columns, only._codes, only.report, only.lines)
        columns = [part._columns for part in parts]
        sizes = np.cumsum([0, *(each.value.size for each in columns)])
        starts = [each.start[:-1] + size for each, size in zip(columns, sizes, strict=False)]
        start = np.concatenate([*starts, sizes[-1:]])
        attribute = np.concatenate([each.attribute for each in columns])
        value = np.concatenate([each.value for each in columns])
        codes = parts[0]._codes
        if any(part._codes is not codes for part in parts):
            codes = Codes()
            for a in sorted({a for part in parts for a in part._codes.attributes()}):
                # One table for all parts: a code's new one stands at its part's offset plus its rank there.
                named = [part._codes.values(a) for part in parts]
                table = np.array([codes.assign(a, each) for known in named for each in known])
                offset = np.cumsum([0, *map(len, named)])
                at = _coded(schema, attribute, value, a)
                value[at] = table[offset[np.searchsorted(sizes, at, side="right") - 1] + ranks(value[at])]
        report = LoadReport("joined batches", added=start.size - 1)
        return cls(schema, EventColumns(start, attribute, value), codes, report)

    @classmethod
    def from_arrays(
        cls,
        schema: Schema,
        start: ArrayLike,
        attribute: ArrayLike,
        value: ArrayLike,
        texts: Mapping[str, Sequence[str]] | None = None,
    ) -> Events:
        """Take events as flat arrays: event e has value[i] of attribute[i] for i in start[e]:start[e+1].

        Values are in matched form (time in microseconds); those of a text attribute are positions in `texts[name]`.
        """
        columns = EventColumns(flat(start, np.int64), flat(attribute, np.int32), flat(value, np.float64))
        n_events = check_offsets(columns.start, columns.attribute, columns.value)
        _check_attributes(schema, columns.attribute)
        columns = _by_rising_attribute(schema, columns)
        if not np.isfinite(columns.value).all():
            at = int(np.flatnonzero(~np.isfinite(columns.value))[0])
            raise DataError(f"{_place(schema, columns, at)}: a finite number is needed, not {columns.value[at]}")
        codes = Codes()
        for a in np.unique(columns.attribute):
            kind = schema.types[a]
            at_a = np.flatnonzero(columns.attribute == a)
            values = columns.value[at_a]
            if isinstance(kind, Text):
                columns.value[at_a] = code_positions(schema, int(a), values, texts, codes)
            elif kind.discrete and (np.any(values != np.floor(values)) or np.any(np.abs(values) > LARGEST_EXACT)):
                bad = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > LARGEST_EXACT))[0]
                raise DataError(
                    f"{_place(schema, columns, int(at_a[bad]))}: not a whole number within 2**53: {values[bad]}"
                )
        return cls(schema, columns, codes, LoadReport("arrays", n_events))

    @classmethod
    def from_dense(cls, schema: Schema, values: ArrayLike, present: ArrayLike | None = None) -> Events:
        """Take events as a matrix, a row per event and a column per attribute; `present` says which values count.

        Values are in matched form. A NaN is refused like anywhere else: what is absent is not present.
        """
        matrix = np.asarray(values, np.float64)
        counts = np.ones(matrix.shape, bool) if present is None else np.asarray(present, bool)
        if matrix.ndim != 2 or matrix.shape[1] != len(schema) or counts.shape != matrix.shape:
            raise DataError(
                f"dense events are a matrix of {len(schema)} columns, one per attribute, and `present` one of the "
                f"same shape; these are {matrix.shape} and {counts.shape}"
            )
        start = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        return cls.from_arrays(schema, start, np.nonzero(counts)[1], matrix[counts])

    @classmethod
    def from_dicts(
        cls, schema: Schema, rows: Iterable[Mapping[str, Any]], strict: bool = True, unknown: Unknown = "refuse"
    ) -> Events:
        """Take events as dicts; None means absent. A bad one raises DataError, or is left out if not `strict`."""
        report = LoadReport("the given events")
        return _from_objects(schema, enumerate(rows, 1), report, strict, unknown)

    @classmethod
    def from_jsonl(cls, schema: Schema, source: Source, strict: bool = False, unknown: Unknown = "refuse") -> Events:
        """Take events as JSON lines, one object a line. Bad lines are reported, and left out unless `strict`."""
        report = LoadReport(source_name(source))
        return _from_objects(schema, read_objects(source, report), report, strict, unknown)

    @classmethod
    def from_arrow(cls, schema: Schema, table: Any, strict: bool = False, unknown: Unknown = "refuse") -> Events:
        """Take events as a pyarrow Table or RecordBatch, a column per attribute; null means absent."""
        report = LoadReport("the given table")
        _check_names(schema, table.column_names if hasattr(table, "column_names") else table.schema.names, unknown)
        columns, codes, lines = arrow.event_columns(schema, table, report)
        report.added = columns.start.shape[0] - 1
        report.close(strict)
        return cls(schema, columns, codes, report, lines)


def _from_objects(
    schema: Schema, rows: Iterable[tuple[int, Mapping[str, Any]]], report: LoadReport, strict: bool, unknown: Unknown
) -> Events:
    codes = Codes()
    lines: list[int] = []
    start, attribute, value = [0], list[int](), list[float]()
    for line, row in rows:
        try:
            pairs = sorted(encode_event(schema, row, codes, unknown).items())
        except (DataError, SchemaError) as problem:
            report.reject(line, None, problem)
            continue
        lines.append(line)
        attribute.extend(a for a, _ in pairs)
        value.extend(number for _, number in pairs)
        start.append(len(value))
    report.added = len(lines)
    report.close(strict)
    columns = EventColumns(np.array(start, np.int64), np.array(attribute, np.int32), np.array(value, np.float64))
    return Events(schema, columns, codes, report, np.array(lines, np.int64) if report.problems else None)


def encode_event(schema: Schema, row: Mapping[str, Any], codes: Codes, unknown: Unknown = "refuse") -> dict[int, float]:
    """Return one event's matched values by attribute number, giving codes to its texts and big integers."""
    if not isinstance(row, Mapping):
        raise DataError(f"an event is a mapping of attribute names to values, not {type(row).__name__}")
    found: dict[int, float] = {}
    for name, given in row.items():
        if name not in schema:
            if unknown == "ignore":
                continue
            raise _unknown_attribute(schema, name)
        if given is None:
            continue
        a = schema.position(name)
        kind = schema.types[a]
        try:
            if isinstance(kind, Text):
                if not isinstance(given, str):
                    raise ValueError(f"a text is needed, not {given!r} ({type(given).__name__})")
                found[a] = codes.assign(a, given)
            elif isinstance(kind, Int) and abs(whole := kind.whole(given)) > LARGEST_EXACT:
                found[a] = codes.assign(a, whole)
            else:
                found[a] = kind.number(given)
        except ValueError as cause:
            raise DataError(f"attribute {name!r}: {cause}") from cause
    return found


def check_offsets(start: NDArray[np.int64], *columns: NDArray[Any]) -> int:
    """Check that `start` cuts the columns into rows; return the number of rows."""
    size = columns[0].shape[0]
    if any(column.shape != (size,) for column in columns):
        raise DataError(f"the columns must be of one length, not {', '.join(str(column.shape) for column in columns)}")
    if start.ndim != 1 or start.shape[0] == 0 or start[0] != 0 or start[-1] != size or np.any(np.diff(start) < 0):
        raise DataError(
            f"start must rise from 0 to the number of values, {size}, with one element more than there are rows"
        )
    return start.shape[0] - 1


def code_positions(
    schema: Schema, a: int, positions: NDArray[np.float64], texts: Mapping[str, Sequence[str]] | None, codes: Codes
) -> NDArray[np.float64]:
    """Return codes for positions in the texts given for an attribute."""
    name = schema.names[a]
    if texts is None or name not in texts:
        raise DataError(f"attribute {name!r} is text; give its values as texts={{{name!r}: [...]}} and positions in it")
    if positions.size and not (positions.min() >= 0 and positions.max() < len(texts[name])):
        raise DataError(f"attribute {name!r}: a position is outside the {len(texts[name])} texts given")
    table = np.array(codes.assign_all(a, texts[name]), np.float64)
    found: NDArray[np.float64] = table[positions.astype(np.int64)]
    return found


def _coded(schema: Schema, attribute: NDArray[np.int32], value: NDArray[np.float64], a: int) -> NDArray[np.int64]:
    """Return where an attribute has codes: all its values, or those of its integers that a float64 cannot hold."""
    at = np.flatnonzero(attribute == a)
    return at[np.abs(value[at]) > LARGEST_EXACT] if isinstance(schema.types[a], Int) else at


def _check_attributes(schema: Schema, attribute: NDArray[np.int32]) -> None:
    if attribute.size and not (attribute.min() >= 0 and attribute.max() < len(schema)):
        raise SchemaError(f"attributes are numbered from 0 to {len(schema) - 1} in this schema, not {attribute.max()}")


def _by_rising_attribute(schema: Schema, columns: EventColumns) -> EventColumns:
    """Sort each event's values by attribute where they are not, and refuse an attribute that is given twice."""
    event = np.repeat(np.arange(columns.start.shape[0] - 1), np.diff(columns.start))
    key = event * len(schema) + columns.attribute
    if key.size and not np.all(key[1:] > key[:-1]):
        order = np.argsort(key, kind="stable")
        columns = EventColumns(columns.start, columns.attribute[order], columns.value[order])
        twice = np.flatnonzero(np.diff(key[order]) == 0)
        if twice.size:
            raise DataError(f"{_place(schema, columns, int(twice[0]))}: given twice; keep one of them")
        return columns
    return columns._replace(value=columns.value.copy())


def _place(schema: Schema, columns: EventColumns, at: int) -> str:
    e = int(np.searchsorted(columns.start, at, side="right")) - 1
    return f"event {e}, attribute {schema.names[columns.attribute[at]]!r}"


def _check_names(schema: Schema, names: Iterable[str], unknown: Unknown) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaError(f"column {name!r} is there twice; keep one of them")
        seen.add(name)
        if name not in schema and unknown == "refuse":
            raise _unknown_attribute(schema, name)


def _unknown_attribute(schema: Schema, name: object) -> SchemaError:
    return SchemaError(
        f"no attribute is named {name!r}{suggestion(str(name), schema.names)} "
        "(unknown='ignore' passes over such attributes)"
    )
