"""Spare-REIN: REIN that leaves out of its lists what is cheaper to check afterwards.

Ours, after EEM. What EEM skips, it skips for good, so F alone limits what can be saved; and at F = 0.1 % that is next
to nothing. But a skipped predicate can be asked about in the end, of the few clauses that are left. So a plan leaves
out whatever takes longer to mark, or to visit, than to check: long lists, for which rows of bits at a lower resolution
stand in (`prepared_rows`); of the others whole lists with few entries, and predicates that their clause can spare
because its others are selective. F then decides which clauses need no check any more.

With F = 0 every clause is checked, the answer is exact, and it takes less time than REIN's: once `skip_plan(0)` has
been asked for, exact matching goes that way, if it was seen to be quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.population import Population, RuledOut
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import (
    Layout,
    covered_predicates,
    spare_predicates,
    time_of,
    unchecked_predicates,
)
from eventsieve.elastic.skips import Mask, Skips
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.prepared_rows import (
    PreparedRows,
    group_cells,
    groups_for,
    left_open,
    no_rows,
    prepared_rows,
)
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

    least_in_rows: ClassVar[int] = 1024
    """Predicates of a block on an attribute that rows may stand in for: they then take some 100 bytes each at most."""

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
        self._rows: tuple[PreparedRows, RuledOut | None] | None = None
        """Both the same for every F: that decides about checks only."""

    def _choose(self, population: Population, budget: Budget, layout: Layout) -> Skips:
        if self._spared is None:
            self._spared = spare_predicates(population, layout, self.unit_costs)
        return Skips(self._spared, unchecked_predicates(population, self._spared, budget.limit))

    def _ruled_out(self, population: Population) -> tuple[Population, PreparedRows]:
        if self._rows is None:
            self._rows = self._make_rows(population)
        rows, ruled_out = self._rows
        return (population if ruled_out is None else population.with_rows(ruled_out)), rows

    def _make_rows(self, population: Population) -> tuple[PreparedRows, RuledOut | None]:
        """Prepare rows for the lists that take longer to mark than a row to read, if checks do not outweigh it."""
        layout, unit = self._layout(population), self.unit_costs
        lists, shape = layout.list_of_predicate, (self._nulls.n_blocks, self.n_attributes)
        fails = population.presence[population.attribute] * (1.0 - population.matchability)
        marking = np.bincount(lists, fails, shape[0] * shape[1]) * unit.mark
        reading = np.tile(population.presence, shape[0])
        wanted = (np.bincount(lists, minlength=marking.size) >= self.least_in_rows) & (marking > reading * unit.row)
        if wanted.any():
            n_groups = groups_for(self.n_slots, int(wanted.sum()))
            group_of_cell, chance = self._resolution(population, n_groups)
            covered = wanted[lists]
            ruled_out = RuledOut(covered, np.where(covered, chance, 1.0), float(reading[wanted].sum()))
            opened = population.with_rows(ruled_out)
            by_rows = ruled_out.rows * unit.row + time_of(opened, layout, covered_predicates(opened), unit)
            if by_rows < time_of(population, layout, np.zeros(covered.size, np.bool_), unit):
                rows = prepared_rows(self._rule, self.clauses, group_of_cell, wanted.reshape(shape), n_groups)
                return rows, ruled_out
        return no_rows(self.n_attributes, self.buckets), None

    def _resolution(self, population: Population, n_groups: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Return the group of each cell, and how likely a predicate is left open by groups."""
        shape, attribute = (self.n_attributes, self.buckets), population.attribute
        values, ends = np.zeros(shape), np.zeros(shape)
        if self._sample is not None:
            np.add.at(values, (self._sample.attribute, self._cells(self._sample.attribute, self._sample.value)), 1.0)
        bounds = [bound[population.position] for bound in (self.clauses.low, self.clauses.high)]
        low_cell, high_cell = (self._cells(attribute, bound) for bound in bounds)
        for bound, cell in zip(bounds, (low_cell, high_cell), strict=True):
            key = attribute.astype(np.int64) * self.buckets + cell
            ends += np.bincount(key[np.isfinite(bound)], minlength=ends.size).reshape(shape)
        group_of_cell = group_cells(values, ends, n_groups)
        return group_of_cell, left_open(group_of_cell, values, attribute, low_cell, high_cell)

    def _forget_counts(self) -> None:
        super()._forget_counts()
        self._spared = self._rows = None

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
