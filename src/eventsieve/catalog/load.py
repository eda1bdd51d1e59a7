"""From rows of texts to `Subscriptions`: plain conjunctions all at once, whatever else there is one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.catalog.ids import IdColumns
from eventsieve.errors import CatalogError, EventsieveError
from eventsieve.language.bulk import compile_bulk
from eventsieve.model.ids import Id, Ids
from eventsieve.model.report import LoadReport
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions
from eventsieve.subscriptions.strings import stored_ids, stored_texts


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
    empty = Subscriptions(schema)
    texts = rows.column("filter").cast(pa.large_string()).combine_chunks()
    result = compile_bulk(texts, schema, empty.codes)
    handled = np.flatnonzero(result.handled)
    slots = np.arange(len(handled), dtype=np.int32)
    meta, arrays = empty.to_arrays()
    arrays |= {
        "start": result.start[handled],
        "stop": result.stop[handled],
        "attribute": result.attribute,
        "low": result.low,
        "high": result.high,
        "subscription_of_clause": slots,
        "first_clause": slots.copy(),
        "next_clause": np.full(len(slots), -1, np.int32),
    }
    ids = IdColumns.within(rows)
    arrays |= stored_texts("texts", texts.take(pa.array(handled)))
    arrays |= stored_ids(Ids.from_values(_id_array(ids.take(handled))))
    subscriptions = Subscriptions.from_stored(meta, arrays)
    return subscriptions, _add_singly(subscriptions, ids, texts, np.flatnonzero(~result.handled))


def _add_singly(
    subscriptions: Subscriptions, ids: IdColumns, texts: pa.LargeStringArray, rows: NDArray[np.int64]
) -> list[Refusal]:
    """Parse and add the rows that need more than one clause or a residual; return those that are wrong."""
    refusals = []
    given = zip(rows.tolist(), ids.take(rows).to_list(), texts.take(pa.array(rows)).to_pylist(), strict=True)
    for row, id, text in given:
        try:
            subscriptions.add(id, text)
        except EventsieveError as problem:
            refusals.append(Refusal(row, id, str(problem)))
    return refusals


def _id_array(ids: IdColumns) -> NDArray[np.int64] | NDArray[np.object_]:
    if ids.number.null_count == 0:
        return np.array(ids.number.to_numpy())
    values = np.empty(len(ids), object)
    values[:] = ids.to_list()
    return values


def _unreadable(id: Id, reason: str) -> CatalogError:
    return CatalogError(
        f"the catalog has a filter that this version of eventsieve cannot read, that of {id!r}: {reason}; "
        "upgrade eventsieve, or replace the filter"
    )
