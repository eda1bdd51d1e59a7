"""The audit: a share of the events is matched exactly as well, which tells how many of the reported matches are false.

The bound on false matches comes from a model and a sample of the past. The audit is a measurement of the present: it
chooses events by chance, and counts all matches that were reported for them. Sums of several audits can be added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Audit:
    """What was seen on the events that were matched a second time."""

    events: float = 0
    reported: float = 0
    """Matches that were reported for them."""
    false: float = 0
    """Those that an exact match does not give."""
    lost: float = 0
    """Those that only the exact match gives. Anything but 0 is a bug."""
    reported_squared: float = 0
    false_squared: float = 0
    false_by_reported: float = 0
    """Sums over the events, for the standard error."""

    @classmethod
    def of(cls, reported: NDArray[np.int64], false: NDArray[np.int64], lost: int = 0) -> Audit:
        """Return the sums over some events, from the counts of each."""
        products = (reported @ reported, false @ false, false @ reported)
        return cls(reported.size, int(reported.sum()), int(false.sum()), lost, *map(int, products))

    @classmethod
    def total(cls, audits: Iterable[Audit]) -> Audit:
        """Return the sums over several audits."""
        return cls(*(sum(column) for column in zip(*map(astuple, audits), strict=True)))

    @property
    def share(self) -> float:
        """The share of the reported matches that are false."""
        return self.false / self.reported if self.reported else 0.0

    @property
    def error(self) -> float:
        """Its standard error: that of a ratio of two sums over events, which differ in matches and in false ones.

        >>> audit = Audit.of(np.array([10, 10, 10, 10]), np.array([0, 0, 2, 2]))
        >>> audit.share, round(audit.error, 4)
        (0.1, 0.0577)
        """
        if not self.reported:
            return 0.0
        strays = self.false_squared - 2 * self.share * self.false_by_reported + self.share**2 * self.reported_squared
        return float((max(strays, 0.0) * self.events / max(1, self.events - 1)) ** 0.5 / self.reported)


def chosen_events(n_events: int, share: float, seed: int) -> NDArray[np.int64]:
    """Return which events of a batch are audited: by chance, and the same ones when the batch runs again."""
    return np.flatnonzero(np.random.default_rng((seed, n_events)).random(n_events) < share)
