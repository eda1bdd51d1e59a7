"""The state folder: what a broker needs to go on after a stop or a crash. One broker at a time uses it.

lock               held while a broker runs
journal/           publications that are not delivered yet
subscribers/NAME/  backlogs that did not fit into memory
positions/         how far sources of files are read
dead-letter.jsonl  messages that cannot be matched
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO
from urllib.parse import quote

from eventsieve.errors import BrokerError


class StateFolder:
    """The paths in a folder, and the lock on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path / "lock")

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def letters(self) -> Path:
        return self.path / "dead-letter.jsonl"

    def backlog_of(self, subscriber: str) -> Path:
        """Return the folder of a subscriber's backlog."""
        return self.path / "subscribers" / quote(subscriber, safe="")

    def release(self) -> None:
        """Let another broker use the folder."""
        self._lock.close()


def positions_file(state: Path, source: str) -> Path:
    """Return where a source of files remembers how far it is."""
    return state / "positions" / f"{quote(source, safe='')}.json"


def _locked(path: Path) -> IO[str]:
    file = open(path, "w")  # noqa: SIM115  (kept open: the system frees the lock when the process ends, however it ends)
    if sys.platform == "win32":
        return file
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        file.close()
        raise BrokerError(
            f"the state folder {path.parent} is in use by another broker; stop that one, or name another folder"
        ) from cause
    return file
