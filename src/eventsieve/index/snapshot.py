"""The snapshot format: named flat arrays and a little JSON in one file, opened by memory map.

    8 bytes   magic
    8 bytes   format version
    8 bytes   length of the header
    8 bytes   checksum of the header
    header    JSON: what the caller stores, and for each array its dtype, shape, place and checksum
    arrays    each at a multiple of 64 bytes

Nothing in the file is executed or unpickled. It is written beside its final name and moved there when complete.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.checksum import checksum
from eventsieve.errors import SnapshotError

MAGIC: Final = b"evsieve\n"
FORMAT: Final = 1
_ALIGNMENT: Final = 64
_KINDS: Final = "biuf"
_FIXED: Final = 32


def write_snapshot(path: str | PathLike[str], meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a snapshot; readers see the old file or the whole new one, never a part."""
    target = os.path.abspath(fspath(path))
    flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header, places, size = _layout(meta, flat)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".snapshot-", dir=os.path.dirname(target))
    except OSError as cause:
        raise SnapshotError(f"cannot write a snapshot to {target}: {cause}") from cause
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC)
            file.write(np.array([FORMAT, len(header), _checksum(header)], "<u8").tobytes())
            file.write(header)
            for name, array in flat.items():
                file.seek(places[name])
                array.tofile(file)
            file.truncate(size)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException as cause:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(cause, OSError):
            raise SnapshotError(f"cannot write a snapshot to {target}: {cause}") from cause
        raise


def read_snapshot(path: str | PathLike[str], verify: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what was stored. Arrays are mapped copy-on-write: writable, and the file never changes.

    `verify=False` passes over the arrays' checksums; the header is always checked.
    """
    name = fspath(path)
    try:
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _FIXED or file.read(len(MAGIC)) != MAGIC:
                raise SnapshotError(f"{name} is not an eventsieve snapshot; index.save(path) writes one")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as cause:
        raise SnapshotError(f"cannot read the snapshot {name}: {cause.strerror}") from cause
    block = np.frombuffer(mapped, np.uint8)
    version, length, stored = (int(number) for number in block[len(MAGIC) : _FIXED].view("<u8"))
    if version != FORMAT:
        raise SnapshotError(
            f"{name} has snapshot format {version}, this version of eventsieve reads {FORMAT}; build the index again"
        )
    text = block[_FIXED : _FIXED + length].tobytes()
    if len(text) < length or _checksum(text) != stored:
        raise _damaged(name, "its header does not fit its checksum")
    header = json.loads(text)
    if size != header["size"]:
        raise _damaged(name, f"it has {size} bytes, not {header['size']}")
    arrays = {}
    for entry in header["arrays"]:
        dtype = np.dtype(entry["dtype"])
        count = int(np.prod(entry["shape"], dtype=np.int64))
        raw = block[entry["offset"] : entry["offset"] + count * dtype.itemsize]
        if verify and checksum(raw) != entry["checksum"]:
            raise _damaged(name, f"the array {entry['name']!r} does not fit its checksum")
        arrays[entry["name"]] = raw.view(dtype).reshape(entry["shape"])
    return header["meta"], arrays


def _layout(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[bytes, dict[str, int], int]:
    """Return the header, each array's place, and the size of the file.

    Places are counted from the end of a header whose own length depends on them, so room for it is rounded up.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise SnapshotError(f"the array {name!r} of dtype {array.dtype} cannot be stored in a snapshot")
    sums = {name: checksum(array.reshape(-1).view(np.uint8)) for name, array in arrays.items()}
    room = 0
    while True:
        places, offset = {}, _aligned(_FIXED + room)
        for name, array in arrays.items():
            places[name] = offset
            offset = _aligned(offset + array.nbytes)
        entries = [
            {
                "name": name,
                "dtype": array.dtype.newbyteorder("<").str,
                "shape": list(array.shape),
                "offset": places[name],
                "checksum": sums[name],
            }
            for name, array in arrays.items()
        ]
        header = json.dumps({"size": offset, "meta": meta, "arrays": entries}, sort_keys=True).encode()
        if len(header) <= room:
            return header.ljust(room), places, offset
        room = _aligned(len(header) + 256)


def _aligned(offset: int) -> int:
    return (offset + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _checksum(text: bytes) -> int:
    return checksum(np.frombuffer(bytearray(text), np.uint8))


def _damaged(name: str, why: str) -> SnapshotError:
    return SnapshotError(f"the snapshot {name} is damaged: {why}; build the index again")
