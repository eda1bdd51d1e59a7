"""Value to position: the value transform (`model.transform`) as compiled code.

Every step keeps order: the search for the piece, and within a piece subtraction, multiplication by a slope that is not
negative and addition, cut off at the ends of the piece. So `position(a) < position(b)` proves `a < b` for all
floats, infinities included, and the same holds for any cell made of positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventsieve._kernels.compiler import inlined

if TYPE_CHECKING:
    from eventsieve.model.transform import TransformTable

CODE_BITS: Final = 16
"""Positions as whole numbers: fine enough for any number of cells in use, and a cell is then a multiplication away."""


@inlined
def position_of(table: TransformTable, a: int, value: float) -> float:
    """Return the position of a value of attribute `a`, from 0 to 1."""
    piece = table.start[a]
    after = table.start[a + 1] - 1
    if not value > table.value[piece]:
        return float(table.position[piece])
    if value >= table.value[after]:
        return float(table.position[after])
    while after - piece > 1:
        middle = (piece + after) >> 1
        if table.value[middle] <= value:
            piece = middle
        else:
            after = middle
    position = table.position[piece] + (value - table.value[piece]) * table.slope[piece]
    # The negated form also catches inf * 0, which is not a number.
    if not position > table.position[piece]:
        return float(table.position[piece])
    return float(min(position, table.position[after]))


@inlined
def code_of(table: TransformTable, a: int, value: float) -> int:
    """Return the position of a value of attribute `a` as a whole number below 2**CODE_BITS."""
    return min(int(position_of(table, a, value) * (1 << CODE_BITS)), (1 << CODE_BITS) - 1)


@inlined
def cell_of_code(code: int, n_cells: int) -> int:
    """Return which of `n_cells` equal cells a code falls into."""
    return (code * n_cells) >> CODE_BITS
