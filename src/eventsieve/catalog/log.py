"""The change log: a Delta table to which every change of the catalog is appended as rows, and nothing else happens.

Rows carry the version they were committed with, and a commit either takes exactly that version or fails. That makes
three things cheap: a state at any version is a filter on rows, whatever was compacted or cleaned since; a reader
that knows version v reads only files with newer rows; and a writer that decided on the state at version v
knows at its commit whether that was still the state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eventsieve.errors import CatalogError

try:
    from deltalake import (
        CommitProperties,
        DeltaTable,
        PostCommitHookProperties,
        Transaction,
        WriterProperties,
        write_deltalake,
    )
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ImportError as cause:
    raise CatalogError("the catalog needs the deltalake package: pip install 'eventsieve[catalog]'") from cause

FORMAT: Final = 1
OPERATIONS: Final = ("add", "replace", "remove", "pause", "resume", "schema")
ADD, REPLACE, REMOVE, PAUSE, RESUME, SCHEMA = range(len(OPERATIONS))

LABELS: Final = pa.map_(pa.string(), pa.string())
LOG_SCHEMA: Final = pa.schema(
    [
        ("version", pa.int64()),
        ("sequence", pa.int64()),  # the row's place in its commit
        ("operation", pa.string()),
        ("id_number", pa.int64()),
        ("id_text", pa.string()),
        ("filter", pa.string()),
        ("owner", pa.string()),
        ("labels", LABELS),
        ("time", pa.timestamp("us", "UTC")),
        ("author", pa.string()),
        ("schema", pa.string()),  # as JSON, where the operation is "schema"; a column of its own is quick to read
    ]
)
KEY_COLUMNS: Final = ("version", "sequence", "operation", "id_number", "id_text", "schema")
"""What is needed to know which ids there are; a small part of the bytes."""

_NAME: Final = "eventsieve catalog"
_COMPRESSED: Final = WriterProperties(compression="ZSTD")
# No work after a commit: if it failed, a change that was made would look as if it was not.
_NOTHING_AFTER: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class CommitConflictError(Exception):
    """Another writer has taken the version; read again, decide again."""


class ChangeLog:
    """One Delta table that is only appended to."""

    def __init__(self, path: Path, table: DeltaTable) -> None:
        self.path = path
        self._table = table

    @classmethod
    def create(cls, path: Path, rows: pa.Table) -> ChangeLog:
        """Make the table with its first rows as version 0, in one commit."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CatalogError(f"cannot create a catalog at {path}: it exists and is not an empty folder")
        try:
            write_deltalake(
                path,
                rows.cast(LOG_SCHEMA),
                mode="error",
                name=_NAME,
                description=f"Change log of subscriptions, format {FORMAT}.",
                configuration={"delta.appendOnly": "true"},
                writer_properties=_COMPRESSED,
            )
        except (DeltaError, OSError) as cause:
            raise CatalogError(f"cannot create a catalog at {path}: {cause}") from cause
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> ChangeLog:
        """Open what `create` made; raise CatalogError for anything else."""
        if not path.is_dir():
            raise CatalogError(
                f"there is no catalog at {path}, not even a folder; create one (Catalog.create, eventsieve sub create)"
            )
        try:
            table = DeltaTable(path)
            metadata = table.metadata()
        except TableNotFoundError as cause:
            raise CatalogError(
                f"{path} is a folder but not a catalog; create one first (Catalog.create, eventsieve sub create)"
            ) from cause
        except Exception as cause:  # a damaged log surfaces as any of several errors of the library
            raise _damaged(path, cause) from cause
        if metadata.name != _NAME:
            raise CatalogError(f"{path} is a Delta table but not a catalog; create one in another folder")
        found = re.search(r"format (\d+)", metadata.description or "")
        if found is None or int(found[1]) > FORMAT:
            raise CatalogError(
                f"the catalog at {path} has format {found[1] if found else 'unknown'}, "
                f"this version of eventsieve reads up to {FORMAT}; upgrade eventsieve"
            )
        return cls(path, table)

    @property
    def identity(self) -> str:
        """A name that no other catalog has, not even one made in the same folder later."""
        return str(self._table.metadata().id)

    def refresh(self) -> int:
        """Look at what others have committed; return the current version."""
        try:
            self._table.update_incremental()
        except Exception as cause:
            raise _damaged(self.path, cause) from cause
        return self.version

    @property
    def version(self) -> int:
        """The version this object knows of."""
        return int(self._table.version())

    def position(self, name: str) -> int | None:
        """Return how far a source of changes was read, as far as this object knows; None if it never was."""
        found = self._table.transaction_version(name)
        return None if found is None else int(found)

    def append(self, rows: pa.Table, positions: Mapping[str, int] | None = None) -> int:
        """Commit rows as the version after the known one; raise CommitConflictError if another writer has taken it.

        `positions` are committed with the rows; Delta keeps the newest of each name, whatever is compacted.
        """
        before = self.version
        stamped = rows.append_column("version", pa.array(np.full(len(rows), before + 1)))
        stamped = stamped.append_column("sequence", pa.array(np.arange(len(rows))))
        try:
            write_deltalake(
                self._table,
                stamped.select(LOG_SCHEMA.names).cast(LOG_SCHEMA),
                mode="append",
                writer_properties=_COMPRESSED,
                commit_properties=_exactly(positions or {}),
                post_commithook_properties=_NOTHING_AFTER,
            )
        except CommitFailedError as cause:
            if self.refresh() == before:
                raise CatalogError(f"cannot change the catalog at {self.path}: {cause}") from cause
            raise CommitConflictError from cause
        except (DeltaError, OSError) as cause:
            raise CatalogError(f"cannot change the catalog at {self.path}: {cause}") from cause
        return before + 1

    def read(self, columns: Sequence[str] = LOG_SCHEMA.names, after: int = -1, until: int | None = None) -> pa.Table:
        """Return the rows of versions after < v <= until in the order they were made."""
        last = self.version if until is None else until
        names = list(dict.fromkeys(("version", "sequence", *columns)))
        parts = [_between(self._read_file(file, names), after, last) for file in self._files(after, last)]
        empty = pa.schema([LOG_SCHEMA.field(name) for name in names]).empty_table()
        return _in_order(pa.concat_tables([empty, *parts])).select(list(columns))

    def _files(self, after: int, until: int) -> list[Path]:
        """Return the files that hold rows of these versions, going by the table's own statistics."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        chosen = pc.and_(
            pc.greater(pc.fill_null(actions.column("max.version"), until), after),
            pc.less_equal(pc.fill_null(actions.column("min.version"), 0), until),
        )
        return [self.path / name for name in actions.column("path").filter(chosen).to_pylist()]

    def _read_file(self, file: Path, names: list[str]) -> pa.Table:
        try:
            table = pq.ParquetFile(file).read(columns=names)
            return table.select(names).cast(pa.schema([LOG_SCHEMA.field(name) for name in names]))
        except (OSError, pa.ArrowException, KeyError) as cause:
            raise _damaged(self.path, cause) from cause

    @property
    def n_files(self) -> int:
        return len(self._table.file_uris())

    def compact(self, target_bytes: int) -> None:
        """Merge files smaller than the target and write a checkpoint; no row is lost, no version becomes unreadable."""
        try:
            self._table.optimize.compact(target_size=target_bytes, writer_properties=_COMPRESSED)
            self._table.update_incremental()
            self._table.create_checkpoint()
        except (DeltaError, OSError) as cause:
            raise CatalogError(f"cannot compact the catalog at {self.path}: {cause}") from cause


def _exactly(positions: Mapping[str, int]) -> CommitProperties:
    """Zero retries: a commit at any version but the next one fails instead of sliding behind the others' commits."""
    return CommitProperties(
        max_commit_retries=0, app_transactions=[Transaction(name, at) for name, at in positions.items()]
    )


def _between(rows: pa.Table, after: int, until: int) -> pa.Table:
    version = rows.column("version")
    return rows.filter(pc.and_(pc.greater(version, after), pc.less_equal(version, until)))


def _in_order(rows: pa.Table) -> pa.Table:
    """Return each row once, by version and sequence.

    Merges of files that overlap in time, on two machines, are not seen as a conflict by the table: it takes both,
    and has the merged rows twice.
    """
    version, sequence = (rows.column(name).to_numpy() for name in ("version", "sequence"))
    if _rises(version, sequence).all():
        return rows
    order = np.lexsort((sequence, version))
    first_of_its_place = np.append(True, _rises(version[order], sequence[order]))
    return rows.take(order[first_of_its_place])


def _rises(version: NDArray[np.int64], sequence: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each row but the first whether it stands behind the row before it."""
    risen: NDArray[np.bool_] = (version[1:] > version[:-1]) | (
        (version[1:] == version[:-1]) & (sequence[1:] > sequence[:-1])
    )
    return risen


def _damaged(path: Path, cause: Any) -> CatalogError:
    return CatalogError(f"the catalog at {path} is damaged: {cause}; restore the folder from a copy")
