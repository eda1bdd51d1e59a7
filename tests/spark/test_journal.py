"""The journal keeps what it was told, and says what to do when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventsieve.errors import CatalogError
from eventsieve.spark.journal import Journal


def test_a_batch_keeps_the_version_it_was_begun_with(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "versions")
    assert journal.version_of(0) is None
    journal.begin(0, 17)
    journal.begin(1, 18)
    assert [Journal(tmp_path / "versions").version_of(batch) for batch in (0, 1, 2)] == [17, 18, None]


def test_old_batches_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for batch in range(250):
        journal.begin(batch, batch)
    assert journal.version_of(0) is None
    assert journal.version_of(100) == 100


def test_a_damaged_entry_is_not_guessed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(3, 1)
    next(tmp_path.glob("*.json")).write_text("{")
    with pytest.raises(CatalogError, match="batch 3"):
        journal.version_of(3)
