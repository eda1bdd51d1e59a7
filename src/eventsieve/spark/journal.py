"""Which catalog version each micro-batch is matched with, written down before the batch runs.

A batch that runs again, after a crash, finds its version here and gives the same matches as before. One small file per
batch: a file is there as a whole or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from eventsieve.errors import CatalogError
from eventsieve.spark.published import write_atomically

_KEPT: Final = 200
"""Batches whose versions are kept: Spark can repeat only the last one."""


class Journal:
    """Batch id -> catalog version, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def version_of(self, batch: int) -> int | None:
        """Return the version that a batch was begun with, None if it never was."""
        path = self._path(batch)
        try:
            return int(json.loads(path.read_text(encoding="utf-8"))["catalog_version"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as cause:
            raise CatalogError(
                f"{path} does not say which catalog version batch {batch} was begun with; restore it, or start with "
                "a new checkpoint"
            ) from cause

    def begin(self, batch: int, version: int) -> None:
        """Write down, to stay, that a batch is matched with a version."""
        write_atomically(self._path(batch), json.dumps({"batch": batch, "catalog_version": version}))
        self._path(batch - _KEPT).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:012d}.json"
