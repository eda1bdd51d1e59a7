"""Cells of a triangle: which one an interval lies in, and where a cell lies.

A domain is cut into `scale` cells. A triangle of the whole domain has n_cells of them, its scale; a finer triangle, for
intervals that lie within one cell on the diagonal of a coarser one, cuts that cell into n_cells again.
"""

from __future__ import annotations

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import CODE_BITS, code_of
from eventsieve.matchers.gem_tree.layout import Shape


@inlined
def cell_of_value(code: int, scale: int, n_cells: int) -> int:
    """Return the cell, from 0 to n_cells - 1, of a value's code within the triangle of this scale that it falls into.

    Whole numbers keep the scales in step: codes in one cell of a scale are in one cell of every coarser scale.
    """
    return ((code * scale) >> CODE_BITS) % n_cells


@kernel
def cell_of_interval(shape: Shape, a: int, low: float, high: float, scale: int) -> int:
    """Return the number of the cell of an interval: its low end gives the column, its high end the row."""
    column = cell_of_value(code_of(shape.transform, a, low), scale, shape.n_cells)
    row = cell_of_value(code_of(shape.transform, a, high), scale, shape.n_cells)
    return row * (row + 1) // 2 + column


@inlined
def row_of(cell: int) -> int:
    """Return the row of a cell by its number."""
    row = 0
    while (row + 1) * (row + 2) // 2 <= cell:
        row += 1
    return row


@inlined
def column_of(cell: int) -> int:
    """Return the column of a cell by its number."""
    row = row_of(cell)
    return cell - row * (row + 1) // 2
