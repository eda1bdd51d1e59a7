"""A log on disk: records with rising positions, in files of a few megabytes, dropped from the front.

Journals and spilled backlogs are such logs. A record is its length, a checksum and its bytes; a tail that a crash cut
off in the middle of a record is found by the checksum and taken away when the log is opened.
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from eventsieve.errors import BrokerError

_HEADER: Final = struct.Struct("<II")
_SEGMENT_BYTES: Final = 16 << 20
_SUFFIX: Final = ".log"


class SegmentLog:
    """Append at the end, read in order, drop from the front. One writer; readers may be other threads."""

    def __init__(self, folder: Path, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        starts = sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}"))
        self._starts = starts or [0]
        if not starts:
            self.path_of(0).touch()
        self._sizes = {start: self.path_of(start).stat().st_size for start in self._starts}
        last = self._starts[-1]
        count, size = _whole_records(self.path_of(last))
        self.next = last + count
        """The position that the next record will have."""
        self._file = open(self.path_of(last), "r+b", buffering=0)  # noqa: SIM115  (kept open for the life of the log)
        self._file.truncate(size)
        self._file.seek(size)
        self._sizes[last] = size

    def path_of(self, start: int) -> Path:
        """Return the file whose first record has this position."""
        return self.folder / f"{start:020d}{_SUFFIX}"

    @property
    def first(self) -> int:
        """The position of the oldest record that is still there."""
        return self._starts[0]

    @property
    def n_bytes(self) -> int:
        """Bytes on disk."""
        return sum(self._sizes.values())

    def append(self, records: Sequence[bytes]) -> int:
        """Write records; return the position of the first. They survive the process, and after `sync` the machine."""
        framed = b"".join(_HEADER.pack(len(record), crc32(record)) + record for record in records)
        with self._lock:
            if self._sizes[self._starts[-1]] >= self._segment_bytes:
                self._begin_segment()
            size = self._sizes[self._starts[-1]]
            try:
                _write_all(self._file.fileno(), framed)
            except OSError:
                # A full disk: half a record must not stand before the next one.
                self._file.truncate(size)
                self._file.seek(size)
                raise
            self._sizes[self._starts[-1]] = size + len(framed)
            first = self.next
            self.next += len(records)
        return first

    def sync(self) -> int:
        """Make what was appended survive a power cut; return the position up to which that is so."""
        with self._lock:
            reached, handle = self.next, os.dup(self._file.fileno())
        try:
            os.fsync(handle)  # outside the lock: whoever appends meanwhile need not wait
        finally:
            os.close(handle)
        return reached

    def drop_before(self, position: int) -> None:
        """Remove files that hold only records before a position."""
        with self._lock:
            while len(self._starts) > 1 and self._starts[1] <= position:
                gone = self._starts.pop(0)
                del self._sizes[gone]
                self.path_of(gone).unlink(missing_ok=True)

    def segment_of(self, position: int) -> int:
        """Return the first position of the file that holds a position."""
        with self._lock:
            return max(start for start in self._starts if start <= max(position, self._starts[0]))

    def close(self) -> None:
        """Close the file that is written to."""
        self._file.close()

    def _begin_segment(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
        self._starts.append(self.next)
        self._sizes[self.next] = 0
        self._file = open(self.path_of(self.next), "w+b", buffering=0)  # noqa: SIM115  (as above)
        sync_folder(self.folder)


class LogReader:
    """Reads a log in order, from a position on."""

    def __init__(self, log: SegmentLog, position: int) -> None:
        self._log = log
        self.position = max(position, log.first)
        """Of the record that is read next."""
        self._segment = log.segment_of(self.position)
        self._offset = _offset_of(log.path_of(self._segment), self.position - self._segment)

    def read(self, limit: int) -> list[bytes]:
        """Return up to `limit` records that are there already."""
        found: list[bytes] = []
        while len(found) < limit and self.position < self._log.next:
            segment = self._log.segment_of(self.position)
            if segment != self._segment:
                self._segment, self._offset = segment, 0
            reached = self.position
            with open(self._log.path_of(segment), "rb") as file:
                file.seek(self._offset)
                while len(found) < limit and (record := _read_record(file)) is not None:
                    found.append(record)
                    self.position += 1
                    self._offset = file.tell()
            if self.position == reached:
                raise BrokerError(
                    f"the log {self._log.path_of(segment)} is damaged at record {reached}; move the folder "
                    f"{self._log.folder} away to start without it"
                )
        return found


def _read_record(file: IO[bytes]) -> bytes | None:
    """Return the next record, None at the end or where it is not whole."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    record = file.read(length)
    return record if len(record) == length and crc32(record) == checksum else None


def _whole_records(path: Path) -> tuple[int, int]:
    """Return the number of whole records at the beginning of a file, and their bytes."""
    count = size = 0
    with open(path, "rb") as file:
        while (record := _read_record(file)) is not None:
            count += 1
            size += _HEADER.size + len(record)
    return count, size


def _offset_of(path: Path, count: int) -> int:
    """Return where record number `count` of a file begins."""
    with open(path, "rb") as file:
        for _ in range(count):
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                break
            file.seek(_HEADER.unpack(header)[0], os.SEEK_CUR)
        return file.tell()


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str, sync: bool = False) -> None:
    """Write a small file that is there as a whole or not at all; with `sync`, after a power cut too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)
    if sync:
        sync_folder(path.parent)
