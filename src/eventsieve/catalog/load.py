"""From rows of texts to `Subscriptions`, in bulk."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.catalog.ids import IdColumns
from eventsieve.errors import CatalogError, DataError
from eventsieve.model.report import LoadReport, LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions


def load_rows(schema: Schema, rows: pa.Table) -> Subscriptions:
    """Compile rows that the catalog has accepted before."""
    subscriptions = Subscriptions(schema)
    _add(subscriptions, rows)
    return subscriptions


def apply_changes(subscriptions: Subscriptions, changes: pa.Table) -> None:
    """Bring a collection from one version to another by the net changes between them."""
    kind = changes.column("change")
    gone = changes.filter(pc.not_equal(kind, "added"))
    for id in IdColumns.within(gone).to_list():
        subscriptions.remove(id)
    _add(subscriptions, changes.filter(pc.not_equal(kind, "removed")))


def _add(subscriptions: Subscriptions, rows: pa.Table) -> None:
    for _, part in _by_id_type(rows):
        try:
            subscriptions.add_arrow(part, strict=True)
        except DataError as cause:
            raise CatalogError(
                "the catalog has filters that this version of eventsieve cannot read; upgrade eventsieve, "
                f"or replace them: {cause}"
            ) from cause


def checked_batch(schema: Schema, batch: pa.Table, report: LoadReport) -> tuple[pa.Table, Subscriptions]:
    """Compile a batch of new rows; report those with a bad filter, return the others and their compiled form."""
    subscriptions = Subscriptions(schema)
    good = np.ones(len(batch), bool)
    lines = batch.column("line").to_numpy()
    for rows, part in _by_id_type(batch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoadWarning)  # the import's own report says it, with the source's lines
            loaded = subscriptions.add_arrow(part, strict=False)
        for problem in loaded.problems:
            row = rows[problem.line - 1]
            good[row] = False
            report.reject(int(lines[row]), problem.id, problem.reason)
    return batch.filter(pa.array(good)), subscriptions


def _by_id_type(rows: pa.Table) -> list[tuple[NDArray[np.int64], pa.Table]]:
    """Return (row numbers, table of id and filter) for integer ids and for text ids: a column has one type."""
    parts = []
    for name in ("id_number", "id_text"):
        chosen = np.flatnonzero(rows.column(name).is_valid().to_numpy())
        if chosen.size:
            picked = rows if chosen.size == len(rows) else rows.take(chosen)
            parts.append((chosen, pa.table({"id": picked.column(name), "filter": picked.column("filter")})))
    return parts
