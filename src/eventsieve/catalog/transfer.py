"""Bulk import and export: JSON lines and Parquet to and from columns, bad rows reported by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike, fspath
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eventsieve.catalog.edit import check_labels, check_owner
from eventsieve.catalog.ids import IdColumns, id_codes
from eventsieve.catalog.log import LABELS
from eventsieve.errors import DataError, EventsieveError, suggestion
from eventsieve.model.ids import checked_id
from eventsieve.model.jsonl import Source, read_objects
from eventsieve.model.report import LoadReport

_FIELDS: Final = ("id", "filter", "owner", "labels", "paused")
BATCH_SCHEMA: Final = pa.schema(
    [
        ("line", pa.int64()),
        ("id_number", pa.int64()),
        ("id_text", pa.string()),
        ("filter", pa.string()),
        ("owner", pa.string()),
        ("labels", LABELS),
        ("paused", pa.bool_()),
    ]
)


class RowsRefusedError(DataError):
    """A strict import had bad rows, so that nothing was imported."""


def read_jsonl(source: Source, report: LoadReport) -> pa.Table:
    """Return the good lines, `{"id": ..., "filter": "...", "owner": ..., "labels": {...}}`, as BATCH_SCHEMA."""
    columns: dict[str, list[Any]] = {name: [] for name in BATCH_SCHEMA.names}
    appends = [columns[name].append for name in BATCH_SCHEMA.names]
    for line, row in read_objects(source, report):
        try:
            values = _checked_row(line, row)
        except EventsieveError as problem:
            report.reject(line, _shown_id(row.get("id")), problem)
            continue
        for append, value in zip(appends, values, strict=True):
            append(value)
    return without_duplicates(pa.table(columns, schema=BATCH_SCHEMA), report)


def _checked_row(line: int, row: dict[str, Any]) -> tuple[Any, ...]:
    for name in row:
        if name not in _FIELDS:
            raise DataError(f"unknown field {name!r}{suggestion(name, _FIELDS)}")
    id, text, paused = checked_id(row.get("id")), row.get("filter"), row.get("paused", False)
    if not isinstance(text, str):
        raise DataError(f"a filter is a text, not {text!r} ({type(text).__name__})")
    if not isinstance(paused, bool):
        raise DataError(f"paused is true or false, not {paused!r}")
    labels = check_labels(row.get("labels"))
    is_text = isinstance(id, str)
    return (
        line,
        None if is_text else id,
        id if is_text else None,
        text,
        check_owner(row.get("owner")),
        None if labels is None else list(labels.items()),
        paused,
    )


def _shown_id(id: object) -> int | str | None:
    return id if isinstance(id, int | str) else None


def read_parquet(path: str | PathLike[str], report: LoadReport) -> pa.Table:
    """Return the good rows of a Parquet file or folder as BATCH_SCHEMA; a row's line is its number from 1."""
    try:
        table = pq.read_table(fspath(path))
    except (OSError, pa.ArrowException) as cause:
        raise DataError(f"cannot read subscriptions from {fspath(path)}: {cause}") from cause
    number, text = _id_columns(table, fspath(path))
    columns = {"line": pa.array(np.arange(1, len(table) + 1)), "id_number": number, "id_text": text}
    for name in ("filter", "owner", "labels", "paused"):
        columns[name] = _column(table, name, fspath(path))
    batch = pa.table(columns, schema=BATCH_SCHEMA)
    good = np.ones(len(batch), bool)
    ids = IdColumns.within(batch)
    no_id = ids.number.is_null().to_numpy() & ids.text.is_null().to_numpy()
    for row in np.flatnonzero(no_id | batch.column("filter").is_null().to_numpy()).tolist():
        good[row] = False
        report.reject(row + 1, None, "the row has no id" if no_id[row] else "the row has no filter")
    return without_duplicates(batch.filter(pa.array(good)), report)


def _id_columns(table: pa.Table, path: str) -> tuple[Any, Any]:
    """Return numbers and texts from one `id` column, or from the pair that an export of mixed ids has."""
    names = set(table.column_names)
    if "id" in names:
        ids = table.column("id")
        if pa.types.is_integer(ids.type):
            return ids.cast(pa.int64()), pa.nulls(len(ids), pa.string())
        if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
            return pa.nulls(len(ids), pa.int64()), ids.cast(pa.string())
        raise DataError(f"{path}: the column id holds {ids.type}; ids are integers or texts")
    if {"id_number", "id_text"} <= names:
        return table.column("id_number").cast(pa.int64()), table.column("id_text").cast(pa.string())
    raise DataError(f"{path} has no column 'id'; its columns are {', '.join(table.column_names)}")


def _column(table: pa.Table, name: str, path: str) -> Any:
    kind = BATCH_SCHEMA.field(name).type
    if name in table.column_names:
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowException as cause:
            raise DataError(f"{path}: the column {name!r} holds {table.column(name).type}, not {kind}") from cause
        return column.fill_null(False) if name == "paused" else column
    if name == "filter":
        raise DataError(f"{path} has no column 'filter'; its columns are {', '.join(table.column_names)}")
    return pa.array(np.zeros(len(table), bool)) if name == "paused" else pa.nulls(len(table), kind)


def without_duplicates(batch: pa.Table, report: LoadReport) -> pa.Table:
    """Keep the first row of every id and report the others."""
    codes, n_codes = id_codes(IdColumns.within(batch))
    first = np.full(n_codes, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    repeated = first[codes] != np.arange(len(codes))
    if not repeated.any():
        return batch
    lines = batch.column("line").to_numpy()
    rows = np.flatnonzero(repeated)
    ids = IdColumns.within(batch.take(rows)).to_list()
    for row, id in zip(rows.tolist(), ids, strict=True):
        report.reject(int(lines[row]), id, f"the id is already on line {lines[first[codes[row]]]}; keep one of them")
    return batch.filter(pa.array(~repeated))


def reject_rows(batch: pa.Table, bad: NDArray[np.bool_], reason: str, report: LoadReport) -> pa.Table:
    """Report the bad rows for one and the same reason and return the others."""
    if not bad.any():
        return batch
    rejected = batch.filter(pa.array(bad))
    for line, id in zip(rejected.column("line").to_pylist(), IdColumns.within(rejected).to_list(), strict=True):
        report.reject(line, id, reason)
    return batch.filter(pa.array(~bad))


def write_jsonl(rows: pa.Table, target: str | PathLike[str] | IO[str]) -> None:
    """Write state rows as the lines that `read_jsonl` reads."""
    if isinstance(target, str | PathLike):
        with open(target, "w", encoding="utf-8") as file:
            return write_jsonl(rows, file)
    for record in records(rows):
        target.write(json.dumps(record, ensure_ascii=False) + "\n")
    return None


def records(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield state rows as plain dicts; what is not set is left out."""
    for batch in rows.to_batches(max_chunksize=10_000):
        part = pa.Table.from_batches([batch])
        columns = [part.column(name).to_pylist() for name in ("filter", "owner", "labels", "paused")]
        for id, filter, owner, labels, paused in zip(IdColumns.within(part).to_list(), *columns, strict=True):
            record: dict[str, Any] = {"id": id, "filter": filter}
            if owner is not None:
                record["owner"] = owner
            if labels:
                record["labels"] = dict(labels)
            if paused:
                record["paused"] = True
            yield record


def write_parquet(rows: pa.Table, path: str | PathLike[str]) -> None:
    """Write state rows as a Parquet file: one `id` column, or a pair of columns where integers and texts are mixed."""
    ids = IdColumns.within(rows)
    columns = ["filter", "owner", "labels", "paused"]
    if ids.text.null_count == len(ids):
        table = rows.select(columns).add_column(0, "id", ids.number)
    elif ids.number.null_count == len(ids):
        table = rows.select(columns).add_column(0, "id", ids.text)
    else:
        table = rows.select(["id_number", "id_text", *columns])
    pq.write_table(table, fspath(path), compression="zstd")
