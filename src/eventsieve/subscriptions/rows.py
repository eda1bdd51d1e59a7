"""Subscriptions as rows of an id and a filter text: JSON lines, Arrow tables, Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import pyarrow as pa

from eventsieve.errors import DataError, SchemaError, suggestion
from eventsieve.model.jsonl import Source, read_objects
from eventsieve.model.report import LoadReport

_FIELDS = ("id", "filter")


class Rows(NamedTuple):
    """What was read, with the lines it is reported by. Ids are not checked yet, and a text may be missing."""

    lines: Sequence[int]
    ids: Sequence[Any]
    texts: pa.LargeStringArray


def jsonl_rows(source: Source, report: LoadReport) -> Rows:
    """Read JSON lines; those that are no rows are reported."""
    lines, ids, texts = [], [], []
    for line, row in read_objects(source, report):
        more = sorted(set(row) - set(_FIELDS))
        text = row.get("filter")
        if more:
            report.reject(line, row.get("id"), f"unknown field {more[0]!r}{suggestion(more[0], _FIELDS)}")
        elif text is not None and not isinstance(text, str):
            report.reject(line, row.get("id"), f"a filter is a text, not {text!r} ({type(text).__name__})")
        else:
            lines.append(line)
            ids.append(row.get("id"))
            texts.append(text)
    return Rows(lines, ids, pa.array(texts, pa.large_string()))


def table_rows(table: pa.Table) -> Rows:
    """Take the rows of a table."""
    for name in _FIELDS:
        if name not in table.column_names:
            raise SchemaError(f"the table has no column {name!r}; its columns are {', '.join(table.column_names)}")
    try:
        texts = table["filter"].cast(pa.large_string()).combine_chunks()
    except pa.ArrowInvalid as cause:
        raise SchemaError(f"the column 'filter' holds {table['filter'].type}, not texts") from cause
    return Rows(range(1, table.num_rows + 1), table["id"].to_pylist(), texts)


def read_parquet(path: str | PathLike[str]) -> pa.Table:
    """Read the two columns of a Parquet file or folder."""
    import pyarrow.parquet as pq

    try:
        return pq.read_table(fspath(path), columns=list(_FIELDS))
    except (OSError, pa.ArrowException) as cause:
        raise DataError(f"cannot read subscriptions from {fspath(path)}: {cause}") from cause
