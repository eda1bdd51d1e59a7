"""One Spark session for all tests that need it, made when the first of them asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from eventsieve.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded session on two cores with little memory."""
    started = session(**{"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2})
    yield started
    started.stop()
