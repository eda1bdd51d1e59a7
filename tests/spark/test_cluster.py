"""A real cluster on loopback: a master, two workers, the package as a zip, the library's result."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eventsieve
from eventsieve.catalog import Catalog
from eventsieve.spark.java import find_java
from tests.spark.market import SCHEMA, as_lines, drop, events, expected, filters, subscriptions
from tests.spark.processes import START, wait_for

pytestmark = pytest.mark.deep

_PROGRAM = """
import json, sys
from pathlib import Path
import eventsieve
from eventsieve.catalog import Catalog
from eventsieve.spark import build_index, indexing, match, session
from eventsieve.spark.columns import file_schema

folder, apart = Path(sys.argv[1]), sys.argv[2] == "apart"
spark = session()
if apart:  # as on machines that share no folder
    indexing.sees = lambda *_: False
events = spark.read.schema(file_schema(Catalog.open(folder / "catalog").schema).add("event_id", "string"))
events = events.json(str(folder / "in")).repartition(4)
index = build_index(Catalog.open(folder / "catalog"), folder / sys.argv[2], shards=2, spark=spark)
rows = match(events, index, key="event_id", spread="subscriptions").collect()
where = spark.sparkContext.parallelize([0, 1], 2).map(lambda _: __import__("eventsieve").__file__).collect()
sys.stdout.write(json.dumps({
    "master": spark.sparkContext.master,
    "code": where,
    "pairs": [[row.event_id, row.subscription_id] for row in rows],
}))
"""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    more = {"SPARK_HOME": home, "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    return dict(os.environ, **more, PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a standalone master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    port, page = _free_port(), _free_port()
    address = f"spark://127.0.0.1:{port}"
    role = "org.apache.spark.deploy"
    commands = [[f"{role}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]]
    for number in range(2):
        worker = [f"{role}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
        commands.append([*worker, "--work-dir", str(folder / f"work{number}"), "--webui-port", "0", address])
    log = folder / "log"
    running = []
    with open(log, "w") as out:
        for command in commands:
            program = os.path.join(environment["SPARK_HOME"], "bin", "spark-class")
            running.append(subprocess.Popen([program, *command], env=environment, stdout=out, stderr=out))
        try:
            wait_for(lambda: log.read_text().count("Registering worker") >= 2, "two workers to register")
            yield address
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait(timeout=60)


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.mark.parametrize("files", ["together", "apart"])
def test_the_submitted_package_gives_the_librarys_result(
    cluster: str, environment: dict[str, str], tmp_path: Path, files: str
) -> None:
    catalog = Catalog.create(tmp_path / "catalog", SCHEMA)
    with catalog.edit() as edit:
        for id, text in enumerate(filters(60)):
            edit.add(id, text)
    rows = events(200)
    drop(tmp_path / "in", "1.json", as_lines(rows))
    package = Path(eventsieve.__file__).parent
    zipped = shutil.make_archive(str(tmp_path / "eventsieve"), "zip", package.parent, package.name)
    (tmp_path / "program.py").write_text(_PROGRAM)
    submit = os.path.join(environment["SPARK_HOME"], "bin", "spark-submit")
    settings = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]
    command = [submit, "--master", cluster, *settings, "--py-files", zipped, str(tmp_path / "program.py")]
    ran = subprocess.run(
        [*command, str(tmp_path), files],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * START,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    result = json.loads(ran.stdout)
    assert result["master"] == cluster
    assert all(".zip" in path for path in result["code"]), "workers run the package that was submitted"
    assert {tuple(pair) for pair in result["pairs"]} == expected(subscriptions(), rows)
