"""What each micro-batch is matched with, written down before the batch runs: the catalog version, and F.

A batch that runs again, after a crash, finds both here and gives matches by the same rules as before. One small file
per batch: a file is there as a whole or not at all.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from eventsieve.elastic.precision import check_share
from eventsieve.errors import CatalogError, DataError
from eventsieve.spark.published import write_atomically

_KEPT: Final = 200
"""Batches whose entries are kept: Spark can repeat only the last one."""


@dataclass(frozen=True)
class Entry:
    """What a batch was begun with."""

    catalog_version: int
    false_positive: float = 0.0
    """F: the share of its matches that may be false, 0 for exact matching."""
    waited: float = 0.0
    """Seconds that the controller had seen when it chose F."""


class Journal:
    """Batch id -> entry, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, batch: int) -> Entry | None:
        """Return what a batch was begun with, None if it never was."""
        path = self._path(batch)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            # Before there was elastic matching, every batch was exact and nothing said so.
            share, waited = record.get("false_positive", 0.0), record.get("waited", 0.0)
            return Entry(int(record["catalog_version"]), check_share(share), float(waited))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError, DataError) as cause:
            raise CatalogError(
                f"{path} does not say which catalog version batch {batch} was begun with; restore it, or start with "
                "a new checkpoint"
            ) from cause

    def last(self) -> Entry | None:
        """Return what the newest batch was begun with."""
        batches = [int(path.stem) for path in self._folder.glob("[0-9]*.json")]
        return self.of(max(batches)) if batches else None

    def begin(self, batch: int, entry: Entry) -> None:
        """Write down, to stay, what a batch is matched with."""
        write_atomically(self._path(batch), json.dumps({"batch": batch, **asdict(entry)}))
        self._path(batch - _KEPT).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:012d}.json"
