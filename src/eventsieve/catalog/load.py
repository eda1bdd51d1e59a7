"""From the catalog's rows of texts to `Subscriptions`."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventsieve.catalog.ids import IdColumns
from eventsieve.errors import CatalogError, EventsieveError
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadReport, LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions
from eventsieve.subscriptions.loading import add_rows
from eventsieve.subscriptions.rows import Rows


class Refusal(NamedTuple):
    """A row whose filter is not acceptable."""

    row: int
    id: Id
    reason: str


def load_rows(schema: Schema, rows: pa.Table) -> Subscriptions:
    """Compile rows that the catalog has accepted before."""
    subscriptions, refusals = _compiled(schema, rows)
    if refusals:
        raise _unreadable(refusals[0].id, refusals[0].reason)
    return subscriptions


def apply_changes(subscriptions: Subscriptions, changes: pa.Table) -> None:
    """Bring a collection from one version to another by the net changes between them."""
    kind = changes.column("change")
    for id in IdColumns.within(changes.filter(pc.not_equal(kind, "added"))).to_list():
        subscriptions.remove(id)
    written = changes.filter(pc.not_equal(kind, "removed"))
    for id, text in zip(IdColumns.within(written).to_list(), written.column("filter").to_pylist(), strict=True):
        try:
            subscriptions.add(id, text)
        except EventsieveError as cause:
            raise _unreadable(id, str(cause)) from cause


def checked_batch(schema: Schema, batch: pa.Table, report: LoadReport) -> tuple[pa.Table, Subscriptions]:
    """Compile a batch of new rows; report those with a bad filter, return the others and their compiled form."""
    subscriptions, refusals = _compiled(schema, batch)
    if not refusals:
        return batch, subscriptions
    good = np.ones(len(batch), bool)
    lines = batch.column("line").to_numpy()
    for row, id, reason in refusals:
        good[row] = False
        report.reject(int(lines[row]), id, reason)
    return batch.filter(pa.array(good)), subscriptions


def _compiled(schema: Schema, rows: pa.Table) -> tuple[Subscriptions, list[Refusal]]:
    """Compile rows of different ids; return the collection of the good ones, and the others with the reason."""
    subscriptions = Subscriptions(schema)
    ids = IdColumns.within(rows).to_list()
    texts = rows.column("filter").cast(pa.large_string()).combine_chunks()
    report = LoadReport("the catalog")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # the caller says what was refused
        add_rows(subscriptions, Rows(range(len(rows)), ids, texts), report)
    return subscriptions, [Refusal(problem.line, ids[problem.line], problem.reason) for problem in report.problems]


def _unreadable(id: Id, reason: str) -> CatalogError:
    return CatalogError(
        f"the catalog has a filter that this version of eventsieve cannot read, that of {id!r}: {reason}; "
        "upgrade eventsieve, or replace the filter"
    )
