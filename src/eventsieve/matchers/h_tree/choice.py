"""Which attributes an H-Tree indexes, and into how many cells it cuts them (sections 3.2 and 3.5)."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.statistics import WIDTH_EDGES, Statistics

FEWEST_CELLS: Final = 4
"""Section 5.2.5: at least four segments make three overlapping cells."""
_MOST_USEFUL_CELLS: Final = 32
_NARROW_SHARE: Final = 0.9


def share_ruled_out(statistics: Statistics, n_cells: int) -> NDArray[np.float64]:
    """Return, per attribute, the share of all clauses that its level rules out for an event of random values.

    This is popularity times narrowness: a predicate that fits a cell is met in 2 of n_cells segments, a wider one in as
    many as it touches, and a clause without a predicate always.
    """
    edges = np.array(WIDTH_EDGES)
    middles = np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2])
    met = np.minimum(1.0, np.maximum(2 / n_cells, middles + 1 / n_cells))
    shares: NDArray[np.float64] = statistics.width_classes @ (1.0 - met) / max(1, statistics.n_clauses)
    return shares


def cells_for(statistics: Statistics, attributes: list[int], weight: float) -> int:
    """Return formula (8)'s number of cells for these attributes, `weight` being that of matching time.

    The upper end of its range is the number of segments that nine in ten of the predicates still fit into.
    """
    classes = statistics.width_classes[attributes].sum(axis=0)
    if not classes.sum():
        return FEWEST_CELLS
    narrow = int(np.searchsorted(np.cumsum(classes), _NARROW_SHARE * classes.sum()))
    most = min(_MOST_USEFUL_CELLS, int(1 / WIDTH_EDGES[narrow]) if narrow else _MOST_USEFUL_CELLS)
    return best_cells(FEWEST_CELLS, max(FEWEST_CELLS, most), len(attributes), weight)


def best_cells(fewest: int, most: int, n_attributes: int, weight: float) -> int:
    """Return formula (8), rounded and kept within `fewest` and `most`.

    In the printed formula 3^l cancels and (R^l - L^l) / (L^-l - R^-l) is (L R)^l, so that all of it comes down to
    c = sqrt(L R) (alpha / beta)^(1 / 2l): the middle of the range, on a scale of ratios, unless the weights differ.

    >>> best_cells(4, 16, 8, 0.5), best_cells(4, 16, 8, 0.99)
    (8, 11)
    """
    ideal: float = sqrt(fewest * most) * (weight / (1 - weight)) ** (1 / (2 * n_attributes))
    return max(fewest, min(most, round(ideal)))
