"""A fresh catalog per test."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventsieve.catalog import Catalog
from eventsieve.model.schema import Schema
from eventsieve.model.types import Float, Text

SCHEMA = Schema({"price": Float(0, 1000), "symbol": Text()})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.create(tmp_path / "catalog", SCHEMA)
