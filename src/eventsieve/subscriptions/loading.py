"""Many filter texts at once: plain conjunctions by the bulk compiler, whatever else there is one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.errors import DataError, EventsieveError
from eventsieve.language.bulk import BulkResult, compile_bulk
from eventsieve.model.clause import Clause
from eventsieve.model.columns import ClauseTable
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadReport
from eventsieve.subscriptions.rows import Rows

if TYPE_CHECKING:
    from eventsieve.subscriptions.collection import Subscriptions


def add_rows(subs: Subscriptions, rows: Rows, report: LoadReport, strict: bool = False) -> LoadReport:
    """Add subscriptions by rows; what is wrong with a row is reported under its line.

    All are compiled before the first is added, so a strict load that fails has changed nothing.
    """
    row_of_id = _rows_with_new_ids(subs, rows, report)
    lines, _, texts = rows
    ids = list(row_of_id)
    if len(ids) < len(lines):
        kept = list(row_of_id.values())
        lines, texts = [lines[row] for row in kept], texts.take(pa.array(kept, pa.int64()))
    bulk = compile_bulk(texts, subs.schema, subs.codes)
    singly: dict[int, tuple[str, list[Clause]]] = {}
    for row in np.flatnonzero(~bulk.handled).tolist():
        text = texts[row].as_py()
        try:
            singly[row] = text, subs.compile(text)
        except EventsieveError as problem:
            report.reject(lines[row], ids[row], problem)
    plain = np.flatnonzero(bulk.handled)
    report.added += len(plain) + len(singly)
    report.problems.sort(key=lambda problem: problem.line)
    report.close(strict)
    begin = 0
    # Runs of plain rows between the others, so that subscriptions keep the order in which they came.
    for row, (text, clauses) in singly.items():
        stop = int(np.searchsorted(plain, row))
        _append_run(subs, ids, texts, bulk, plain[begin:stop])
        subs.put(ids[row], text, clauses)
        begin = stop
    _append_run(subs, ids, texts, bulk, plain[begin:])
    return report


def _rows_with_new_ids(subs: Subscriptions, rows: Rows, report: LoadReport) -> dict[Id, int]:
    """Return the ids that are acceptable and new and have a text at all, with their rows."""
    lines, ids, texts = rows
    row_of: dict[Id, int] = {}
    present = texts.is_valid().to_numpy(zero_copy_only=False) if texts.null_count else np.ones(len(texts), bool)
    for row, given in enumerate(ids):
        try:
            id = subs.new_id(given)
            if id in row_of:
                raise DataError(f"the id {id!r} is already on line {lines[row_of[id]]}; keep one of them")
            if not present[row]:
                raise DataError("a filter is a text, not null")
            row_of[id] = row
        except EventsieveError as problem:
            report.reject(lines[row], given if isinstance(given, int | str) else None, problem)
    return row_of


def _append_run(
    subs: Subscriptions, ids: Sequence[Id], texts: pa.LargeStringArray, bulk: BulkResult, rows: NDArray[np.int64]
) -> None:
    if len(rows):
        table = ClauseTable(bulk.start[rows], bulk.stop[rows], bulk.attribute, bulk.low, bulk.high)
        chosen = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
        subs.append_columns([ids[row] for row in rows.tolist()], table, chosen)
