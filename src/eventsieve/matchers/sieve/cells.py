"""How many cells an attribute has: at most what the memory allows, and fewer where that is faster.

More cells leave fewer clauses to check, and are more to read. A batch reads nearly all rows of a block, once, and one
core takes all that main memory can give: so where few clauses survive anyway, cells only cost, and cost threads most.
Which way it goes is told by a sample of the clauses, for values that are uniform in their codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve._kernels.positions import cell_of_code
from eventsieve.matchers.sieve.layout import NONE, n_rows
from eventsieve.matchers.sieve.predicates import fields

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.predicates import Predicates

MOST_CELLS: Final = 256
_LEAST_CELLS: Final = 4
_STEPS: Final = 16
"""Numbers of cells that are weighed: so many parts of what the memory allows, and one less each time."""
_CHECK_COST: Final = 60.0
"""Nanoseconds to list and check a clause that survives the rows,"""
_BYTES_PER_NS: Final = 20.0
"""and bytes of rows that come from main memory in one of them,"""
_EVENTS: Final = 512
"""for so many events at once."""


def affordable_cells(memory: int, n_row_attributes: int) -> int:
    """Return how many cells so many bytes of rows per clause allow."""
    return min(max(_LEAST_CELLS, memory * 8 // max(1, n_row_attributes)), MOST_CELLS)


def fastest_cells(
    predicates: Predicates, positions: NDArray[np.int32], row_attribute: NDArray[np.int32], most: int
) -> int:
    """Return the number of cells, up to `most`, with which a batch should take the least time."""
    n_row_attributes = int((row_attribute != NONE).sum())

    def cost(cells: int) -> float:
        """Return nanoseconds per event and clause."""
        row_bytes = n_rows(n_row_attributes, cells) / 8
        checks = surviving_share(predicates, positions, row_attribute, cells) * _CHECK_COST
        return checks + row_bytes / _BYTES_PER_NS / _EVENTS

    choices = {max(_LEAST_CELLS, most * step // _STEPS) for step in range(1, _STEPS + 1)}
    return min(sorted(min(choice, most) for choice in choices), key=cost)


@kernel
def surviving_share(
    predicates: Predicates, positions: NDArray[np.int32], row_attribute: NDArray[np.int32], n_cells: int
) -> float:
    """Return the share of these clauses that the rows of an event with all attributes leave, on average."""
    total = 0.0
    for position in positions:
        share = 1.0
        for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
            a, low, high = fields(predicates, p)
            if row_attribute[a] != NONE:
                share *= (cell_of_code(high, n_cells) - cell_of_code(low, n_cells) + 1) / n_cells
        total += share
    return total / max(1, positions.shape[0])
