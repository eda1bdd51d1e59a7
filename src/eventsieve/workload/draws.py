"""Random draws that workloads are made of: distinct attributes, values, orders. All are whole-array operations."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

DISTRIBUTIONS: Final = ("uniform", "normal", "pareto", "zipf")
"""Names of the value distributions over [0, 1] that `positions` draws from."""

_NORMAL_MEAN, _NORMAL_DEVIATION = 0.5, 0.02**0.5
"""H-Tree, section 5.2.2: mean 0.5, variance 0.02."""
_PARETO_SHAPE, _PARETO_START = 2.0, 0.25
"""H-Tree, section 5.2.2: mean 0.5 and "scale 2", read as shape 2; the mean then puts the start at 0.25."""
_ZIPF_CELLS = 1000
"""A continuous domain is cut into this many cells whose popularity follows Zipf's law."""
_TRIES = 16
"""Redraws before a row is finished by a race, which always ends but costs a draw for every attribute."""
_RACE_DRAWS = 1 << 24
"""Draws per block of a race, to bound its memory."""


def zipf_weights(count: int, skew: float) -> NDArray[np.float64]:
    """Return the probabilities of ranks 1 to `count` under Zipf's law; skew 0 is uniform.

    >>> zipf_weights(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def zipf_ranks(rng: np.random.Generator, size: int, count: int, skew: float) -> NDArray[np.int64]:
    """Draw `size` ranks from 0 to `count` - 1, the lower the more popular."""
    if skew == 0:
        return rng.integers(0, count, size)
    cumulative = np.cumsum(zipf_weights(count, skew))
    # Rounding may leave the last sum just under 1.
    return np.minimum(np.searchsorted(cumulative, rng.random(size), side="right"), count - 1)


def distinct_attributes(
    rng: np.random.Generator, rows: int, per_row: int, n_attributes: int, skew: float
) -> NDArray[np.int32]:
    """Draw `per_row` different attributes for each row, rising within the row; attribute 0 is the most popular.

    An attribute is drawn by its Zipf weight and drawn again while the row has it already. Where that takes
    long (few attributes left, or strong skew) the row is finished by a race of exponential clocks, which picks the
    rest of a row with the same probabilities.
    """
    if per_row == n_attributes:
        return np.tile(np.arange(n_attributes, dtype=np.int32), (rows, 1))
    chosen = np.empty((per_row, rows), np.int32)  # a draw per line: lines are read and written front to back
    weights = zipf_weights(n_attributes, skew)
    open_rows = np.arange(rows)
    for draw in range(per_row):
        pending = open_rows
        for _ in range(_TRIES):
            drawn = zipf_ranks(rng, pending.size, n_attributes, skew).astype(np.int32)
            chosen[draw, pending] = drawn
            taken = np.zeros(pending.size, np.bool_)
            for earlier in range(draw):
                taken |= chosen[earlier, pending] == drawn
            pending = pending[taken]
            if not pending.size:
                break
        if pending.size:
            _finish_by_race(rng, chosen, pending, draw, weights)
            open_rows = np.setdiff1d(open_rows, pending, assume_unique=True)
    return np.sort(chosen.T, axis=1)


def positions(
    rng: np.random.Generator, size: int, distribution: str, skew: float, cells: int | None = None
) -> NDArray[np.float64]:
    """Draw `size` places in [0, 1) from a distribution of `DISTRIBUTIONS`; `skew` and `cells` matter to "zipf"."""
    if distribution == "normal":
        return _truncated_normal(rng, size)
    if distribution == "pareto":
        below_one = 1.0 - _PARETO_START**_PARETO_SHAPE
        return np.asarray(_PARETO_START * (1.0 - below_one * rng.random(size)) ** (-1.0 / _PARETO_SHAPE))
    if distribution == "zipf":
        count = cells or _ZIPF_CELLS
        return np.asarray((zipf_ranks(rng, size, count, skew) + rng.random(size)) / count)
    return rng.random(size)


def _finish_by_race(
    rng: np.random.Generator,
    chosen: NDArray[np.int32],
    rows: NDArray[np.int64],
    draw: int,
    weights: NDArray[np.float64],
) -> None:
    """Fill the draws from `draw` on: each free attribute's clock rings after Exp(weight), the first ones win."""
    missing = chosen.shape[0] - draw
    block = max(1, _RACE_DRAWS // weights.size)
    for first in range(0, rows.size, block):
        part = rows[first : first + block]
        clocks = rng.standard_exponential((part.size, weights.size)) / weights
        np.put_along_axis(clocks, chosen[:draw, part].T.astype(np.int64), np.inf, axis=1)
        chosen[draw:, part] = np.argpartition(clocks, missing - 1, axis=1)[:, :missing].T


def _truncated_normal(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    values = rng.normal(_NORMAL_MEAN, _NORMAL_DEVIATION, size)
    outside = np.flatnonzero((values < 0) | (values >= 1))
    while outside.size:
        values[outside] = rng.normal(_NORMAL_MEAN, _NORMAL_DEVIATION, outside.size)
        outside = outside[(values[outside] < 0) | (values[outside] >= 1)]
    return values
