"""The Kafka server, and the jars with which Spark reads from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventsieve.catalog import Catalog
from tests.kafka.server import kafka, left_out, own_kafka
from tests.kafka.streams import Runner
from tests.spark.market import SCHEMA, filters
from tools.kafka.jars import JarsMissingError, connector_jars

__all__ = ["catalog", "connector", "kafka", "own_kafka", "runner"]


@pytest.fixture(scope="session")
def connector() -> None:
    """Spark's connector is in the cache folder, where sessions that begin from now on find it."""
    try:
        connector_jars()
    except JarsMissingError as missing:
        left_out(missing)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Subscriptions of three owners, and one of nobody that every event matches, so that a lost event shows."""
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for id, text in enumerate(filters(40)):
            edit.add(id, text, owner=f"team/{id % 3}")
        edit.add(1000, "price >= 0")
    return made


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    yield made
    made.end()
