"""Kafka as a transport: topics in with consumer groups, topics out with an idempotent or transactional producer."""

from eventsieve.broker.kafka.letters import KafkaLetters
from eventsieve.broker.kafka.sink import KafkaSink
from eventsieve.broker.kafka.source import KafkaSource
from eventsieve.broker.kafka.transaction import TransactionalKafkaSink

__all__ = ["KafkaLetters", "KafkaSink", "KafkaSource", "TransactionalKafkaSink"]
