"""Snapshots: whole, checked, and never half-written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import eventsieve as es
from eventsieve.index.snapshot import read_snapshot, write_snapshot

SCHEMA = es.Schema({"x": es.Float(0, 1), "t": es.Text(), "n": es.Int()})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    subs = es.Subscriptions(SCHEMA)
    subs.add("alice", "x > 0.5 AND t LIKE 'A%'")
    subs.add(7, "n IN (1,2,3,4,5,6,8,9,10,11,12,13,14,15,16,17,18,20) OR t = 'it''s'")
    subs.add("gone", "n = 5")
    subs.add("ünï", "x IS NULL AND n != 9007199254740995")
    index = es.build(subs)
    index.remove("gone")
    path = tmp_path / "index.snapshot"
    index.save(path)
    return path


def test_everything_comes_back(saved: Path) -> None:
    """Ids of both kinds, texts, codes, patterns, sets and big integers."""
    index = es.load(saved)
    assert sorted(map(str, index.subscriptions.ids.tolist())) == ["7", "alice", "ünï"]
    assert index.subscriptions.text("alice") == "x > 0.5 AND t LIKE 'A%'"
    assert index.match({"x": 0.75, "t": "Abc"}) == ["alice"]
    assert index.match({"n": 8}) == [7, "ünï"]
    assert index.match({"n": 7}) == ["ünï"]
    assert index.match({"t": "it's"}) == [7]
    assert index.match({"n": 9007199254740995}) == []
    assert "gone" not in index.subscriptions
    index.add("gone", "n = 5")
    assert index.match({"n": 5, "x": 0}) == [7, "gone"]


def test_any_flipped_byte_is_noticed(saved: Path) -> None:
    """Damage anywhere in the file is an error, never a wrong answer."""
    whole = saved.read_bytes()
    rng = np.random.default_rng(1)
    for at in [0, 9, 17, 30, 40, len(whole) - 70, *rng.integers(32, len(whole), 60)]:
        broken = bytearray(whole)
        broken[at] ^= 0x10
        saved.write_bytes(broken)
        try:
            read_snapshot(saved)
        except es.SnapshotError:
            continue
        # Only the padding between arrays is nobody's business.
        assert whole[at] == 0


@pytest.mark.parametrize("size", [0, 5, 31, 40, 200, -1])
def test_a_truncated_file_is_noticed(saved: Path, size: int) -> None:
    """However short it is cut."""
    saved.write_bytes(saved.read_bytes()[:size])
    with pytest.raises(es.SnapshotError):
        es.load(saved)


def test_foreign_missing_and_newer_files_are_clear_errors(saved: Path, tmp_path: Path) -> None:
    """Each with what is the case and what to do."""
    (tmp_path / "foreign").write_text("id,filter\n" * 20)
    with pytest.raises(es.SnapshotError, match="not an eventsieve snapshot"):
        es.load(tmp_path / "foreign")
    with pytest.raises(es.SnapshotError, match="cannot read"):
        es.load(tmp_path / "nowhere")
    newer = bytearray(saved.read_bytes())
    newer[8] = 99
    saved.write_bytes(newer)
    with pytest.raises(es.SnapshotError, match="format 99"):
        es.load(saved)
    write_snapshot(tmp_path / "other", {"kind": "shopping list"}, {})
    with pytest.raises(es.SnapshotError, match="shopping list"):
        es.load(tmp_path / "other")


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up half way: the old snapshot is whole and no rubbish stays."""
    before = saved.read_bytes()
    index = es.load(saved)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(es.SnapshotError, match="No space left"):
        index.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_loaded_index_may_be_saved_over_itself(saved: Path) -> None:
    """The old file is still mapped while the new one takes its place."""
    index = es.load(saved)
    index.add("new", "n = 77")
    index.save(saved)
    assert es.load(saved).match({"n": 77, "x": 0}) == ["new"]
    assert index.match({"n": 77, "x": 0}) == ["new"]
