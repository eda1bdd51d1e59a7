"""Which predicates a plan leaves out, and which of them it asks about afterwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.population import Population

Mask = NDArray[np.bool_]


class Skips(NamedTuple):
    """Masks over the predicates of a population."""

    skipped: Mask
    """Left out of the index."""
    unchecked: Mask
    """Those that nobody asks about afterwards either: only their clauses can give false matches."""

    @classmethod
    def nothing(cls, population: Population) -> Skips:
        none = np.zeros(population.attribute.size, np.bool_)
        return cls(none, none)

    @classmethod
    def for_good(cls, skipped: Mask) -> Skips:
        """Leave predicates out and never ask, as EEM does."""
        return cls(skipped, skipped)

    def checked_clauses(self, population: Population) -> NDArray[np.int64]:
        """Return the clauses whose matches are checked again: those with a skipped predicate that is not unchecked."""
        return np.flatnonzero(population.has(self.skipped & ~self.unchecked))
