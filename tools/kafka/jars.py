"""Bring jars into the cache folder with Maven, whose own settings say where from: Kafka's server, Spark's connector."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from eventsieve.spark.connector import connector_folder
from eventsieve.spark.java import own_folder

HERE = Path(__file__).parent
CONNECTOR = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
"""What Spark lacks for Kafka; everything else that the connector's description names is part of Spark."""
PATIENCE = 600
"""Seconds for Maven to bring some 50 MB over a slow line."""


class JarsMissingError(Exception):
    """Jars are not in the cache and cannot be brought; the message says why in one line."""


def server_jars() -> Path:
    """Return the folder with the Kafka server's jars, brought now if it is not there."""
    folder = own_folder().parent / "kafka" / f"server-{_version_in(HERE / 'server' / 'pom.xml')}"
    with _alone(folder):
        if not folder.is_dir():
            _copy_dependencies(HERE / "server", folder)
    return folder


def connector_jars() -> Path:
    """Return the folder with Spark's Kafka connector, brought now if it is not there.

    A repository may have this Spark's connector later than PyPI has PySpark; until then an older one that works serves.
    """
    folder = connector_folder()
    with _alone(folder):
        if not folder.is_dir():
            wanted = f"-DincludeArtifactIds={','.join(CONNECTOR)}"
            try:
                _copy_dependencies(HERE / "connector", folder, f"-Dspark={version('pyspark')}", wanted)
            except JarsMissingError:
                _copy_dependencies(HERE / "connector-older", folder)
    return folder


def _version_in(pom: Path) -> str:
    return pom.read_text(encoding="utf-8").partition("<version>")[2].partition("</version>")[0]


def _copy_dependencies(project: Path, folder: Path, *more: str) -> None:
    """Let Maven fill a folder aside and move it into place, so that it is there as a whole or not at all."""
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError("Maven (mvn) is not on the PATH, and the jars are not in the cache folder")
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    command = [maven, "--quiet", "--batch-mode", "--no-transfer-progress", "--file", str(project / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={aside}", *more]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if ran.returncode != 0:
            raise JarsMissingError(f"Maven could not bring the jars: {_first_error(ran.stdout + ran.stderr)}")
        aside.chmod(0o755)
        os.replace(aside, folder)
    except subprocess.TimeoutExpired as cause:
        raise JarsMissingError(f"Maven did not bring the jars within {PATIENCE} seconds") from cause
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _first_error(output: str) -> str:
    lines = (line.partition("[ERROR]")[2].strip() for line in output.splitlines())
    return next((line for line in lines if line), "it gave no reason").removesuffix(" -> [Help 1]")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time look after a folder, so that test workers do not all fetch the same jars."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
