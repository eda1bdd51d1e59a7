"""Real kills of real processes: whatever dies, in the end every match is there exactly once."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest

from eventsieve.catalog import Catalog
from tests.spark.market import SCHEMA, as_lines, drop, events, expected, filters
from tests.spark.processes import Command

pytestmark = [pytest.mark.deep, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

FILES, EVENTS_PER_FILE = 24, 40


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for command in made.commands:
        if not command.ended():
            command.kill()


class World:
    """A catalog, a folder of events, and the command that matches them one file at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[Command] = []
        self.catalog = Catalog.create(folder / "catalog", SCHEMA)
        with self.catalog.edit() as edit:
            for id, text in enumerate(filters(60)):
                edit.add(id, text)
            edit.add(1000, "price >= 0")  # every event matches, so that a lost one shows
        self.rows: list[dict[str, Any]] = []
        for number in range(FILES):
            rows = events(EVENTS_PER_FILE, seed=number)
            drop(folder / "in", f"{number:03d}.json", as_lines(rows))
            self.rows += rows

    def start(self, *more: str) -> Command:
        words = ["run", "--catalog", "catalog", "--source", "json:in", "--sink", "parquet:out", "--checkpoint", "state"]
        places = {"catalog": "catalog", "json:in": "json:in", "parquet:out": "parquet:out", "state": "state"}
        words = [_placed(self.folder, word) if word in places else word for word in words]
        command = Command(self.folder, *words, "--files", "1", *more)
        self.commands.append(command)
        return command

    def batches(self) -> int:
        return len(list((self.folder / "out").glob("batch_id=*")))

    def has_batches(self, count: int) -> bool:
        return self.batches() >= count

    def results(self) -> list[tuple[str, int, int]]:
        table = pads.dataset(self.folder / "out", format="parquet", partitioning="hive").to_table()
        columns = (table.column(name).to_pylist() for name in ("event_id", "subscription_id", "catalog_version"))
        return list(zip(*columns, strict=True))

    def check(self) -> None:
        """Compare everything that was written with the library, at the version that each match names."""
        found = self.results()
        assert len(found) == len(set(found)), "a match is there twice"
        version_of = {event: version for event, _, version in found}
        assert len(version_of) == len(self.rows), "an event is lost"
        for version in set(version_of.values()):
            mine = [row for row in self.rows if version_of[row["event_id"]] == version]
            wanted = expected(self.catalog.subscriptions(version), mine)
            assert {(event, id) for event, id, at in found if at == version} == wanted


def _placed(folder: Path, word: str) -> str:
    form, colon, name = word.rpartition(":")
    return f"{form}{colon}{folder / name}"


def test_a_driver_killed_three_times_loses_nothing_and_repeats_nothing(world: World) -> None:
    for _ in range(3):
        enough = world.batches() + 3
        command = world.start()
        command.wait_for(partial(world.has_batches, enough), "three more batches")
        command.kill()
    last = world.start("--until-empty")
    assert last.finish() == 0, last.errors()
    assert world.batches() == FILES
    world.check()


def test_a_killed_python_worker_does_not_end_the_stream(world: World) -> None:
    command = world.start("--until-empty")
    command.wait_for(lambda: world.batches() >= 3, "three batches")
    # Workers are forks of the daemon: the youngest of them is no daemon.
    os.kill(max(command.descendants("pyspark.daemon")), signal.SIGKILL)
    assert command.finish() == 0, command.errors()
    world.check()


def test_a_killed_executor_does_not_end_the_stream(world: World) -> None:
    command = world.start("--until-empty", "--master", "local-cluster[2,1,1024]")
    command.wait_for(lambda: world.batches() >= 3, "three batches")
    os.kill(command.descendants("CoarseGrainedExecutorBackend")[0], signal.SIGKILL)
    assert command.finish() == 0, command.errors()
    world.check()


def test_a_catalog_changed_from_outside_is_followed_version_by_version(world: World) -> None:
    command = world.start("--until-empty")
    for number in range(4):
        command.wait_for(partial(world.has_batches, 4 * number + 1), "more batches")
        with world.catalog.edit() as edit:
            edit.add(2000 + number, f"price > {10 * number}")
            edit.remove(number)
    assert command.finish() == 0, command.errors()
    world.check()
    assert len({version for _, _, version in world.results()}) > 2


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_asked_to_stop_finishes_its_batch_and_says_nothing_of_stacks(world: World, asked: int) -> None:
    command = world.start()
    command.wait_for(lambda: world.batches() >= 2, "two batches")
    os.kill(command.process.pid, asked)
    assert command.finish() == 0, command.errors()
    for word in ("Traceback", "Exception", "\tat "):
        assert word not in command.errors()
    summary = json.loads(command.output())
    assert summary["batches"] == world.batches()
    assert summary["events"] == EVENTS_PER_FILE * world.batches()
