"""The journal: what was published in this process and is not delivered yet, on disk.

    state/journal/   the log, and `done`: the position up to which everything is delivered

A publication is acknowledged to its publisher when it is in the journal. One that was acknowledged and not done is
published again when the broker next starts: at least once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from eventsieve.broker.segments import LogReader, SegmentLog, write_atomically
from eventsieve.broker.transport import Assignments, Message, Positions
from eventsieve.broker.wire import pack_message, unpack_message
from eventsieve.errors import BrokerError

_SECONDS_BETWEEN_NOTES: Final = 0.5
"""How far `done` may lag: what is delivered and not noted is delivered once more after a crash."""


class Journal:
    """Publications by position. With `fsync` they survive a power cut, without it the end of the process."""

    def __init__(self, folder: Path, fsync: bool, clock: Callable[[], float]) -> None:
        self._log = SegmentLog(folder)
        self._note = folder / "done"
        self._fsync = fsync
        self._clock = clock
        self._syncing = threading.Lock()
        self._synced = self._log.next
        self._noting = threading.Lock()
        self._done = self._noted = self._read_note()
        self._noted_at = clock()

    def append(self, messages: Sequence[Message]) -> None:
        """Write publications. The positions of the messages must be those from `next` on."""
        self._log.append([pack_message(message) for message in messages])

    @property
    def next(self) -> int:
        """The position of the next publication."""
        return self._log.next

    def sync(self, position: int) -> None:
        """Return when the publication at a position will survive. Publishers that wait share one write to the disk."""
        if not self._fsync:
            return
        with self._syncing:
            if self._synced <= position:
                self._synced = self._log.sync()

    def backlog(self) -> Backlog:
        """Return what was acknowledged and not done when the journal was opened, as a source."""
        return Backlog(self._log, self._done + 1)

    def commit(self, position: int) -> None:
        """Note that everything up to a position is delivered; cheap enough to be called for every batch."""
        with self._noting:
            self._done = max(self._done, position)
            if self._clock() - self._noted_at >= _SECONDS_BETWEEN_NOTES:
                self._write_note()

    def close(self) -> None:
        """Note how far it is, and close the log."""
        with self._noting:
            self._write_note()
        self._log.close()

    def _write_note(self) -> None:
        self._noted_at = self._clock()
        if self._noted != self._done:
            write_atomically(self._note, f"{self._done}\n")
            self._noted = self._done
            self._log.drop_before(self._done + 1)

    def _read_note(self) -> int:
        try:
            return int(self._note.read_text(encoding="ascii"))
        except FileNotFoundError:
            return self._log.first - 1
        except ValueError as cause:
            raise BrokerError(
                f"{self._note} holds no number; remove it to deliver all of the journal once more"
            ) from cause


class Backlog:
    """The part of a journal that is published again at the start: a source that comes to an end."""

    def __init__(self, log: SegmentLog, first: int) -> None:
        self.name = "journal"
        self._reader = LogReader(log, first)
        self._stop = log.next

    def __len__(self) -> int:
        return max(0, self._stop - self._reader.position)

    def open(self, assignments: Assignments) -> None:
        """Nothing to connect to."""

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return the next publications, with the positions they had."""
        first = self._reader.position
        found = self._reader.read(min(limit, len(self)))
        return [unpack_message(data)._replace(position=first + at) for at, data in enumerate(found)]

    @property
    def finished(self) -> bool:
        return not len(self)

    def commit(self, positions: Positions) -> None:
        """The journal itself is told."""

    def close(self) -> None:
        """Nothing is open."""
