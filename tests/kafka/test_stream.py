"""Topic to topic through Spark, as commands in processes of their own: what goes in and what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventsieve.catalog import Catalog
from tests.kafka.server import Kafka
from tests.spark.market import SCHEMA, as_lines, events, expected, filters
from tests.spark.processes import Command

pytestmark = pytest.mark.usefixtures("connector")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.create(tmp_path / "catalog", SCHEMA)
    with made.edit() as edit:
        for id, text in enumerate(filters(40)):
            edit.add(id, text, owner=f"team/{id % 3}")
        edit.add(1000, "price >= 0")  # every event matches, so that a lost one shows
    return made


class Runner:
    """Starts commands in folders of their own, and ends what a failing test leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[Command] = []

    def start(self, catalog: Catalog, source: str, sink: str, *more: str, checkpoint: str = "state") -> Command:
        folder = self.folder / f"command-{len(self.commands)}"
        folder.mkdir()
        words = ["run", "--catalog", str(catalog.path), "--source", source, "--sink", sink]
        words += ["--checkpoint", str(self.folder / checkpoint), "--master", "local[2]", *more]
        self.commands.append(Command(folder, *words))
        return self.commands[-1]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    yield made
    for command in made.commands:
        if not command.ended():
            command.kill()


def headers_of(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def test_matches_and_dead_letters_reach_their_topics_with_all_that_came_along(
    kafka: Kafka, catalog: Catalog, runner: Runner
) -> None:
    rows = events(300, seed=5)
    ticks, matches = kafka.topic("ticks", partitions=2), kafka.topic("matches")
    good = [
        {"value": line, "key": row["symbol"], "headers": {"trace": row["event_id"].encode()}}
        for row, line in zip(rows, as_lines(rows), strict=True)
    ]
    poison: dict[bytes | None, str] = {
        b"not JSON": "not a JSON object",
        b'{"event_id": "b1", "price": "abc"}': "price",
        b'{"event_id": "b2", "price": ': "",
        b'[{"event_id": "b3", "price": 1}]': "not a JSON object",
        b'{"event_id": "b4", "symbol": "\xff\xfe"}': "UTF-8",
        b'{"event_id": "b5", "symbol": "' + b"x" * 5_000_000 + b'"}': "5000032 bytes",
        None: "no value",
    }
    kafka.send(ticks, good[:150])
    kafka.send(ticks, [{"value": value, "key": "poison", "headers": {"trace": b"p"}} for value in poison])
    kafka.send(ticks, good[150:])
    place = f"kafka:{kafka.address}/{{}}"
    command = runner.start(
        catalog, place.format(ticks), place.format(matches), "--key", "event_id", "--rate", "200", "--until-empty",
        "--keep", "value", "--keep", "key", "--keep", "headers", "--keep", "offset",
    )  # fmt: skip
    assert command.finish() == 0, command.errors()
    summary = json.loads(command.output())
    assert (summary["events"], summary["malformed"]) == (307, 7)
    assert "behind" in command.errors()

    found = kafka.read(matches)
    values = [json.loads(each.value()) for each in found]
    assert len(found) == summary["matches"]
    assert {(value["event_id"], value["subscription_id"]) for value in values} == expected(
        catalog.subscriptions(), rows
    )
    row_of = {row["event_id"]: row for row in rows}
    for message, value in zip(found, values, strict=True):
        row = row_of[value["event_id"]]
        assert value["event"] == row
        assert message.key().decode() == row["symbol"]
        assert headers_of(message) == {
            "trace": row["event_id"],
            "eventsieve-event": row["event_id"],
            "eventsieve-subscription": str(value["subscription_id"]),
            "eventsieve-version": "1",
            "eventsieve-mode": "exact",
        }

    letters = kafka.read(f"{ticks}-dead-letter")
    assert {each.value(): each.key() for each in letters} == dict.fromkeys(poison, b"poison")
    for letter in letters:
        told = headers_of(letter)
        assert poison[letter.value()] in told["eventsieve-reason"]
        assert told["eventsieve-event"].startswith(f"{ticks}/")
        assert told["trace"] == "p"
