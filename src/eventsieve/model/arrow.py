"""Arrow columns to matched numbers, a column at a time: no Python object per event.

A row with a value that cannot be matched is left out and reported; the others go on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.errors import SchemaError
from eventsieve.model.codes import Codes
from eventsieve.model.columns import EventColumns, flat
from eventsieve.model.report import LoadReport
from eventsieve.model.schema import Schema
from eventsieve.model.types import LARGEST_EXACT, Bool, Float, Int, Text, Time

_EXPECTED = {"float": "numbers", "int": "whole numbers", "bool": "booleans", "time": "times", "text": "texts"}


def event_columns(
    schema: Schema, table: pa.Table | pa.RecordBatch, report: LoadReport
) -> tuple[EventColumns, Codes, NDArray[np.int64] | None]:
    """Return the columns, the batch's own codes and, if rows were left out, the row (from 1) of each event."""
    codes = Codes()
    names = [name for name in table.schema.names if name in schema]
    order = sorted(schema.position(name) for name in names)
    n_rows = table.num_rows
    value = np.empty((n_rows, len(order)))
    present = np.ones((n_rows, len(order)), bool)
    bad = np.zeros(n_rows, bool)
    for rank, a in enumerate(order):
        column = table.column(schema.names[a])
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if column.null_count:
            present[:, rank] = column.is_valid().to_numpy(zero_copy_only=False)
        numbers, reason_of_row = _numbers(schema, a, column, codes)
        value[:, rank] = numbers
        for row, reason in reason_of_row.items():
            if not bad[row]:
                bad[row] = True
                report.reject(row + 1, None, f"attribute {schema.names[a]!r}: {reason}")
    report.problems.sort(key=lambda problem: problem.line)
    lines = None
    if bad.any():
        kept = np.flatnonzero(~bad)
        value, present, lines = value[kept], present[kept], kept + 1
    start = np.zeros(value.shape[0] + 1, np.int64)
    attribute = np.broadcast_to(np.array(order, np.int32), value.shape)
    if present.all():
        start[1:] = np.arange(1, value.shape[0] + 1) * len(order)
        return EventColumns(start, flat(attribute.ravel(), np.int32), value.ravel()), codes, lines
    np.cumsum(present.sum(axis=1), out=start[1:])
    return EventColumns(start, attribute[present], value[present]), codes, lines


def _numbers(schema: Schema, a: int, column: pa.Array, codes: Codes) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Return a column's matched numbers (anything where it is null) and the reason for each bad row."""
    kind = schema.types[a]
    if pa.types.is_null(column.type):
        return np.zeros(len(column)), {}
    if pa.types.is_dictionary(column.type) and not isinstance(kind, Text):
        column = column.dictionary_decode()
    if isinstance(kind, Text) and _is_text(column.type):
        return _text_codes(a, column, codes), {}
    if isinstance(kind, Bool) and pa.types.is_boolean(column.type):
        return _filled(column.cast(pa.int8())), {}
    if isinstance(kind, Float) and _is_number(column.type):
        return _finite(_filled(column.cast(pa.float64(), safe=False)))
    if isinstance(kind, Int) and pa.types.is_integer(column.type):
        return _whole(a, column, codes)
    if isinstance(kind, Int) and _is_number(column.type):
        return _whole_floats(_filled(column.cast(pa.float64())))
    if isinstance(kind, Time):
        found = _micros(kind, column)
        if found is not None:
            return found
    raise SchemaError(
        f"column {schema.names[a]!r} holds {column.type}, but the attribute of that name takes {_EXPECTED[kind.kind]}; "
        "cast the column, or declare the attribute otherwise"
    )


def _filled(column: pa.Array) -> NDArray[np.float64]:
    """Return float64 numbers with zeros for nulls."""
    found = column.fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.float64)


def _finite(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], dict[int, str]]:
    bad = np.flatnonzero(~np.isfinite(numbers))
    return numbers + 0.0, {int(row): f"a finite number is needed, not {numbers[row]}" for row in bad}


def _whole_floats(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], dict[int, str]]:
    bad = np.flatnonzero((numbers != np.floor(numbers)) | ~(np.abs(numbers) <= LARGEST_EXACT))
    return numbers + 0.0, {int(row): f"a whole number within 2**53 is needed, not {numbers[row]}" for row in bad}


def _whole(a: int, column: pa.Array, codes: Codes) -> tuple[NDArray[np.float64], dict[int, str]]:
    whole = column.fill_null(0).to_numpy(zero_copy_only=False)
    numbers = whole.astype(np.float64)
    # Compared as integers: the conversion to float64 is what cannot be trusted near 2**53.
    big = np.flatnonzero((whole > LARGEST_EXACT) | (whole < -LARGEST_EXACT)) if whole.dtype.itemsize == 8 else ()
    for row in big:
        numbers[row] = codes.assign(a, int(whole[row]))
    return numbers, {}


def _text_codes(a: int, column: pa.Array, codes: Codes) -> NDArray[np.float64]:
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    code_of_entry = np.zeros(len(encoded.dictionary) + 1)
    for entry, text in enumerate(encoded.dictionary.to_pylist()):
        if text is not None:
            code_of_entry[entry] = codes.assign(a, text)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = code_of_entry[indices]
    return found


def _micros(kind: Time, column: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]] | None:
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        whole = micros.fill_null(0).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero((whole > LARGEST_EXACT) | (whole < -LARGEST_EXACT))
        return whole.astype(np.float64), {
            int(row): "outside the years 1684 to 2255 that microseconds cover exactly" for row in bad
        }
    if _is_text(column.type) or _is_number(column.type):
        return _each_distinct(kind, column)
    return None


def _each_distinct(kind: Time, column: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Convert through Python, once per distinct value."""
    encoded = pc.dictionary_encode(column)
    numbers = np.zeros(len(encoded.dictionary) + 1)
    reason_of_entry: dict[int, str] = {}
    for entry, given in enumerate(encoded.dictionary.to_pylist()):
        try:
            numbers[entry] = kind.number(given)
        except ValueError as cause:
            reason_of_entry[entry] = str(cause)
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(np.isin(indices, list(reason_of_entry))) if reason_of_entry else ()
    found: NDArray[np.float64] = numbers[indices]
    return found, {int(row): reason_of_entry[int(indices[row])] for row in bad}


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
