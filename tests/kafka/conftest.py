"""The Kafka server, and a Spark session with the connector."""

from __future__ import annotations

from tests.kafka.server import kafka, own_kafka

__all__ = ["kafka", "own_kafka"]
