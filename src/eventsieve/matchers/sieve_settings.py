"""What both sieves are told: how much memory their rows may take, and which attributes have rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.together import TogetherMatcher
from eventsieve.matchers.transforms import check_transform
from eventsieve.model.transform import TransformChoice

MOST_CELLS: Final = 256
LEAST_CELLS: Final = 4
RARE: Final = 100
"""An attribute that fewer than one in so many clauses ask for has no rows."""


class SieveMatcher(TogetherMatcher):
    """Base of the sieves: rows of bits by attribute and value cell."""

    def __init__(self, *, memory: int, cells: int | None, rare: int, transform: TransformChoice) -> None:
        if memory < 1:
            raise ValueError(f"memory is a number of bytes per clause from 1 on, not {memory}")
        if cells is not None and not 1 <= cells <= 1024:
            raise ValueError(f"cells must be from 1 to 1024, not {cells}")
        if rare < 1:
            raise ValueError(f"rare must be at least 1, not {rare}")
        self.memory = int(memory)
        self.cells = cells
        self.rare = int(rare)
        self.transform = check_transform(transform)

    def _choose_cells(self, n_row_attributes: int) -> int:
        """Return how many cells were asked for, or how many the memory allows."""
        return self.cells or min(max(LEAST_CELLS, self.memory * 8 // max(1, n_row_attributes)), MOST_CELLS)


def longer(array: NDArray[Any], more: int, fill: Any) -> NDArray[Any]:
    """Return the array with more rows at its end."""
    if more <= 0:
        return array
    added = np.full((more, *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, added]) if array.shape[0] else added
