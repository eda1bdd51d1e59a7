"""Spare-REIN: REIN that skips what saves most time per false match.

Ours, after EEM. Its greedy order, widest first, does not ask what a skip costs or gains. Here a predicate is skipped
when its clause can spare it: the other predicates are so selective that it hardly ever decides. And a whole list, the
few predicates of one block on one attribute, is skipped where visiting it costs more time than its false matches are
worth. Both are weighed in the same unit, false matches per nanosecond, with the unit costs of `elastic.cost`.
The bound is that of the other two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import Layout, spare_predicates
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.skipping import TABLE_3, SkippingRein
from eventsieve.model.transform import TransformChoice


class SpareRein(SkippingRein):
    name = "spare-rein"
    summary = "REIN that can skip what its clauses can spare within a bound on false matches"
    capabilities = Capabilities(paper="ours, after EEM", elastic=True, transforms=True)

    def __init__(
        self,
        *,
        buckets: int = 1000,
        transform: TransformChoice = "linear",
        ladder: Sequence[float] = TABLE_3,
        exact: Sequence[int] = (),
    ) -> None:
        super().__init__(buckets=buckets, transform=transform, ladder=ladder, exact=exact)

    def _choose(self, population: Population, budget: Budget, layout: Layout) -> NDArray[np.bool_]:
        return spare_predicates(population, budget, layout, self.unit_costs)
