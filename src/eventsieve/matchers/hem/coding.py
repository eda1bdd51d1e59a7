"""Codes: ends of intervals and values of events in 16 bits, and the exact comparison where codes cannot tell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import position_of
from eventsieve.model.columns import EventColumns
from eventsieve.model.transform import TransformTable

CODE_BITS = 16
LAST_CODE = (1 << CODE_BITS) - 1
_ONE = np.uint64(1)


@inlined
def signed(number: np.unsignedinteger[Any]) -> int:
    """Return a number to calculate with: unsigned and signed together make a float."""
    return int(np.int64(number))


@inlined
def _linear(table: TransformTable) -> bool:
    """Say whether every attribute has one linear piece, the usual case, so that nothing is searched.

    Asked of all of them at once, outside of everything else: loops then take a quarter of the time.
    """
    return table.value.shape[0] == 2 * (table.start.shape[0] - 1)


@inlined
def _linear_position(table: TransformTable, a: int, value: float) -> float:
    """Return what `position_of` comes to with one piece."""
    piece = np.uint64(table.start[a])
    first, last = table.position[piece], table.position[piece + _ONE]
    position = first + (value - table.value[piece]) * table.slope[piece]
    # The negated form also catches inf * 0, which is not a number.
    return float(first if not position > first else min(position, last))


@inlined
def _code(position: float) -> int:
    """Return the code of a position: from 1 to 65,534, so that open ends are strictly outside."""
    return 1 + min(int(position * (LAST_CODE - 1)), LAST_CODE - 2)


@inlined
def codes_of(table: TransformTable, a: int, low: float, high: float) -> tuple[int, int]:
    """Return the codes of an interval's ends."""
    if _linear(table):
        low_code = 0 if low == -np.inf else _code(_linear_position(table, a, low))
        high_code = LAST_CODE if high == np.inf else _code(_linear_position(table, a, high))
    else:
        low_code = 0 if low == -np.inf else _code(position_of(table, a, low))
        high_code = LAST_CODE if high == np.inf else _code(position_of(table, a, high))
    return low_code, high_code


@kernel
def value_codes(table: TransformTable, events: EventColumns) -> NDArray[np.int32]:
    """Return the code of every value of the events."""
    codes = np.empty(events.value.shape[0], np.int32)
    for i in range(codes.shape[0]):
        codes[i] = _code(position_of(table, events.attribute[i], events.value[i]))
    return codes
