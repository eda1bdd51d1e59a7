"""What cannot work is said within seconds, with what is the case."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from eventsieve.catalog import Catalog
from tests.kafka.server import USERS, Kafka
from tests.kafka.streams import Runner
from tools.kafka.server import free_port

LOOKS = """
import json, sys
from eventsieve.errors import EventsieveError
from eventsieve.spark import session
from eventsieve.spark.kafka import KafkaOptions, read_settings
from eventsieve.spark.kafka_source import KafkaSource

spark = session(kafka=True, **{"spark.master": "local[1]", "spark.driver.memory": "512m"})
found = []
for address, texts in json.loads(sys.argv[1]):
    try:
        KafkaSource(spark, address, KafkaOptions(read_settings(texts)))
        found.append("fine")
    except EventsieveError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_a_broker_that_cannot_be_reached_is_named_before_spark_starts(
    kafka: Kafka, catalog: Catalog, runner: Runner
) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = runner.start(catalog, f"kafka:{address}/ticks", "console")
    assert command.finish() != 0
    assert f"no Kafka broker can be reached ({address}: Connection refused)" in command.errors()
    assert not command.descendants("SparkSubmit")


@pytest.mark.deep
@pytest.mark.usefixtures("connector")
def test_unknown_topics_and_wrong_credentials_are_told_apart(kafka: Kafka) -> None:
    ticks = kafka.topic("ticks")
    [(name, password)] = USERS.items()
    secured = ["security.protocol=SASL_PLAINTEXT", f"sasl.username={name}"]
    looks = [
        (f"kafka:{kafka.address}/{ticks}", []),
        (f"kafka:{kafka.address}/{ticks}x", []),
        (f"kafka:{kafka.secured}/{ticks}", [*secured, f"sasl.password={password}"]),
        (f"kafka:{kafka.secured}/{ticks}", [*secured, "sasl.password=guessed"]),
        (f"kafka:{kafka.secured}/{ticks}", []),
        (f"kafka:{kafka.address}/{ticks}", ["security.protocol=NONSENSE"]),
    ]
    ran = subprocess.run([sys.executable, "-c", LOOKS, json.dumps(looks)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    fine, unknown, welcome, refused, mute, nonsense = json.loads(ran.stdout)
    assert fine == welcome == "fine"
    assert f"has no topic named '{ticks}x'; did you mean '{ticks}'?" in unknown
    assert f"the Kafka cluster at {kafka.secured} refuses the credentials" in refused
    assert "guessed" not in ran.stdout + ran.stderr
    assert "does not answer, though it can be reached; it may want other security settings" in mute
    assert "NONSENSE" in nonsense
