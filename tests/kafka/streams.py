"""Streams over Kafka as commands in processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventsieve.catalog import Catalog
from tests.spark.processes import Command


class Runner:
    """Starts `eventsieve run` in folders of their own, and ends what a failing test leaves behind."""

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

    def done(self, checkpoint: str) -> int:
        """Return how many batches are finished."""
        return len(list((self.folder / checkpoint / "spark" / "commits").glob("[0-9]*")))

    def end(self) -> None:
        for command in self.commands:
            if not command.ended():
                command.kill()


def headers_of(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}
