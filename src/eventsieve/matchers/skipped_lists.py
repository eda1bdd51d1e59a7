"""The bucket lists of one skip plan: REIN's lists without the ends of the skipped predicates.

They are matched by REIN's own walk, over the null bitsets of the matcher they belong to. A clause that is inserted
goes in whole and is untouched until the next plan. A clause that is deleted takes its matches out of the plan's
account, so that the plan knows when it has become too generous for what is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import allowance
from eventsieve.matchers.rein import Rein
from eventsieve.model.columns import ClauseTable


class SkippedLists(Rein):
    """REIN over the kept predicates; not in the registry, since only a skip plan makes one."""

    name = "skipped lists"
    summary = "the lists of one skip plan"

    touched: NDArray[np.bool_]
    """By slot: the plan skips a predicate of the clause."""

    def __init__(self, owner: Rein, plan: SkipPlan, population: Population, skipped: NDArray[np.bool_]) -> None:
        super().__init__(buckets=owner.buckets, transform=owner.transform)
        self.plan = plan
        self._rule = owner._rule
        self._nulls = owner._nulls
        self._true_matches = plan.expected_matches
        # Where events were seen, the model's matches are stretched to what they showed.
        self._stretch = plan.expected_matches / max(float(population.matches.sum()), 1e-300)
        self._false_matches = plan.expected_false
        self.touched = np.zeros(owner.n_slots, np.bool_)
        self.touched[plan.touched] = True
        self.build(_table(owner.clauses, population, ~skipped), owner.domains)
        # For a later deletion: what a touched clause has here. The others are in the owner's table.
        of_touched = self.touched[population.slot][population.clause]
        self._kept = _table(owner.clauses, population, ~skipped & of_touched)
        self.clauses = owner.clauses

    @property
    def within_budget(self) -> bool:
        """The false matches that are still to be expected fit the true ones that are left."""
        return self._false_matches <= allowance(self.plan.false_positive) * self._true_matches + 1e-12

    @property
    def n_bytes(self) -> int:
        """The memory that this plan takes."""
        arrays = (*self._lists, *self._kept, self.touched, self.plan.touched, self.plan.may_see)
        return sum(array.nbytes for array in arrays)

    def forget(self, slots: NDArray[np.int32], matches: NDArray[np.float64]) -> None:
        """Take out clauses that still are in the owner's table, and whose expected matches these are."""
        is_touched = self.touched[slots]
        touched, table = slots[is_touched], self.clauses
        sees = self.plan.may_see[np.searchsorted(self.plan.touched, touched)]
        self._true_matches -= float(matches.sum()) * self._stretch
        self._false_matches -= float((matches[is_touched] * sees / (1.0 - sees)).sum())
        self.delete(slots[~is_touched])
        self.clauses = self._kept
        self.delete(touched)
        self.clauses = table
        self.touched[touched] = False

    def _build(self) -> None:
        self._build_lists()

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._insert_ends(slots)
        if self.n_slots > self.touched.size:
            grown = np.zeros(self.n_slots + self.n_slots // 8, np.bool_)
            grown[: self.touched.size] = self.touched
            self.touched = grown

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._delete_ends(slots)


def _table(clauses: ClauseTable, population: Population, kept: NDArray[np.bool_]) -> ClauseTable:
    """Return a table with some of the predicates, by the same slots."""
    counts = np.zeros(clauses.start.size, np.int64)
    counts[population.slot] = np.bincount(population.clause[kept], minlength=population.slot.size)
    stop = np.cumsum(counts)
    position = population.position[kept]
    return ClauseTable(stop - counts, stop, clauses.attribute[position], clauses.low[position], clauses.high[position])
