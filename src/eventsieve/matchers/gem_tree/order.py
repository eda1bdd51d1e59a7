"""What adjustment rests on: how often events visit a cell, and the global order of attributes (section IV-D)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_SHIFT: Final = 0.25
"""Keeps 1, 1/2, 1/4 and 1/8, the usual rates of uniform values, away from the ends of the steps they are rounded in."""


def nothing_seen(n_attributes: int, n_cells: int) -> NDArray[np.int64]:
    """Return the record of seen events to begin with: value counts by attribute and cell, then the events.

    It holds one event per cell with that cell's value in every attribute, which is to say that values are uniform.
    What is seen later soon outweighs it.
    """
    seen = np.ones(n_attributes * n_cells + 1, np.int64)
    seen[-1] = n_cells
    return seen


def visiting_rates(seen: NDArray[np.int64], n_cells: int) -> NDArray[np.float64]:
    """Return, by attribute and cell of its triangle, the share of the seen events that visit the cell.

    An event visits the cells whose column is at or below, and whose row is at or above, the cell of its value. Shares
    are rounded to half powers of two: finer differences are chance, and would scatter clauses that belong together.

    >>> visiting_rates(nothing_seen(1, 2), 2).tolist()  # (0, 0), (1, 0), (1, 1)
    [0.5, 1.0, 0.5]
    """
    values = seen[:-1].reshape(-1, n_cells)
    up_to = np.concatenate([np.zeros((values.shape[0], 1), np.int64), np.cumsum(values, axis=1)], axis=1)
    row, column = np.tril_indices(n_cells)
    rates: NDArray[np.float64] = (up_to[:, row + 1] - up_to[:, column]) / seen[-1]
    rounded: NDArray[np.float64] = np.exp2(np.round(2 * np.log2(np.minimum(rates, 1.0)) - _SHIFT) / 2)
    return rounded.ravel()


def global_order(filed: NDArray[np.int64], normalised: bool) -> NDArray[np.int32]:
    """Return each attribute's place on a path: the smaller the sum of count and dispersion, the earlier.

    `filed` counts predicates by attribute and cell. Normalised, both are taken as shares of the largest.

    >>> global_order(np.array([[9, 0, 0], [1, 1, 1]]), normalised=False).tolist()
    [1, 0]
    """
    count = filed.sum(axis=1).astype(np.float64)
    dispersion = filed.std(axis=1)
    if normalised:
        count /= max(count.max(initial=0.0), 1.0)
        dispersion /= max(dispersion.max(initial=0.0), 1.0)
    place = np.empty(count.size, np.int32)
    place[np.argsort(count + dispersion, kind="stable")] = np.arange(count.size, dtype=np.int32)
    return place
