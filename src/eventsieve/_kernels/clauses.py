"""A clause against an event, by its exact ends: what every matcher asks in the end of those it is not sure of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel

if TYPE_CHECKING:
    from eventsieve.model.columns import ClauseTable


@kernel
def clause_holds(clauses: ClauseTable, s: int, value: NDArray[np.float64]) -> bool:
    """Say whether values by attribute satisfy the clause at slot s; an absent one is NaN, which lies in no interval."""
    for p in range(clauses.start[s], clauses.stop[s]):
        if not (clauses.low[p] <= value[clauses.attribute[p]] <= clauses.high[p]):
            return False
    return True
