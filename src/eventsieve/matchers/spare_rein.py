"""Spare-REIN: REIN that leaves out of its lists what is cheaper to check afterwards.

Ours, after EEM. What EEM skips, it skips for good, so F alone limits what can be saved; and at F = 0.1 % that is next
to nothing. But a skipped predicate can be asked about in the end, of the few clauses that are left. So a plan leaves
out whatever takes longer to mark, or to visit, than to check: predicates that their clause can spare because the others
are selective, and whole lists with few entries. F then decides which clauses need no check any more.

With F = 0 every clause is checked, the answer is exact, and it takes less time than REIN's: once `skip_plan(0)` has
been asked for, exact matching goes that way, if it was seen to be quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import Layout, spare_predicates, unchecked_predicates
from eventsieve.elastic.skips import Mask, Skips
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.rein_costs import relative_time
from eventsieve.matchers.skipped_lists import SkippedLists
from eventsieve.matchers.skipping import TABLE_3, SkippingRein
from eventsieve.model.columns import EventColumns
from eventsieve.model.transform import TransformChoice

_EXACT: Final = 0.0
_WORTH: Final = 0.95
"""Part of REIN's time that exact matching by a plan may take at most: otherwise it is not worth its memory."""


class SpareRein(SkippingRein):
    name = "spare-rein"
    summary = "REIN that checks afterwards what its clauses can spare, or not at all within a bound on false matches"
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
        self._spared: Mask | None = None
        """The same for every F: that decides about checks only."""

    def _choose(self, population: Population, budget: Budget, layout: Layout) -> Skips:
        if self._spared is None:
            self._spared = spare_predicates(population, layout, self.unit_costs)
        return Skips(self._spared, unchecked_predicates(population, self._spared, budget.limit))

    def _forget_counts(self) -> None:
        super()._forget_counts()
        self._spared = None

    def _match_part(self, events: EventColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        quick = self._prepared.get(_EXACT)
        return super()._match_part(events) if quick is None else quick._match_part(events)

    def _empty_plan(self) -> SkipPlan:
        """Make the plan for exact matching, and keep it if it is quicker than none."""
        with self._preparing:
            quick = self._prepared.get(_EXACT)
            if quick is None:
                quick = self._prepare(_EXACT)
                if self._is_quicker(quick):
                    self._prepared[_EXACT] = quick
        return quick.plan if _EXACT in self._prepared else super()._empty_plan()

    def _is_quicker(self, lists: SkippedLists) -> bool:
        return relative_time(lists, self, self._timed_events()) < _WORTH
