"""Events of a workload as an Arrow table, a column per attribute, as a file of them would be."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.model.types import AttributeType, Bool, Float, Text, Time
from eventsieve.workload import Workload

CHUNK: Final = 1000
"""Events of a generated stream that are drawn together, from a seed of their own: any part can be drawn again."""


def event_table(workload: Workload, count: int, seed: int = 1) -> pa.Table:
    """Return `count` events with the columns of the workload's schema; null where an event lacks an attribute."""
    start, attribute, value = workload.event_arrays(count, seed)
    event = np.repeat(np.arange(count), np.diff(start))
    columns = {}
    for a, (name, kind) in enumerate(workload.schema().items()):
        mine = np.flatnonzero(attribute == a)
        numbers, absent = np.zeros(count), np.ones(count, bool)
        numbers[event[mine]], absent[event[mine]] = value[mine], False
        columns[name] = _column(kind, numbers, absent, workload.texts().get(name))
    return pa.table(columns)


def _column(kind: AttributeType, numbers: NDArray[Any], absent: NDArray[Any], texts: list[str] | None) -> pa.Array:
    match kind:
        case Float():
            return pa.array(numbers, mask=absent)
        case Text():
            return pa.array(texts or []).take(pa.array(numbers.astype(np.int64), mask=absent))
        case Time():
            return pa.array(numbers.astype(np.int64), pa.int64(), mask=absent).cast(pa.timestamp("us", "UTC"))
        case Bool():
            return pa.array(numbers != 0, mask=absent)
    return pa.array(numbers.astype(np.int64), mask=absent)
