"""Many filter texts at once: plain conjunctions by the bulk compiler, whatever else there is one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eventsieve.errors import DataError, EventsieveError
from eventsieve.language.bulk import compile_bulk
from eventsieve.model.clause import Clause
from eventsieve.model.columns import ClauseTable
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadReport

if TYPE_CHECKING:
    from eventsieve.subscriptions.collection import Subscriptions


def add_rows(
    subs: Subscriptions, rows: list[tuple[int, Any, Any]], report: LoadReport, strict: bool = False
) -> LoadReport:
    """Add rows of (line, id, text). All are compiled before the first is added: a strict load is all or nothing."""
    ready = _with_new_ids(subs, rows, report)
    texts = pa.array([text for _, _, text in ready], pa.large_string())
    bulk = compile_bulk(texts, subs.schema, subs.codes)
    singly: dict[int, list[Clause]] = {}
    for row in np.flatnonzero(~bulk.handled).tolist():
        line, id, text = ready[row]
        try:
            singly[row] = subs.compile(text)
        except EventsieveError as problem:
            report.reject(line, id, problem)
    handled = np.flatnonzero(bulk.handled)
    report.added += len(handled) + len(singly)
    report.problems.sort(key=lambda problem: problem.line)
    report.close(strict)
    if not singly:
        # One go, and the common case. Otherwise runs of plain rows between the others, so that slots keep the order.
        _append_run(subs, ready, texts, bulk, handled)
        return report
    begin = 0
    for row, clauses in singly.items():
        _append_run(subs, ready, texts, bulk, handled[begin : (begin := int(np.searchsorted(handled, row)))])
        subs.put(ready[row][1], ready[row][2], clauses)
    _append_run(subs, ready, texts, bulk, handled[begin:])
    return report


def _with_new_ids(
    subs: Subscriptions, rows: list[tuple[int, Any, Any]], report: LoadReport
) -> list[tuple[int, Id, str]]:
    """Return the rows whose id is acceptable and new, and that have a text at all."""
    ready = []
    line_of: dict[Id, int] = {}
    for line, given, text in rows:
        try:
            id = subs.new_id(given)
            if id in line_of:
                raise DataError(f"the id {id!r} is already on line {line_of[id]}; keep one of them")
            if not isinstance(text, str):
                raise DataError(f"a filter is a text, not {text!r} ({type(text).__name__})")
        except EventsieveError as problem:
            report.reject(line, given if isinstance(given, int | str) else None, problem)
            continue
        line_of[id] = line
        ready.append((line, id, text))
    return ready


def _append_run(subs: Subscriptions, ready: list[tuple[int, Id, str]], texts: pa.Array, bulk: Any, rows: Any) -> None:
    if len(rows):
        table = ClauseTable(bulk.start[rows], bulk.stop[rows], bulk.attribute, bulk.low, bulk.high)
        subs.append_columns([ready[row][1] for row in rows], table, texts.take(pa.array(rows)))
