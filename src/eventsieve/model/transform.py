"""The value transform: how a value becomes a position between 0 and 1, before a domain is cut into cells.

Cells of equal width serve uniform values. Where values crowd together, most cells stay empty and a few hold
everything. The H-Tree paper (section 3.3) answers with the probability integral transform: a value's position is its
rank in the distribution, F(value), and positions are uniform again. Here every distribution, given by its parameters or
learned from a sample, becomes the same thing: a short table of knots per attribute with straight lines in between,
so that one compiled function serves all of them.

The lines only approximate F, and that is enough. Cells must be filled evenly for speed; for exact results the
transform need only keep order, and be the very same function for bounds and event values. Both are evaluated by
`_kernels.positions`, which keeps order for every float.

Differences from the paper: distributions are cut off at the domain's ends, so that all positions are in use; and the
general case, empirical quantiles, is built where the paper names only the normal and the Pareto distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.columns import Domains

N_PIECES: Final = 64
"""Straight lines that stand for a curved distribution function: 8 per cell at the papers' 8 cells per domain."""

TransformChoice: TypeAlias = str | Mapping[int, str] | Mapping[str, str]
"""One distribution for all attributes, or one each for some of them: see `parse_distribution` for the texts."""


class TransformTable(NamedTuple):
    """Attribute a owns the knots start[a]:start[a+1], at least two of them, both columns rising.

    Below its first knot and above its last the position stays what it is there. slope[i] leads from knot i to i + 1.
    """

    start: NDArray[np.int32]  # (n_attributes + 1,)
    value: NDArray[np.float64]  # (n_knots,)
    position: NDArray[np.float64]  # (n_knots,), from 0 to 1
    slope: NDArray[np.float64]  # (n_knots,)


class Distribution(Protocol):
    """How the values of one attribute are spread."""

    def knots(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values and their positions, both rising, for a domain from `low` to `high`."""


@dataclass(frozen=True)
class Linear:
    """Uniform over the domain: the position is the share of the domain below the value."""

    def knots(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array([low, high]), np.array([0.0, 1.0])


@dataclass(frozen=True)
class Normal:
    """The normal distribution, formula (1)."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise ValueError(f"a normal distribution needs a deviation above 0, not {self.deviation}")

    def knots(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        normal = NormalDist(self.mean, self.deviation)
        return _knots_of(normal.cdf, normal.inv_cdf, low, high)


@dataclass(frozen=True)
class Pareto:
    """The Pareto distribution from `scale` upward, formula (3)."""

    scale: float
    shape: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and self.shape > 0):
            raise ValueError(f"a Pareto distribution needs scale and shape above 0, not {self.scale} and {self.shape}")

    def knots(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return _knots_of(self._share_below, self._value_at, low, high)

    def _share_below(self, value: float) -> float:
        return 0.0 if value <= self.scale else 1.0 - (self.scale / value) ** self.shape

    def _value_at(self, share: float) -> float:
        return float(self.scale * (1.0 - share) ** (-1.0 / self.shape))


@dataclass(frozen=True)
class Quantiles:
    """The general case: values at equal steps of rank, lowest first, from a sample or from statistics."""

    values: Sequence[float] | NDArray[np.float64]

    def knots(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ranked = np.sort(np.asarray(self.values, np.float64))
        ranked = ranked[np.isfinite(ranked)]
        rank = np.linspace(0.0, 1.0, ranked.size)
        # A value that fills several ranks gets the middle of them: its neighbours stay apart from it on both sides.
        value, first, count = np.unique(ranked, return_index=True, return_counts=True)
        if value.size < 2:
            return Linear().knots(low, high)
        return value, (rank[first] + rank[first + count - 1]) / 2


def parse_distribution(text: str) -> Distribution | None:
    """Read ``linear``, ``normal MEAN DEVIATION`` or ``pareto SCALE SHAPE``; None for ``quantiles``, which is learned.

    >>> parse_distribution("normal 0.5 0.14")
    Normal(mean=0.5, deviation=0.14)
    """
    name, *numbers = text.lower().split() or [""]
    try:
        match name, [float(number) for number in numbers]:
            case "linear", []:
                return Linear()
            case "quantiles", []:
                return None
            case "normal", [mean, deviation]:
                return Normal(mean, deviation)
            case "pareto", [scale, shape]:
                return Pareto(scale, shape)
    except ValueError as cause:
        raise ValueError(f"transform {text!r}: {cause}") from cause
    raise ValueError(
        f"no transform reads {text!r}; write linear, quantiles, normal MEAN DEVIATION or pareto SCALE SHAPE"
    )


def transform_table(domains: Domains, distributions: Mapping[int, Distribution]) -> TransformTable:
    """Return the table of all attributes; those without a distribution are linear."""
    n_attributes = domains.low.shape[0]
    linear = Linear()
    pieces = [
        distributions.get(a, linear).knots(float(domains.low[a]), float(domains.high[a])) for a in range(n_attributes)
    ]
    start = np.zeros(n_attributes + 1, np.int32)
    np.cumsum([values.size for values, _ in pieces], out=start[1:])
    value = np.concatenate([np.empty(0), *(values for values, _ in pieces)])
    position = np.concatenate([np.empty(0), *(positions for _, positions in pieces)])
    slope = np.zeros(value.size)
    # A step too large for a float gives slope 0: one position for the whole piece, slow and still in order.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steep = np.diff(position) / np.diff(value)
    slope[:-1] = np.where(np.isfinite(steep), np.maximum(steep, 0.0), 0.0)
    return TransformTable(start, value, position, slope)


def choose_distributions(
    choice: TransformChoice, n_attributes: int, learned: Callable[[int], NDArray[np.float64]]
) -> dict[int, Distribution]:
    """Return the distribution per attribute that `choice` asks for; `learned(a)` gives quantiles where it says so."""
    if isinstance(choice, str):
        asked = dict.fromkeys(range(n_attributes), choice)
    else:
        asked = {int(attribute): text for attribute, text in choice.items()}
    for attribute in asked:
        if not 0 <= attribute < n_attributes:
            raise ValueError(f"there is no attribute {attribute} to transform; they are 0 to {n_attributes - 1}")
    return {attribute: parse_distribution(text) or Quantiles(learned(attribute)) for attribute, text in asked.items()}


def _knots_of(
    share_below: Callable[[float], float], value_at: Callable[[float], float], low: float, high: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return equal steps of rank within the domain."""
    first, last = share_below(low), share_below(high)
    if not last > first:
        return Linear().knots(low, high)
    inner = [value_at(first + (last - first) * step / N_PIECES) for step in range(1, N_PIECES)]
    value = np.maximum.accumulate(np.clip(np.array([low, *inner, high]), low, high))
    value, index = np.unique(value, return_index=True)
    return value, np.linspace(0.0, 1.0, N_PIECES + 1)[index]
