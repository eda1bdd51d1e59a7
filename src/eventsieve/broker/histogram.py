"""A histogram of durations with buckets that grow with the duration: cheap to fill, exact to about 4 percent."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import frexp, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_PARTS: Final = 16
"""Buckets between a power of two and the next."""
_LEAST: Final = -20
_SHORTEST: Final = 2.0**_LEAST
"""Under a microsecond all durations are one."""
_N_BUCKETS: Final = _PARTS * 40
"""Up to 2**20 s, twelve days."""


@dataclass(frozen=True)
class Window:
    """What a histogram held at a moment, or between two. Times are in seconds."""

    counts: NDArray[np.int64]
    total: float
    squares: float

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return sqrt(max(0.0, self.squares / self.n - self.mean**2)) if self.n else 0.0

    def percentile(self, share: float) -> float:
        """Return the duration that a share of all durations does not exceed, to the width of a bucket."""
        if not self.n:
            return 0.0
        at = int(np.searchsorted(np.cumsum(self.counts), share * self.n))
        return float(upper_bounds()[min(at, _N_BUCKETS - 1)])

    def since(self, earlier: Window) -> Window:
        """Return what was added since an earlier moment."""
        return Window(self.counts - earlier.counts, self.total - earlier.total, self.squares - earlier.squares)

    def as_milliseconds(self) -> dict[str, float]:
        """Return count, mean, deviation and percentiles as plain values for people."""
        shown = {"mean": self.mean, "std": self.deviation}
        shown |= {f"p{round(100 * share)}": self.percentile(share) for share in (0.5, 0.95, 0.99)}
        return {"n": self.n, **{name: round(1000 * value, 4) for name, value in shown.items()}}


class Histogram:
    """Counts durations since it was made; differences of two windows give any span of time.

    >>> latencies = Histogram()
    >>> latencies.add(0.001)
    >>> latencies.add_many([0.010] * 99)
    >>> window = latencies.window()
    >>> window.n, round(window.mean, 4), 0.0099 < window.percentile(0.5) < 0.0105
    (100, 0.0099, True)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * _N_BUCKETS
        self._total = 0.0
        self._squares = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        fraction, exponent = frexp(max(seconds, _SHORTEST))
        bucket = (exponent - 1 - _LEAST) * _PARTS + int((2.0 * fraction - 1.0) * _PARTS)
        with self._lock:
            self._counts[min(bucket, _N_BUCKETS - 1)] += 1
            self._total += seconds
            self._squares += seconds * seconds

    def add_many(self, seconds: Any) -> None:
        """Count many durations."""
        values = np.asarray(seconds, np.float64)
        if values.size <= 4:  # below that, the arrays cost more than they save
            for value in values.tolist():
                self.add(value)
            return
        fraction, exponent = np.frexp(np.maximum(values, _SHORTEST))
        bucket = (exponent - 1 - _LEAST) * _PARTS + ((2.0 * fraction - 1.0) * _PARTS).astype(np.int64)
        place, count = np.unique(np.minimum(bucket, _N_BUCKETS - 1), return_counts=True)
        total, squares = float(values.sum()), float(values @ values)
        with self._lock:
            for at, n in zip(place.tolist(), count.tolist(), strict=True):
                self._counts[at] += n
            self._total += total
            self._squares += squares

    def window(self) -> Window:
        """Return all that was counted until now."""
        with self._lock:
            return Window(np.array(self._counts, np.int64), self._total, self._squares)


def upper_bounds() -> NDArray[np.float64]:
    """Return the upper end of every bucket, in seconds."""
    number = np.arange(_N_BUCKETS)
    return 2.0 ** (number // _PARTS + _LEAST) * (1.0 + (number % _PARTS + 1) / _PARTS)
