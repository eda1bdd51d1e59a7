"""Starting, watching and killing real processes: conditions are polled, never guessed by a pause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

START = 240.0
"""Seconds that a slow machine may need for anything that starts Spark."""


def wait_for(condition: Callable[[], bool], what: str, seconds: float = START) -> None:
    """Return when the condition holds; fail after a while."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.05)


class Command:
    """An `eventsieve` command in a process group of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        # Open for as long as the command runs.
        self._out, self._err = open(folder / "stdout", "w"), open(folder / "stderr", "w")  # noqa: SIM115
        self.folder = folder
        environment = dict(os.environ, SPARK_LOCAL_IP="127.0.0.1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eventsieve", *words],
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            env=environment,
        )

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition while the command runs."""
        wait_for(lambda: condition() or self.ended(), what)
        assert condition(), f"it ended before {what}: {self.errors()}"

    def finish(self) -> int:
        wait_for(self.ended, "the end of the command")
        self._out.close()
        self._err.close()
        return int(self.process.returncode)

    def kill(self) -> None:
        """Kill the whole group at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._out.close()
        self._err.close()

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def output(self) -> str:
        return (self.folder / "stdout").read_text()

    def descendants(self, named: str) -> list[int]:
        """Return the processes under this one whose command line has a name in it."""
        parents: dict[int, int] = {}
        matching = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if named in (entry / "cmdline").read_text():
                    matching.append(int(entry.name))
            except OSError:
                continue  # it has just ended
        return [pid for pid in matching if self._is_above(pid, parents)]

    def _is_above(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == self.process.pid:
                return True
        return False
