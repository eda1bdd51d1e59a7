"""A transport of JSON lines: a file, standard input or a followed folder in; a file or standard output out.

A publisher is a file and a position the byte behind a line, so a restart goes on in the middle of a file. Standard
input cannot be read again: what was not delivered when the broker was killed is gone with the pipe.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from eventsieve.broker.segments import write_atomically
from eventsieve.broker.transport import Assignments, DeadLetter, Delivery, Message, Positions
from eventsieve.broker.wire import Output, letter_record, records, to_json
from eventsieve.errors import BrokerError

_LOOK_EVERY: Final = 0.05
"""Seconds between two looks at a followed folder: file systems do not tell."""
_LONGEST_LINE: Final = 16 << 20
"""Bytes of a line beyond which it is cut; the decoder refuses it long before."""
_PIPE_BYTES: Final = 1 << 16


class FileSource:
    """JSON lines of a file, or of every file in a folder, in the order of their names.

    With `follow` it goes on when files grow and new ones come; otherwise it ends with what is there. `positions` is
    where it remembers how far it is.
    """

    def __init__(self, path: str, follow: bool = False, positions: Path | None = None) -> None:
        self.name = path
        self._path = Path(path)
        self._follow = follow
        self._positions_file = positions
        self._done: dict[str, int] = {}
        self._offset: dict[str, int] = {}
        self._ended = False

    def open(self, assignments: Assignments) -> None:
        """Check that there is something to read, and take up the positions."""
        if not self._path.exists():
            raise BrokerError(f"there is nothing at {self._path}; name a file or a folder, or - for standard input")
        if self._positions_file is not None and self._positions_file.exists():
            try:
                self._done = {str(name): int(at) for name, at in json.loads(self._positions_file.read_text()).items()}
            except (ValueError, AttributeError, TypeError) as cause:
                raise BrokerError(
                    f"{self._positions_file} does not say how far the files were read; remove it to begin again"
                ) from cause
        self._offset = dict(self._done)

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return the next lines; wait for some where files are followed."""
        until = time.monotonic() + timeout
        while limit and not self._ended:
            found = self._next_lines(limit)
            if found:
                return found
            if not self._follow:
                self._ended = True
            elif time.monotonic() >= until:
                break
            else:
                time.sleep(min(_LOOK_EVERY, timeout))
        return []

    @property
    def finished(self) -> bool:
        return self._ended

    def commit(self, positions: Positions) -> None:
        """Remember how far each file is done."""
        self._done |= positions
        if self._positions_file is not None:
            write_atomically(self._positions_file, json.dumps(self._done, indent=1))

    def close(self) -> None:
        """Nothing is open."""

    def _next_lines(self, limit: int) -> list[Message]:
        found: list[Message] = []
        for path in self._files():
            if len(found) < limit and path.stat().st_size > self._offset.get(path.name, 0):
                with open(path, "rb") as file:
                    file.seek(self._offset.get(path.name, 0))
                    self._read(file, path.name, limit, found)
        return found

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        return sorted(each for each in self._path.iterdir() if each.is_file() and each.name[0] not in "._")

    def _read(self, file: IO[bytes], name: str, limit: int, found: list[Message]) -> None:
        while len(found) < limit:
            line = file.readline(_LONGEST_LINE)
            if not line or (self._follow and not line.endswith(b"\n") and len(line) < _LONGEST_LINE):
                return  # the end, or a line that is still being written
            self._offset[name] = file.tell()
            if line.strip():
                found.append(Message(line.strip(), name, self._offset[name]))


class PipeSource:
    """JSON lines of standard input. It is never waited for longer than asked, so the broker can stop meanwhile."""

    def __init__(self, pipe: IO[bytes] | None = None) -> None:
        self.name = "-"
        self._pipe = sys.stdin.buffer if pipe is None else pipe
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._number = 0
        self._ended = False

    def open(self, assignments: Assignments) -> None:
        """It is open."""

    def poll(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return the lines that have come, waiting for the first."""
        if limit and not self._lines and not self._ended:
            self._read(timeout)
        found: list[Message] = []
        while self._lines and len(found) < limit:
            self._number += 1
            line = self._lines.popleft().strip()
            if line:
                found.append(Message(line, "-", self._number))
        return found

    def _read(self, timeout: float) -> None:
        try:
            handle = self._pipe.fileno()
        except (OSError, AttributeError):  # not a file of the system's: all of it is there
            data = self._pipe.read()
            self._ended = True
        else:
            if not select.select([handle], [], [], timeout)[0]:
                return
            data = os.read(handle, _PIPE_BYTES)
            self._ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)
        if (self._ended and self._rest) or len(self._rest) > _LONGEST_LINE:
            self._lines.append(self._rest)
            self._rest = b""

    @property
    def finished(self) -> bool:
        return self._ended and not self._lines

    def commit(self, positions: Positions) -> None:
        """A pipe cannot be read again."""

    def close(self) -> None:
        """It stays open."""


class FileSink:
    """JSON lines at the end of a file, or on standard output (`-`). With `fsync` they survive a power cut."""

    def __init__(self, path: str, output: Output = "arrays", with_event: bool = False, fsync: bool = False) -> None:
        self._output: Output = output
        self._with_event = with_event
        self._fsync = fsync and path != "-"
        self._standard = path == "-"
        self._file = sys.stdout.buffer if self._standard else _appending(Path(path))

    def send(self, deliveries: Sequence[Delivery]) -> None:
        lines = [to_json(each) for delivery in deliveries for each in records(delivery, self._output, self._with_event)]
        self._file.write(b"\n".join(lines) + b"\n" if lines else b"")

    def flush(self) -> None:
        self._file.flush()
        if self._fsync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if not self._standard:
            self._file.close()


class FileLetters:
    """Dead letters as JSON lines at the end of a file. The file is made with the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def put(self, letters: Sequence[DeadLetter]) -> None:
        if self._file is None:
            self._file = _appending(self._path)
        self._file.write(b"".join(to_json(letter_record(letter)) + b"\n" for letter in letters))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _appending(path: Path) -> IO[bytes]:
    """Open a file at its end; a line that a crash has cut off is ended first, so that the next one stands alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_off = False
    if path.exists() and path.stat().st_size:
        with open(path, "rb") as end:
            end.seek(-1, os.SEEK_END)
            cut_off = end.read(1) != b"\n"
    file = open(path, "ab")  # noqa: SIM115  (kept open by the caller)
    if cut_off:
        file.write(b"\n")
    return file
