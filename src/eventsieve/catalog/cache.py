"""The open cache: compiled subscriptions of a version, so that a million filters are not parsed at every opening.

Snapshot files beside the table, named by version and by a checksum over the catalog's identity and the code that
compiles filters. Whatever is wrong with one (damaged, foreign, half deleted), it counts as absent. The folder can
be deleted at any time.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from eventsieve.errors import EventsieveError, SnapshotError
from eventsieve.index.snapshot import read_snapshot, write_snapshot
from eventsieve.subscriptions import Subscriptions

_KEPT: Final = 2
"""Files that stay: the newest one, and the one before for readers that are about to open it."""
_COMPILING: Final = ("eventsieve.language", "eventsieve.model")


class Cached(NamedTuple):
    """The compiled subscriptions of a version."""

    version: int
    subscriptions: Subscriptions


class OpenCache:
    """Compiled subscriptions of one catalog by version."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder = folder
        self._key = hashlib.sha256(f"{identity} {_code_checksum()}".encode()).hexdigest()[:16]

    def newest(self, until: int) -> Cached | None:
        """Return the newest stored version that is not beyond `until`, if there is any."""
        for version, path in self._stored():
            if version > until:
                continue
            with suppress(EventsieveError, KeyError, ValueError, TypeError):
                meta, arrays = read_snapshot(path)
                return Cached(version, Subscriptions.from_stored(meta["subscriptions"], arrays))
        return None

    def store(self, version: int, subscriptions: Subscriptions) -> None:
        """Keep a version. A folder that cannot be written only costs the next opening its time."""
        meta, arrays = subscriptions.to_arrays()
        with suppress(SnapshotError, OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{version:020d}-{self._key}.snapshot"
            write_snapshot(path, {"kind": "subscriptions", "subscriptions": meta}, arrays)
            self._drop_others()

    def _stored(self) -> list[tuple[int, Path]]:
        """Return versions and files with our key, newest first."""
        files = sorted(self._folder.glob(f"*-{self._key}.snapshot"), reverse=True)
        return [(int(path.name.split("-")[0]), path) for path in files]

    def _drop_others(self) -> None:
        keep = {path for _, path in self._stored()[:_KEPT]}
        for path in self._folder.glob("*.snapshot"):
            if path not in keep:
                path.unlink(missing_ok=True)


@cache
def _code_checksum() -> str:
    """Return a checksum of the code that turns texts into clauses: another compiler, another cache."""
    digest = hashlib.sha256()
    for package in _COMPILING:
        files = sorted(resources.files(package).iterdir(), key=lambda file: file.name)
        for file in files:
            if file.name.endswith(".py"):
                digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
