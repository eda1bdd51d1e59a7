"""A published index: a folder with a snapshot per shard and a manifest that names them.

The manifest is written last and replaced in one step, and files are named by their checksum: a reader sees the old
index or the new one, never a mixture. Nothing that an older manifest names is changed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from eventsieve._kernels.checksum import checksum
from eventsieve.errors import SnapshotError
from eventsieve.model.schema import Schema

MANIFEST: Final = "manifest.json"
_KIND: Final = "eventsieve index"
_FORMAT: Final = 1

IdType: TypeAlias = Literal["long", "string"]
"""What the column of subscription ids holds; "string" as soon as one id is a text."""


@dataclass(frozen=True)
class Shard:
    """One snapshot file."""

    file: str
    bytes: int
    checksum: str
    subscriptions: int


@dataclass(frozen=True)
class Published:
    """What a manifest says, and where it is. Small enough to travel with every task."""

    folder: str
    version: int | None
    """The catalog version it holds, None where the subscriptions came from elsewhere."""
    matcher: str
    params: Mapping[str, Any]
    schema: Schema
    ids: IdType
    shards: tuple[Shard, ...]
    shipped: bool = False
    """Spark carries the files to the workers, which do not see the folder."""
    prepared: bool = False
    """Skip plans for the matcher's whole ladder, learned from a sample of events, are in the snapshots."""
    plan: Mapping[str, Any] | None = None
    """Why this matcher, in plain values, where it was chosen and not named."""

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)

    @property
    def n_subscriptions(self) -> int:
        return sum(shard.subscriptions for shard in self.shards)

    def as_shipped(self) -> Published:
        """Return the same index as it is when Spark carries its files."""
        return replace(self, shipped=True)

    def path_of(self, shard: Shard) -> str:
        return os.path.join(self.folder, shard.file)


def write_manifest(index: Published) -> None:
    """Make a published index visible, in one step, and take away the files that the one before it alone named."""
    folder = Path(index.folder)
    before = {shard.file for shard in read_manifest(folder).shards} if is_published(folder) else set()
    record = {
        "kind": _KIND,
        "format": _FORMAT,
        "version": index.version,
        "matcher": index.matcher,
        "params": dict(index.params),
        "schema": index.schema.to_json(),
        "ids": index.ids,
        "shards": [asdict(shard) for shard in index.shards],
        "prepared": index.prepared,
        "plan": index.plan,
    }
    write_atomically(folder / MANIFEST, json.dumps(record, indent=2))
    for name in before - {shard.file for shard in index.shards}:
        (folder / name).unlink(missing_ok=True)


def is_published(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Published:
    """Return what is published in a folder; raise SnapshotError if it is nothing of ours, or incomplete."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if record.get("kind") != _KIND:
            raise SnapshotError(f"{folder / MANIFEST} is not the manifest of an index")
        if record["format"] != _FORMAT:
            raise SnapshotError(
                f"the index in {folder} has format {record['format']}, this version of eventsieve reads {_FORMAT}; "
                "build it again"
            )
        found = Published(
            os.path.abspath(folder),
            record["version"],
            record["matcher"],
            record["params"],
            Schema.from_json(record["schema"]),
            record["ids"],
            tuple(Shard(**shard) for shard in record["shards"]),
            prepared=record.get("prepared", False),
            plan=record.get("plan"),
        )
    except OSError as cause:
        raise SnapshotError(f"no index is published in {folder}: {cause.strerror}; build_index() makes one") from cause
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise SnapshotError(f"the manifest {folder / MANIFEST} is damaged: {cause}; build the index again") from cause
    for shard in found.shards:
        check_size(found.path_of(shard), shard)
    return found


def check_size(path: str, shard: Shard) -> None:
    """Raise SnapshotError if a shard's file is missing or has another length than when it was published."""
    try:
        size = os.stat(path).st_size
    except OSError as cause:
        raise SnapshotError(f"cannot read the snapshot {path}: {cause.strerror}; build the index again") from cause
    if size != shard.bytes:
        raise SnapshotError(f"the snapshot {path} is damaged: it has {size} bytes, not {shard.bytes}; build it again")


def file_checksum(path: str | os.PathLike[str]) -> str:
    """Return a checksum of a whole file, at memory speed."""
    # A private map: the compiled checksum takes writable arrays, and the file must never change.
    return f"{checksum(np.memmap(path, np.uint8, mode='c')):016x}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a small file so that after a crash it is there as a whole or not at all, and stays once it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
