"""One way to a Spark session: the given one, the running or submitted one, or an embedded one that just starts."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventsieve.errors import SparkError
from eventsieve.spark.connector import connector_missing, connector_settings, fetches_connector
from eventsieve.spark.java import find_java, kept_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIGABYTE: Final = 1 << 30
_LOOPBACK: Final = "127.0.0.1"
_LOGGING: Final = """\
# Errors only, on standard error. Results and messages of eventsieve do not pass through here.
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# What it says about a connection is part of the error that we raise.
logger.kafka.name = org.apache.kafka.clients
logger.kafka.level = off
# It reports at every normal stop what is no error.
logger.hooks.name = org.apache.spark.util.ShutdownHookManager
logger.hooks.level = off
# Spark announces a change of level unless this logger has one of its own that equals the root's.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def session(spark: SparkSession | None = None, *, kafka: bool = False, **conf: Any) -> SparkSession:
    """Return the given session, else the active one, else the one of `spark-submit`, else a new embedded one.

    With `kafka` an embedded session loads Spark's Kafka connector. `conf` holds settings by Spark's own names,
    `session(**{"spark.master": "local[2]"})`. They win over the embedded session's defaults; on a session that runs
    already only those that can still be changed are accepted.
    """
    found = spark or _active_session()
    if found is not None:
        return _with_settings(found, conf)
    settings = {name: _text(value) for name, value in conf.items()}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started Java already, and chosen everything
        settings = _embedded_settings(settings | (connector_settings(settings) if kafka else {}))
    try:
        return _started(settings)
    except SparkError as cause:
        raise (connector_missing() if kafka and fetches_connector(settings) else cause) from cause


def _active_session() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise SparkError("Spark is not installed: pip install 'eventsieve[spark]'") from cause
    return SparkSession.getActiveSession()


def _with_settings(spark: SparkSession, conf: dict[str, Any]) -> SparkSession:
    for name, value in conf.items():
        if spark.conf.get(name, None) == _text(value):
            continue
        if not spark.conf.isModifiable(name):
            raise SparkError(
                f"{name} cannot be changed on a Spark session that runs already; stop it first or leave the setting out"
            )
        spark.conf.set(name, _text(value))
    return spark


def _embedded_settings(asked: dict[str, str]) -> dict[str, str]:
    """Return settings with which Spark starts on one machine without any configuration, quietly."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)  # the launcher and the executors of this machine read it
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need our packages and our version
    logging = kept_file("logging", "log4j2.properties", _LOGGING)
    cores = os.cpu_count() or 1
    defaults = {
        "spark.app.name": "eventsieve",
        "spark.master": "local[*,4]",  # plain local[*] gives up when a single Python worker dies
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.memory": f"{driver_gigabytes(_machine_bytes())}g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "eventsieve-warehouse"),
    }
    settings = {**defaults, **asked}
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        settings[name] = f"-Dlog4j2.configurationFile={logging.as_uri()} {asked.get(name, '')}".strip()
    return settings


def _started(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as cause:
        raise SparkError(
            f"Spark does not start with the Java at {os.environ.get('JAVA_HOME', 'the system')}: {cause}"
        ) from cause


def driver_gigabytes(machine_bytes: int) -> int:
    """Return a third of the machine's memory, at least 1 and at most 16 GB: Python workers need their share too."""
    return max(1, min(16, machine_bytes // (3 * _GIGABYTE)))


def _machine_bytes() -> int:
    """Return the memory this process may use: the machine's, or its container's if that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 6 * _GIGABYTE
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        return min(total, int(text))
    return total


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
