"""A catalog kept in step with a source of changes elsewhere: what the source says last about an id is what holds.

How far the source was read is committed with the changes themselves, so that neither is ever there without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.catalog.ids import IdColumns
from eventsieve.catalog.log import LABELS
from eventsieve.catalog.state import ABSENT, PAUSED
from eventsieve.errors import CatalogError
from eventsieve.model.ids import Id
from eventsieve.model.report import LoadReport


@dataclass(frozen=True)
class Moved:
    """How far a source was read before and is now; None before stands for not at all."""

    before: int | None
    after: int


@dataclass(frozen=True)
class Mirrored:
    """What became of a group of changes. Lines of the report are places among what was to be written, from 1."""

    version: int
    written: int
    removed: int
    report: LoadReport
    committed: bool
    """Whether there was anything to commit; positions are kept only then."""


def check_positions(positions: Mapping[str, Moved], stored: Callable[[str], int | None]) -> None:
    """Raise CatalogError if somebody else has read on meanwhile."""
    for name, moved in positions.items():
        if stored(name) != moved.before:
            raise CatalogError(
                f"{name} was read to {moved.before} when these changes were taken, and the catalog has {stored(name)} "
                "now: another process follows the same source; stop one of the two"
            )


def mirrored_rows(
    batch: pa.Table, status: NDArray[np.int8], removals: Sequence[Id], removal_status: NDArray[np.int8]
) -> pa.Table:
    """Return log rows that make the ids of a batch what it says, and the removed ones absent, whatever they are now."""
    taken, paused = status != ABSENT, batch.column("paused").to_numpy()
    written = batch.select(["id_number", "id_text", "filter"])
    written = written.append_column("owner", pa.array(_named(batch, "owner", taken, ""), pa.string()))
    written = written.append_column("labels", pa.array(_named(batch, "labels", taken, []), LABELS))
    written = written.append_column("operation", pa.array(["add", "replace"]).take(pa.array(taken.astype(np.int8))))
    gone = IdColumns.of([id for id, at in zip(removals, removal_status.tolist(), strict=True) if at != ABSENT])
    parts = [
        written,
        _alone("resume", IdColumns.within(batch.filter(pa.array(~paused & (status == PAUSED))))),
        _alone("pause", IdColumns.within(batch.filter(pa.array(paused & (status != PAUSED))))),
        _alone("remove", gone),
    ]
    rows = pa.concat_tables(parts, promote_options="default")
    return rows.append_column("schema", pa.nulls(len(rows), pa.string()))


def _named(batch: pa.Table, column: str, taken: NDArray[np.bool_], nothing: Any) -> list[Any]:
    """Return a column in which a replaced subscription that names nothing has nothing, instead of what it had."""
    values = batch.column(column).to_pylist()
    return [nothing if value is None and old else value for value, old in zip(values, taken.tolist(), strict=True)]


def _alone(operation: str, ids: IdColumns) -> pa.Table:
    """Return log rows that need nothing but an id."""
    names = pa.repeat(pa.scalar(operation), len(ids))
    return pa.table({"id_number": ids.number, "id_text": ids.text, "operation": names})
