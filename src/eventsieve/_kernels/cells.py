"""Value to cell: cutting the domain of every attribute into cells of equal width.

The mapping is monotone for all floats, infinities included: subtraction, multiplication by a positive number and
truncation each keep order. So with the one function used for bounds and for event values, `cell(a) < cell(b)`
proves `a < b`, and only values that share a cell need the exact comparison. Values outside the domain fall into
the edge cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel


class CellGrid(NamedTuple):
    """Where the cells of each attribute begin, and how many there are in one unit of value."""

    origin: NDArray[np.float64]  # (n_attributes,)
    per_unit: NDArray[np.float64]  # (n_attributes,)
    n_cells: int


def cell_grid(low: NDArray[np.float64], high: NDArray[np.float64], n_cells: int) -> CellGrid:
    """Return the grid that cuts each domain low[a]..high[a] into `n_cells` cells."""
    # A width that overflows gives 0 cells per unit and so one cell for all values: slow, and still exact.
    with np.errstate(over="ignore", divide="ignore"):
        per_unit = n_cells / (high - low)
    return CellGrid(np.ascontiguousarray(low, np.float64), np.ascontiguousarray(per_unit, np.float64), n_cells)


@inlined
def cell_of(value: float, origin: float, per_unit: float, n_cells: int) -> int:
    """Return the cell of one value, from 0 to n_cells - 1."""
    position = (value - origin) * per_unit
    # The negated form also sends 0 * inf, which is not a number, to cell 0.
    if not position > 0.0:
        return 0
    if position >= n_cells:
        return n_cells - 1
    return int(position)


@inlined
def cell_at(position: float, n_cells: int) -> int:
    """Return which of `n_cells` equal cells a position from 0 to 1 falls into."""
    return min(int(position * n_cells), n_cells - 1)


@kernel
def cells_of(
    grid: CellGrid, attribute: NDArray[np.int32], value: NDArray[np.float64], out_cell: NDArray[np.int32]
) -> None:
    """Write the cell of each attribute value."""
    for i in range(value.shape[0]):
        a = attribute[i]
        out_cell[i] = cell_of(value[i], grid.origin[a], grid.per_unit[a], grid.n_cells)
