"""Spark's Kafka connector: jars that are not part of PySpark. Where they are, and how a session gets them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventsieve.errors import SparkError
from eventsieve.spark.java import own_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def connector_folder() -> Path:
    """Return the folder in our cache for the jars that fit the installed Spark; `make kafka` fills it."""
    return own_folder() / f"kafka-connector-{version('pyspark')}"


def connector_package() -> str:
    """Return the name under which a Maven repository has the connector of the installed Spark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"


def connector_settings(asked: dict[str, Any]) -> dict[str, str]:
    """Return the settings with which a new session loads the connector, beside those that the user asks for.

    Jars in the cache folder win; without them Spark is told to fetch the package itself.
    """
    jars = sorted(str(jar) for jar in connector_folder().glob("*.jar"))
    name, wanted = ("spark.jars", ",".join(jars)) if jars else ("spark.jars.packages", connector_package())
    given = str(asked.get(name, ""))
    return {name: f"{given},{wanted}" if given else wanted}


def fetches_connector(settings: Mapping[str, str]) -> bool:
    """Return whether a session with these settings has to fetch the connector."""
    return connector_package() in settings.get("spark.jars.packages", "")


def connector_missing() -> SparkError:
    """Return what is to be said where there is no connector."""
    return SparkError(
        "Spark has no Kafka connector: it is not part of PySpark, not in the folder "
        f"{connector_folder()}, and cannot be fetched from here; `make kafka` brings it with Maven, and with "
        f"spark-submit --packages {connector_package()} does"
    )


def check_connector(spark: SparkSession) -> None:
    """Raise SparkError if a session cannot load the connector."""
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(_PROVIDER, False, False)
    except Py4JError as cause:
        raise SparkError(
            "this Spark session began without the Kafka connector; begin it with session(kafka=True), or with "
            f"spark-submit --packages {connector_package()}"
        ) from cause
