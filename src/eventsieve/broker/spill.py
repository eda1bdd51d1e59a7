"""A subscriber's backlog on disk, with its own cursor: the deliveries that did not fit into memory.

    state/subscribers/NAME/   the log, and `done`: the position of the first delivery that is not acknowledged

In a state folder it outlives the broker: a subscriber that is attached under the same name gets its backlog first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from eventsieve.broker.segments import LogReader, SegmentLog, write_atomically
from eventsieve.broker.transport import Delivery
from eventsieve.broker.wire import pack_delivery, unpack_delivery

DISK_LIMIT: Final = 1 << 30
"""Bytes of a backlog unless told otherwise."""
_NOTE_EVERY: Final = 1_000
"""Deliveries acknowledged between two notes: after a crash at most so many come twice."""


class Spill:
    """Deliveries in order."""

    def __init__(self, folder: Path, limit: int, durable: bool, clock: Callable[[], float]) -> None:
        self._log = SegmentLog(folder, segment_bytes=max(1, min(16 << 20, limit // 4)))
        self._note = folder / "done"
        self._limit = limit
        self._durable = durable
        self._clock = clock
        self._done = self._noted = max(self._log.first, _read_number(self._note))
        self._reader = LogReader(self._log, self._done)
        self._inherited = self._log.next

    def __len__(self) -> int:
        """Return the number of deliveries that were not read back yet."""
        return self._log.next - self._reader.position

    @property
    def full(self) -> bool:
        """Whether its part of the disk is used up."""
        return self._log.n_bytes >= self._limit

    def append(self, deliveries: Sequence[Delivery], in_memory: int) -> None:
        """Write deliveries down; they are safe when this returns. The first ones need not be read back.

        Those that need not must be next: everything before them has been read.
        """
        self._log.append([pack_delivery(delivery) for delivery in deliveries])
        if self._durable:
            self._log.sync()
        if in_memory:
            self._reader = LogReader(self._log, self._reader.position + in_memory)

    def read(self, limit: int) -> list[Delivery]:
        """Return the next deliveries. The time on disk counts as latency, but not that of an earlier process."""
        first = self._reader.position
        found = [unpack_delivery(data) for data in self._reader.read(limit)]
        now = self._clock()
        return [each._replace(received=now) if first + at < self._inherited else each for at, each in enumerate(found)]

    def done(self, n: int) -> None:
        """Count deliveries that were acknowledged, and give disk space back."""
        self._done += n
        if self._done - self._noted >= _NOTE_EVERY or not len(self):
            self._write_note()

    def close(self) -> None:
        """Keep what is not acknowledged, if this is durable; remove everything otherwise, or when nothing is left."""
        self._write_note()
        self._log.close()
        if not self._durable or self._done == self._log.next:
            shutil.rmtree(self._log.folder, ignore_errors=True)

    def _write_note(self) -> None:
        if self._durable:
            write_atomically(self._note, f"{self._done}\n")
        self._noted = self._done
        self._log.drop_before(self._done)


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return 0  # without a note the whole backlog is delivered once more
