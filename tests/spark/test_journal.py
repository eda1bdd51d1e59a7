"""The journal keeps what it was told, and says what to do when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventsieve.errors import CatalogError
from eventsieve.spark.journal import Entry, Journal


def test_a_batch_keeps_what_it_was_begun_with(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "versions")
    assert journal.of(0) is None
    assert journal.last() is None
    entries = [Entry(17), Entry(18, 0.0004, 2.5)]
    for batch, entry in enumerate(entries):
        journal.begin(batch, entry)
    again = Journal(tmp_path / "versions")
    assert [again.of(batch) for batch in (0, 1, 2)] == [*entries, None]
    assert again.last() == entries[1]


def test_an_entry_from_before_elastic_matching_is_exact(tmp_path: Path) -> None:
    (tmp_path / "000000000004.json").write_text('{"batch": 4, "catalog_version": 9}')
    assert Journal(tmp_path).of(4) == Entry(9, 0.0, 0.0)


def test_old_batches_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for batch in range(250):
        journal.begin(batch, Entry(batch))
    assert journal.of(0) is None
    assert journal.of(100) == Entry(100)


def test_a_damaged_entry_is_not_guessed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(3, Entry(1))
    for text in ("{", "[]", '{"catalog_version": 1, "false_positive": 2}'):
        next(tmp_path.glob("*.json")).write_text(text)
        with pytest.raises(CatalogError, match="batch 3"):
            journal.of(3)
