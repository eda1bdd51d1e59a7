"""The commands that use Spark, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset as pads
import pytest

from eventsieve.catalog import Catalog
from tests.spark.market import SCHEMA, as_lines, drop, events, filters
from tests.spark.processes import Command

pytestmark = pytest.mark.deep


def test_the_demo_ends_by_itself_with_a_summary(tmp_path: Path) -> None:
    words = ["demo", "--subscriptions", "2000", "--events", "3000", "--rate", "500", "--folder", str(tmp_path / "demo")]
    command = Command(tmp_path, *words)
    assert command.finish() == 0, command.errors()
    assert "Traceback" not in command.errors()
    assert "match" in command.errors()
    summary = json.loads(command.output())
    assert (summary["events"], summary["batches"], summary["catalog_version"]) == (3000, 6, 3)
    written = pads.dataset(tmp_path / "demo" / "matches", format="parquet", partitioning="hive").to_table()
    assert len(written) == summary["matches"]
    assert set(written.column("catalog_version").to_pylist()) == {1, 2, 3}


def test_profile_prints_the_statistics(tmp_path: Path) -> None:
    catalog = Catalog.create(tmp_path / "catalog", SCHEMA)
    with catalog.edit() as edit:
        for id, text in enumerate(filters(50)):
            edit.add(id, text)
    drop(tmp_path / "in", "1.json", as_lines(events(100)))
    command = Command(tmp_path, "profile", str(tmp_path / "catalog"), "--events", f"json:{tmp_path / 'in'}")
    assert command.finish() == 0, command.errors()
    record = json.loads(command.output())
    assert record["clauses"] >= 50
    assert 0 < record["match_rate"] < 1


def test_wrong_usage_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    Catalog.create(tmp_path / "catalog", SCHEMA)
    (tmp_path / "in").mkdir()
    places = ["--catalog", str(tmp_path / "catalog"), "--sink", f"json:{tmp_path / 'out'}"]
    command = Command(tmp_path, "run", *places, "--source", "json:nowhere", "--checkpoint", str(tmp_path / "state"))
    assert command.finish() == 2
    assert command.errors().startswith("error: the folder nowhere of the source does not exist")
    assert "Traceback" not in command.errors()
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "state").exists()
