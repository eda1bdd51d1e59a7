"""What is not a catalog, or no longer one, is named as such; nothing is overwritten."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from eventsieve.catalog import Catalog
from eventsieve.errors import CatalogError
from eventsieve.model.schema import Schema
from eventsieve.model.types import Float

SCHEMA = Schema({"price": Float()})


def test_a_missing_folder(tmp_path):
    with pytest.raises(CatalogError, match="not even a folder"):
        Catalog.open(tmp_path / "nowhere")


def test_a_folder_that_is_not_a_catalog(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CatalogError, match="not a catalog"):
        Catalog.open(tmp_path)
    with pytest.raises(CatalogError, match="not an empty folder"):
        Catalog.create(tmp_path, SCHEMA)
    assert (tmp_path / "notes.txt").read_text() == "hello"


def test_a_delta_table_that_is_not_a_catalog(tmp_path):
    write_deltalake(tmp_path / "table", pa.table({"x": [1]}))
    with pytest.raises(CatalogError, match="a Delta table but not a catalog"):
        Catalog.open(tmp_path / "table")


def test_creating_twice(tmp_path):
    catalog = Catalog.create(tmp_path / "c", SCHEMA)
    catalog.add("a", "price < 10")
    with pytest.raises(CatalogError, match="cannot create"):
        Catalog.create(tmp_path / "c", SCHEMA)
    assert Catalog.open(tmp_path / "c").version == 1


def test_a_newer_format(tmp_path, monkeypatch):
    monkeypatch.setattr("eventsieve.catalog.log.FORMAT", 2)
    Catalog.create(tmp_path / "c", SCHEMA)
    monkeypatch.undo()
    with pytest.raises(CatalogError, match=r"has format 2.*upgrade"):
        Catalog.open(tmp_path / "c")


def test_a_missing_data_file(tmp_path):
    catalog = Catalog.create(tmp_path / "c", SCHEMA)
    catalog.add("a", "price < 10")
    for file in (tmp_path / "c").glob("*.parquet"):
        file.unlink()
    with pytest.raises(CatalogError, match="is damaged"):
        Catalog.open(tmp_path / "c").subscriptions()


def test_a_garbled_data_file(tmp_path):
    Catalog.create(tmp_path / "c", SCHEMA)
    for file in (tmp_path / "c").glob("*.parquet"):
        file.write_bytes(b"garbage")
    with pytest.raises(CatalogError, match="is damaged"):
        Catalog.open(tmp_path / "c").subscriptions()


def test_a_garbled_log_entry(tmp_path):
    Catalog.create(tmp_path / "c", SCHEMA)
    entry = next((tmp_path / "c" / "_delta_log").glob("*.json"))
    entry.write_text(json.dumps({"metaData": 7}))
    with pytest.raises(CatalogError, match="is damaged"):
        Catalog.open(tmp_path / "c").subscriptions()
