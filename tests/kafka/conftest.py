"""The Kafka server, and the jars with which Spark reads from it."""

from __future__ import annotations

import pytest

from tests.kafka.server import kafka, left_out, own_kafka
from tools.kafka.jars import JarsMissingError, connector_jars

__all__ = ["connector", "kafka", "own_kafka"]


@pytest.fixture(scope="session")
def connector() -> None:
    """Spark's connector is in the cache folder, where sessions that begin from now on find it."""
    try:
        connector_jars()
    except JarsMissingError as missing:
        left_out(missing)
