"""Texts and ids as flat arrays, for snapshots: bytes end to end, and where each text begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.model.ids import Ids


def stored_texts(name: str, texts: pa.LargeStringArray) -> dict[str, NDArray[Any]]:
    """Return an Arrow text array as named arrays."""
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    filled = texts.fill_null("")
    _, offsets, data = filled.buffers()
    start = np.frombuffer(offsets, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    letters = np.frombuffer(data, np.uint8)[start[0] : start[-1]] if data is not None else np.empty(0, np.uint8)
    return {f"{name}/start": start - start[0], f"{name}/bytes": letters, f"{name}/valid": valid.astype(np.bool_)}


def restored_texts(name: str, arrays: Mapping[str, NDArray[Any]]) -> pa.LargeStringArray:
    """Return the Arrow text array that `stored_texts` took apart, over the same memory."""
    start, letters, valid = (arrays[f"{name}/{part}"] for part in ("start", "bytes", "valid"))
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.LargeStringArray.from_buffers(len(valid), pa.py_buffer(start), pa.py_buffer(letters), bitmap)


def stored_ids(ids: Ids) -> dict[str, NDArray[Any]]:
    """Return ids as named arrays; nothing where the slots are the ids."""
    values = ids.values
    if values is None:
        return {}
    if values.dtype != object:
        return {"ids": values}
    texts = pa.array([None if id is None else str(id) for id in values], pa.large_string())
    return {"ids/integer": np.array([isinstance(id, int) for id in values]), **stored_texts("ids", texts)}


def restored_ids(arrays: Mapping[str, NDArray[Any]], n_slots: int) -> Ids:
    """Return the ids that `stored_ids` took apart."""
    if "ids" in arrays:
        return Ids.from_values(arrays["ids"])
    if "ids/start" not in arrays:
        return Ids(n_slots)
    values = restored_texts("ids", arrays).to_numpy(zero_copy_only=False).astype(object)
    for slot in np.flatnonzero(arrays["ids/integer"]):
        values[slot] = int(values[slot])
    return Ids.from_values(values)
