"""The catalog: where subscriptions live, durable, versioned, and safe under many writers at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.catalog import transfer
from eventsieve.catalog.cache import OpenCache
from eventsieve.catalog.edit import Edit
from eventsieve.catalog.ids import IdColumns
from eventsieve.catalog.load import apply_changes, checked_batch, load_rows
from eventsieve.catalog.lock import writer_lock
from eventsieve.catalog.log import KEY_COLUMNS, LOG_SCHEMA, OPERATIONS, ChangeLog, CommitConflictError
from eventsieve.catalog.mirror import Mirrored, Moved, check_positions, mirrored_rows
from eventsieve.catalog.schemas import schema_at
from eventsieve.catalog.state import ABSENT, CHANGE_NAMES, REMOVED, net_changes, state_table, statuses
from eventsieve.errors import CatalogError, DataError
from eventsieve.model.ids import Id
from eventsieve.model.jsonl import Source, source_name
from eventsieve.model.report import LoadReport
from eventsieve.model.schema import Schema
from eventsieve.model.types import AttributeType
from eventsieve.subscriptions import Subscriptions

_ATTEMPTS: Final = 100
_LONGEST_PAUSE: Final = 0.2
"""Seconds between attempts, at most: only writers on other machines make a second attempt necessary."""
_MERGE_EVERY: Final = 64
"""Versions between two merges of small files: each file costs a reader about a millisecond."""
_MOST_CHUNKS: Final = 64
_SMALL_FILE: Final = 8 << 20
_LARGE_FILE: Final = 128 << 20
_WORTH_CACHING: Final = 1_000
"""Filters parsed at an opening before their compiled form is kept."""
_FEW_CHANGES: Final = 5_000
"""Changes that are applied one by one to what is cached; beyond, compiling everything at once is quicker."""
_OWN_FOLDER: Final = "_eventsieve"
"""Beside the table's files; Delta ignores names that begin with an underscore."""


@dataclass(frozen=True)
class HistoryEntry:
    """One version: when, by whom, and how many rows of each operation."""

    version: int
    time: datetime
    author: str | None
    operations: dict[str, int] = field(default_factory=dict)


class Catalog:
    """Subscriptions in a folder. Every change is a version, and every version can be read.

    >>> import tempfile
    >>> from eventsieve.model.types import Float
    >>> catalog = Catalog.create(tempfile.mkdtemp(), Schema({"price": Float()}))
    >>> with catalog.edit(author="ann") as edit:
    ...     edit.add("cheap", "price < 10", owner="ann")
    ...     edit.add(7, "price > 100", labels={"team": "risk"})
    >>> catalog.pause(7)
    2
    >>> catalog.subscriptions().ids.tolist(), catalog.subscriptions(version=1).ids.tolist()
    (['cheap'], ['cheap', 7])
    """

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._mutex = threading.RLock()
        self._keys = LOG_SCHEMA.empty_table().select(list(KEY_COLUMNS))
        self._keys_version = -1
        self._cache = OpenCache(log.path / _OWN_FOLDER / "open", log.identity)

    @classmethod
    def create(cls, path: str | PathLike[str], schema: Schema, author: str | None = None) -> Catalog:
        """Make an empty catalog in a new or empty folder, in one atomic step."""
        edit = Edit(Schema({}))
        edit.grow_schema(schema)
        first = _stamped(edit.to_rows(Schema({})), author)
        first = first.append_column("version", pa.array([0])).append_column("sequence", pa.array([0]))
        return cls(ChangeLog.create(Path(path), first.select(LOG_SCHEMA.names)))

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Catalog:
        """Open an existing catalog; raise CatalogError if there is none, or none that this version can read."""
        return cls(ChangeLog.open(Path(path)))

    def __repr__(self) -> str:
        return f"<catalog at {self.path}>"

    @property
    def path(self) -> Path:
        return self._log.path

    @property
    def version(self) -> int:
        """The newest version, with what other writers have committed until now."""
        with self._mutex:
            return self._log.refresh()

    @property
    def schema(self) -> Schema:
        """The schema in force now."""
        return self.schema_at(None)

    def schema_at(self, version: int | None) -> Schema:
        """Return the schema in force at a version; None is the newest."""
        with self._mutex:
            at = self._existing(version)
            return schema_at(self._refreshed_keys(), at)

    # -- changing ----------------------------------------------------------------------------------------

    @contextmanager
    def edit(self, author: str | None = None) -> Iterator[Edit]:
        """Group changes into one commit: all of them or, if anything does not fit or fails, none."""
        edit = Edit(self.schema)
        yield edit
        if edit.changes:
            edit.version = self._commit(lambda: self._checked_edit(edit), author)

    def add(
        self,
        id: Id,
        filter: str,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        author: str | None = None,
    ) -> int:
        """Add a subscription under a new id; return the version that has it."""
        return self._single(author, lambda edit: edit.add(id, filter, owner, labels))

    def replace(
        self,
        id: Id,
        filter: str,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        author: str | None = None,
    ) -> int:
        """Give an id another filter; the owner and labels stay unless they are given."""
        return self._single(author, lambda edit: edit.replace(id, filter, owner, labels))

    def remove(self, id: Id, author: str | None = None) -> int:
        """Take a subscription out; older versions still have it."""
        return self._single(author, lambda edit: edit.remove(id))

    def pause(self, id: Id, author: str | None = None) -> int:
        """Keep a subscription but stop matching it."""
        return self._single(author, lambda edit: edit.pause(id))

    def resume(self, id: Id, author: str | None = None) -> int:
        """Match a paused subscription again."""
        return self._single(author, lambda edit: edit.resume(id))

    def grow_schema(self, attributes: Mapping[str, AttributeType], author: str | None = None) -> int:
        """Add attributes behind the present ones, whose types cannot change."""
        return self._single(author, lambda edit: edit.grow_schema(attributes))

    def _single(self, author: str | None, change: Callable[[Edit], None]) -> int:
        with self.edit(author) as edit:
            change(edit)
        assert edit.version is not None
        return edit.version

    def _checked_edit(self, edit: Edit) -> pa.Table:
        """Return the edit's rows if they fit the state as it is now."""
        keys = self._refreshed_keys()
        asked = edit.ids()
        edit.check_against(dict(zip(asked.to_list(), statuses(keys, asked).tolist(), strict=True)))
        return edit.to_rows(schema_at(keys, self._log.version))

    def _commit(
        self, decide: Callable[[], pa.Table], author: str | None, positions: Mapping[str, int] | None = None
    ) -> int:
        """Append what `decide` returns for the newest state; decide again if another writer was quicker."""
        with self._mutex, writer_lock(self.path / _OWN_FOLDER / "writer.lock"):
            for attempt in range(_ATTEMPTS):
                self._log.refresh()
                rows = decide()
                if not len(rows):
                    return self._log.version
                try:
                    version = self._log.append(_stamped(rows, author), positions)
                except CommitConflictError:
                    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))
                    continue
                self._tidy(version)
                return version
        raise CatalogError(
            f"cannot change the catalog at {self.path}: other writers were quicker {_ATTEMPTS} times in a row; "
            "group small edits with Catalog.edit(), then try again"
        )

    def _tidy(self, version: int) -> None:
        """Merge small files now and then, so that opening stays fast whatever the number of edits.

        A version is taken by exactly one writer, so going by its number makes one writer merge and the others not.
        """
        if version % _MERGE_EVERY == 0:
            # The change itself is committed: that tidying up failed must not look as if it was not.
            with suppress(CatalogError):
                self._log.compact(_SMALL_FILE)

    def compact(self) -> None:
        """Merge the log's files and write a checkpoint; every version stays readable."""
        with self._mutex, writer_lock(self.path / _OWN_FOLDER / "writer.lock"):
            self._log.refresh()
            self._log.compact(_LARGE_FILE)

    # -- bulk --------------------------------------------------------------------------------------------

    def import_jsonl(
        self, source: Source, strict: bool = False, replace: bool = False, author: str | None = None
    ) -> LoadReport:
        """Add JSON lines, `{"id": ..., "filter": "...", "owner": ..., "labels": {...}}`, as one version.

        Bad rows are reported by line and left out; `strict` refuses everything instead. An id that is there already is
        a bad row unless `replace` is set.
        """
        report = LoadReport(source_name(source))
        return self._import(transfer.read_jsonl(source, report), report, strict, replace, author)

    def import_parquet(
        self, path: str | PathLike[str], strict: bool = False, replace: bool = False, author: str | None = None
    ) -> LoadReport:
        """Add the rows of a Parquet file or folder with the columns id, filter and perhaps owner, labels, paused."""
        report = LoadReport(fspath(path))
        return self._import(transfer.read_parquet(path, report), report, strict, replace, author)

    def _import(
        self, batch: pa.Table, report: LoadReport, strict: bool, replace: bool, author: str | None
    ) -> LoadReport:
        batch, compiled = checked_batch(self.schema, batch, report)
        bad_texts = list(report.problems)

        def decide() -> pa.Table:
            report.problems = list(bad_texts)
            status = statuses(self._refreshed_keys(), IdColumns.within(batch))
            taken = status != ABSENT
            kept = batch
            if not replace:
                kept = transfer.reject_rows(
                    batch, taken, "the id is in the catalog already; import with replace", report
                )
                taken = np.zeros(len(kept), bool)
            report.added = len(kept)
            report.problems.sort(key=lambda problem: problem.line)
            if strict:
                _refuse_problems(report)
            return _import_rows(kept, taken)

        was_empty = len(self._keys_with_ids()) == 0
        before = self._log.version
        version = self._commit(decide, author)
        if (
            was_empty
            and version == before + 1
            and report.added == len(compiled)
            and not pc.any(batch["paused"]).as_py()
        ):
            self._cache.store(version, compiled)
        report.close(strict=False)
        return report

    def position(self, source: str) -> int | None:
        """Return how far a source of changes was read by `mirror`, None if it never was."""
        with self._mutex:
            self._log.refresh()
            return self._log.position(source)

    def mirror(
        self,
        upserts: Source,
        removals: Sequence[Id],
        positions: Mapping[str, Moved],
        author: str | None = None,
        first: Callable[[LoadReport], None] | None = None,
    ) -> Mirrored:
        """Make ids what a source elsewhere says they are, in one commit with how far that source was read.

        `upserts` are lines as `import_jsonl` reads them: added or replaced whole, whatever was there. Ids to remove may
        be absent. Bad lines are reported and left out; what they were to replace stays. `first` hears of them before
        anything is committed, so that they can be kept elsewhere.
        """
        report = LoadReport(source_name(upserts))
        batch, _ = checked_batch(self.schema, transfer.read_jsonl(upserts, report), report)
        report.problems.sort(key=lambda problem: problem.line)
        if first is not None:
            first(report)
        rows = LOG_SCHEMA.empty_table()

        def decide() -> pa.Table:
            nonlocal rows
            check_positions(positions, self._log.position)
            keys = self._refreshed_keys()
            gone = statuses(keys, IdColumns.of(removals))
            rows = mirrored_rows(batch, statuses(keys, IdColumns.within(batch)), removals, gone)
            return rows

        version = self._commit(decide, author, {name: moved.after for name, moved in positions.items()})
        removed = int(pc.sum(pc.equal(rows.column("operation"), "remove")).as_py() or 0)
        return Mirrored(version, len(batch), removed, report, committed=len(rows) > 0)

    def export_jsonl(self, target: str | PathLike[str] | IO[str], version: int | None = None) -> None:
        """Write all subscriptions of a version, paused ones too, as lines that `import_jsonl` reads."""
        transfer.write_jsonl(self.rows(version), target)

    def export_parquet(self, path: str | PathLike[str], version: int | None = None) -> None:
        """Write all subscriptions of a version, paused ones too, as a Parquet file that `import_parquet` reads."""
        transfer.write_parquet(self.rows(version), path)

    # -- reading -----------------------------------------------------------------------------------------

    def rows(
        self, version: int | None = None, owner: str | None = None, labels: Mapping[str, str] | None = None
    ) -> pa.Table:
        """Return one row per subscription of a version, paused ones too, in the order of their adding.

        The columns are id_number and id_text (one of them is null), filter, owner, labels, paused, and the version and
        time of the last change.
        """
        with self._mutex:
            at = self._existing(version)
            table = state_table(self._log.read(until=at))
        if owner is not None:
            table = table.filter(pc.equal(table.column("owner"), owner))
        for name, value in (labels or {}).items():
            found = pc.map_lookup(table.column("labels"), name, "first")
            table = table.filter(pc.equal(found, value))
        return table

    def subscriptions(
        self, version: int | None = None, owner: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Subscriptions:
        """Return what is matched at a version: what is not paused, of all or only of an owner or with labels."""
        with self._mutex:
            at = self._existing(version)
            schema = self.schema_at(at)
            if owner is not None or labels:
                return load_rows(schema, _active(self.rows(at, owner, labels)))
            return self._opened(at, schema)

    def _opened(self, at: int, schema: Schema) -> Subscriptions:
        """Load the newest compiled form and apply what changed since; compile everything only if there is none."""
        cached = self._cache.newest(at)
        changes = None if cached is None else self.changes(cached.version, at)
        if cached is not None and changes is not None and len(changes) <= _FEW_CHANGES:
            subscriptions = cached.subscriptions
            subscriptions.schema = schema  # it only grows, and attributes keep their numbers
            apply_changes(subscriptions, changes)
            parsed = len(changes)
        else:
            subscriptions = load_rows(schema, _active(self.rows(at)))
            parsed = len(subscriptions)
        if parsed >= _WORTH_CACHING:
            self._cache.store(at, subscriptions)
        return subscriptions

    def changes(self, from_version: int, to_version: int | None = None) -> pa.Table:
        """Return what differs for matching between two versions: change (added, replaced, removed), id, filter.

        A paused subscription is not matched, so pausing counts as removed and resuming as added.
        """
        with self._mutex:
            first, last = self._existing(from_version), self._existing(to_version)
            if first > last:
                raise CatalogError(f"changes go from an older version to a newer one, not from {first} to {last}")
            keys = self._refreshed_keys()
            version = keys.column("version")
            touched = IdColumns.within(keys.filter(pc.and_(pc.greater(version, first), pc.less_equal(version, last))))
            keys = keys.filter(pc.and_(pc.less_equal(version, last), IdColumns.within(keys).among(touched)))
            net = net_changes(keys, int(pc.sum(pc.less_equal(keys.column("version"), first)).as_py() or 0))
            rows = keys.take(net.row)
            return pa.table(
                {
                    "change": pa.array(CHANGE_NAMES).take(pa.array(net.kind)),
                    "id_number": rows.column("id_number"),
                    "id_text": rows.column("id_text"),
                    "filter": self._filters(rows, net.kind != REMOVED, last),
                }
            )

    def _filters(self, rows: pa.Table, wanted: Any, until: int) -> pa.Array:
        """Return the filter texts of log rows given by their keys, null where not wanted."""
        if not wanted.any():
            return pa.nulls(len(rows), pa.string())
        version = rows.column("version").to_numpy()
        after = int(version[wanted].min()) - 1
        texts = self._log.read(("version", "sequence", "filter"), after=after, until=until)
        # Rows of a log are in order of version and sequence, and so are the texts: their places are found by search.
        place = np.searchsorted(_position(texts), _position(rows))
        place = np.where(wanted & (version > after), place, -1)
        return texts.column("filter").take(pa.array(place, mask=place < 0)).combine_chunks()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the versions that changed something, newest first."""
        with self._mutex:
            self._log.refresh()
            rows = self._log.read(("version", "operation", "time", "author"))
        counts = rows.group_by(["version", "operation"]).aggregate(
            [("time", "max"), ("author", "max"), ([], "count_all")]
        )
        entries: dict[int, HistoryEntry] = {}
        for row in sorted(counts.to_pylist(), key=lambda row: (-row["version"], OPERATIONS.index(row["operation"]))):
            entry = entries.setdefault(row["version"], HistoryEntry(row["version"], row["time_max"], row["author_max"]))
            entry.operations[row["operation"]] = row["count_all"]
        return list(entries.values())[:limit]

    # -- inside ------------------------------------------------------------------------------------------

    def _existing(self, version: int | None) -> int:
        newest = self._log.refresh()
        if version is None:
            return newest
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= newest:
            raise CatalogError(f"there is no version {version!r} of {self.path}; the versions are 0 to {newest}")
        return version

    def _refreshed_keys(self) -> pa.Table:
        """Return the key columns of the whole log, reading only what is new."""
        version = self._log.version
        if version > self._keys_version:
            new = self._log.read(KEY_COLUMNS, after=self._keys_version)
            self._keys = pa.concat_tables([self._keys, new])
            if self._keys.column(0).num_chunks > _MOST_CHUNKS:
                self._keys = self._keys.combine_chunks()
            self._keys_version = version
        return self._keys

    def _keys_with_ids(self) -> pa.Table:
        keys = self._refreshed_keys()
        return keys.filter(pc.not_equal(keys.column("operation"), "schema"))


def _stamped(rows: pa.Table, author: str | None) -> pa.Table:
    """Give rows the time of the commit and its author."""
    now = datetime.now(UTC)
    rows = rows.append_column("time", pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), len(rows)))
    return rows.append_column("author", pa.repeat(pa.scalar(author, pa.string()), len(rows)))


def _import_rows(batch: pa.Table, taken: NDArray[np.bool_]) -> pa.Table:
    """Return a batch as log rows: adds, replacements where the id is taken, and pauses behind them."""
    written = batch.select(["id_number", "id_text", "filter", "owner", "labels"])
    names = pa.array(["add", "replace"]).take(pa.array(taken.astype(np.int8)))
    written = written.append_column("operation", names)
    paused = batch.filter(batch.column("paused")).select(["id_number", "id_text"])
    paused = paused.append_column("operation", pa.repeat("pause", len(paused)))
    rows = pa.concat_tables([written, paused], promote_options="default")
    return rows.append_column("schema", pa.nulls(len(rows), pa.string()))


def _refuse_problems(report: LoadReport) -> None:
    try:
        report.close(strict=True)
    except DataError as cause:
        raise transfer.RowsRefusedError(str(cause)) from cause


def _active(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows.column("paused")))


def _position(rows: pa.Table) -> NDArray[np.int64]:
    """Return each row's place in the log as one number that rises."""
    place: NDArray[np.int64] = (rows.column("version").to_numpy() << 32) + rows.column("sequence").to_numpy()
    return place
