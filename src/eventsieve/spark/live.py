"""An index that follows a catalog: a published base, and the steps from it to the version a batch asks for.

Steps are small and travel with the task; workers apply them in place. When they have grown, a new base is built in the
background while the stream goes on with the old one.

An elastic stream learns from its own first events: a sample of them is kept, and a new base is built whose skip plans
were made and tried with it. Until then there are no plans. A step goes into every plan whole; see `skipped_lists`.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from eventsieve.catalog import Catalog
from eventsieve.catalog.ids import IdColumns
from eventsieve.errors import DataError, EventsieveError
from eventsieve.spark.indexing import build_index, ship
from eventsieve.spark.published import IdType, Published, is_published, read_manifest, write_atomically
from eventsieve.spark.worker import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLD_SHARE: Final = 0.05
_FOLD_LEAST: Final = 2_000
"""Changes, as a share of the base and at least, after which a new base pays: each worker applies a change in under 1
ms."""


class LiveIndex:
    """The index of one stream. Used by one thread; a second one builds bases."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        folder: Path,
        matcher: str,
        params: dict[str, Any],
        shards: int | None,
        ids: IdType | None,
        ladder: Sequence[float] = (),
    ) -> None:
        """With a `ladder` the index is elastic: plans are kept ready for these values of F."""
        self._spark, self._catalog, self._folder = spark, catalog, folder
        self._matcher, self._shards, self._ids = matcher, shards, ids
        self._ladder = list(params.get("ladder", ladder))
        self._params = {**params, "ladder": self._ladder} if ladder else params
        self._elastic = bool(ladder)
        self._sample_path = folder / "sample.arrow"
        self._sample = self._read_sample() if self._elastic else None
        self._base: Published | None = None
        self._steps: list[Step] = []
        self._folding: threading.Thread | None = None
        self._folded: Published | None = None

    def at(self, version: int) -> tuple[Published, tuple[Step, ...]]:
        """Return the base and the steps that lead from it to a version."""
        self._take_up_folded(version)
        base = self._base
        if base is None or base.version is None or base.version > version or not self._same_schema(base, version):
            base = self._become(self._stored(version) or self._build(version))
        assert base.version is not None
        reached = self._steps[-1].until if self._steps else base.version
        if reached > version:  # a repeated batch, older than what was matched since
            self._steps, reached = [], base.version
        if reached < version:
            self._steps.append(self._step(reached, version))
        self._fold_if_grown(base, version)
        return base, tuple(self._steps)

    @property
    def prepared(self) -> bool:
        """Plans are ready in the base that `at` last returned."""
        return self._elastic and self._base is not None and self._base.prepared

    @property
    def needs_sample(self) -> bool:
        """Plans are wanted, and there are no events yet to make them by."""
        return self._elastic and self._sample is None

    def learn(self, sample: pa.Table) -> None:
        """Keep a sample of events, to stay; a base with plans made by it is built with the next batch."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, sample.schema) as writer:
            writer.write_table(sample)
        write_atomically(self._sample_path, sink.getvalue().to_pybytes())
        self._sample = sample

    @property
    def n_changes(self) -> int:
        """Changes since the base."""
        return sum(map(len, self._steps))

    def wait(self) -> None:
        """Wait until no base is being built."""
        if self._folding is not None:
            self._folding.join()

    def _same_schema(self, base: Published, version: int) -> bool:
        """Say whether a base can be brought to a version in place: new attributes need a new base."""
        return base.schema == self._catalog.schema_at(version)

    def _become(self, base: Published) -> Published:
        self._steps = []
        self._base = ship(self._spark, base if self._ids is None else replace(base, ids=self._ids))
        self._forget_others(self._base)
        return self._base

    def _stored(self, version: int) -> Published | None:
        """Return the newest base of an earlier run that is not beyond a version."""
        for folder in sorted(self._folder.glob("base-*"), reverse=True):
            if not is_published(folder) or int(folder.name.split("-")[1]) > version:
                continue
            found = read_manifest(folder)
            if self._same_schema(found, version) and self._has_plans(found):
                return found
        return None

    def _has_plans(self, base: Published) -> bool:
        """Say whether a stored base has the plans that are wanted; without plans wanted, any will do."""
        if not self._elastic or self._sample is None:
            return True
        return base.prepared and base.params.get("ladder") == self._ladder

    def _read_sample(self) -> pa.Table | None:
        if not self._sample_path.exists():
            return None
        try:
            with pa.ipc.open_file(pa.BufferReader(self._sample_path.read_bytes())) as reader:
                return reader.read_all()
        except pa.ArrowInvalid as cause:
            raise DataError(
                f"{self._sample_path} is damaged: {cause}; remove it, and the stream learns anew"
            ) from cause

    def _build(self, version: int) -> Published:
        # A base with plans goes beside the one without: workers may still have to open that.
        folder = self._folder / (f"base-{version:012d}" + ("-plans" if self._sample is not None else ""))
        return build_index(
            self._catalog,
            folder,
            self._matcher,
            version=version,
            shards=self._shards,
            spark=self._spark,
            sample=self._sample,
            **self._params,
        )

    def _step(self, after: int, until: int) -> Step:
        changes = self._catalog.changes(after, until)
        kinds = changes.column("change").to_pylist()
        rows = list(zip(kinds, IdColumns.within(changes).to_list(), changes.column("filter").to_pylist(), strict=True))
        return Step(
            after,
            until,
            tuple(id for kind, id, _ in rows if kind != "added"),
            tuple((id, text) for kind, id, text in rows if kind != "removed"),
        )

    # -- folding -------------------------------------------------------------------------------------------

    def _fold_if_grown(self, base: Published, version: int) -> None:
        busy = self._folding is not None and self._folding.is_alive()
        grown = self.n_changes >= max(_FOLD_LEAST, _FOLD_SHARE * base.n_subscriptions)
        if busy or self._folded is not None or (not grown and self._has_plans(base)):
            return
        self._folding = threading.Thread(target=self._fold, args=(version,), name="fold", daemon=True)
        self._folding.start()

    def _fold(self, version: int) -> None:
        try:
            self._folded = self._build(version)
        except EventsieveError:
            # The stream goes on with the base it has; the next batch starts another attempt.
            self._folded = None

    def _take_up_folded(self, version: int) -> None:
        folded = self._folded
        if folded is None or folded.version is None or folded.version > version:
            return
        self._folded = None
        self._become(folded)

    def _forget_others(self, base: Published) -> None:
        """Remove bases that are older than the one before this: a batch that is repeated needs no more."""
        folders = sorted(each for each in self._folder.glob("base-*") if is_published(each))
        keep = {Path(base.folder).name, *(each.name for each in folders[-2:])}
        for folder in folders:
            if folder.name not in keep:
                shutil.rmtree(folder, ignore_errors=True)
