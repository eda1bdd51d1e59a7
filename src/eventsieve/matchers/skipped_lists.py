"""The bucket lists of one skip plan: REIN's lists without the ends of the skipped predicates.

They are matched by REIN's own walk, over the null bitsets of the matcher they belong to. What the plan wants checked
afterwards lies in rows of its own (`left_out`). A clause that is inserted goes in whole and
is untouched until the next plan. A clause that is deleted takes its matches out of the plan's account, so that the plan
knows when it has become too generous for what is left.

They are stored with the matcher, so that a snapshot opens with its plans ready, and processes share their pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import allowance
from eventsieve.elastic.skips import Skips
from eventsieve.matchers.left_out import check_left_out, coded_rows
from eventsieve.matchers.rein import Rein
from eventsieve.matchers.rein_index import lists_from
from eventsieve.model.columns import ClauseTable, EventColumns, flat

_KEPT: Final = "kept_"


class SkippedLists(Rein):
    """REIN over the kept predicates; not in the registry, since only a skip plan makes one."""

    name = "skipped lists"
    summary = "the lists of one skip plan"

    touched: NDArray[np.bool_]
    """By slot: the plan skips a predicate of the clause for good, so that it can be reported falsely."""
    _altered: NDArray[np.bool_]
    """By slot: the lists do not have the whole clause."""
    _kept: ClauseTable
    """What the lists have of the altered clauses."""
    _left_out: NDArray[np.uint16]
    """By slot: what the clause is checked by again. Zeros check nothing."""
    _account: NDArray[np.float64]
    """True matches and false ones to be expected per event, and what the model's true ones are multiplied by."""

    def __init__(self, owner: Rein, plan: SkipPlan) -> None:
        super().__init__(buckets=owner.buckets, transform=owner.transform)
        self.plan = plan
        self._rule = owner._rule
        self._nulls = owner._nulls

    @classmethod
    def made(cls, owner: Rein, plan: SkipPlan, population: Population, skips: Skips) -> SkippedLists:
        """Build the lists of a plan."""
        lists = cls(owner, plan)
        # Where events were seen, the model's matches are stretched to what they showed.
        stretch = plan.expected_matches / max(float(population.matches.sum()), 1e-300)
        lists._account = np.array([plan.expected_matches, plan.expected_false, stretch])
        lists.touched = np.zeros(owner.n_slots, np.bool_)
        lists.touched[plan.touched] = True
        lists._altered = np.zeros(owner.n_slots, np.bool_)
        lists._altered[population.slot[population.clause[skips.skipped]]] = True
        lists.build(_table(owner.clauses, population, ~skips.skipped), owner.domains)
        # For a later deletion: what an altered clause has here. The others are in the owner's table.
        of_altered = lists._altered[population.slot][population.clause]
        lists._kept = _table(owner.clauses, population, ~skips.skipped & of_altered)
        checked = _table(owner.clauses, population, skips.skipped & ~skips.unchecked)
        lists._left_out = coded_rows(lists._rule.table, checked)
        lists.clauses = owner.clauses
        return lists

    @classmethod
    def stored(cls, owner: Rein, arrays: Mapping[str, NDArray[Any]]) -> SkippedLists:
        """Take up the lists that `arrays` gave."""
        facts = json.loads(arrays["plan"].tobytes())
        plan = SkipPlan.from_json(facts, flat(arrays["plan_touched"], np.int32), flat(arrays["may_see"], np.float64))
        lists = cls(owner, plan)
        lists.restore(arrays, owner.clauses, owner.domains)
        return lists

    @property
    def within_budget(self) -> bool:
        """The false matches that are still to be expected fit the true ones that are left."""
        return bool(self._account[1] <= allowance(self.plan.false_positive) * self._account[0] + 1e-12)

    @property
    def n_bytes(self) -> int:
        """The memory that this plan takes."""
        return sum(array.nbytes for array in self._arrays().values())

    def forget(self, slots: NDArray[np.int32], matches: NDArray[np.float64]) -> None:
        """Take out clauses that still are in the owner's table, and whose expected matches these are."""
        is_touched, is_altered, table = self.touched[slots], self._altered[slots], self.clauses
        sees = self.plan.may_see[np.searchsorted(self.plan.touched, slots[is_touched])]
        self._account[0] -= float(matches.sum()) * self._account[2]
        self._account[1] -= float((matches[is_touched] * sees / (1.0 - sees)).sum())
        self.delete(slots[~is_altered])
        self.clauses = self._kept
        self.delete(slots[is_altered])
        self.clauses = table
        self.touched[slots] = self._altered[slots] = False
        self._left_out[slots] = 0

    def _match_part(self, events: EventColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        event_start, slots = super()._match_part(events)
        if not self._left_out.size:
            return event_start, slots
        counts = np.empty(event_start.size - 1, np.int64)
        kept = check_left_out(
            self._rule.table, self._left_out, self.clauses, events, self.n_attributes, event_start, slots, counts
        )
        np.cumsum(counts, out=event_start[1:])
        return event_start, slots[:kept]

    def _build(self) -> None:
        self._build_lists()

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._insert_ends(slots)
        if self.n_slots > self.touched.size:
            room = self.n_slots + self.n_slots // 8
            self.touched, self._altered = (_grown(each, room) for each in (self.touched, self._altered))
            self._left_out = _grown(self._left_out, room)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._delete_ends(slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            **self._lists._asdict(),
            **{_KEPT + name: column for name, column in self._kept._asdict().items()},
            "account": self._account,
            "touched": self.touched,
            "altered": self._altered,
            "left_out": self._left_out,
            "plan": np.frombuffer(json.dumps(self.plan.to_json()).encode(), np.uint8),
            "plan_touched": self.plan.touched,
            "may_see": self.plan.may_see,
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._lists = lists_from(arrays)
        self._kept = ClauseTable(
            *(flat(arrays[_KEPT + name], arrays[_KEPT + name].dtype) for name in ClauseTable._fields)
        )
        self._account = flat(arrays["account"], np.float64)
        self.touched = flat(arrays["touched"], np.bool_)
        self._altered = flat(arrays["altered"], np.bool_)
        self._left_out = flat(arrays["left_out"], np.uint16)


def _table(clauses: ClauseTable, population: Population, kept: NDArray[np.bool_]) -> ClauseTable:
    """Return a table with some of the predicates, by the same slots."""
    counts = np.zeros(clauses.start.size, np.int64)
    counts[population.slot] = np.bincount(population.clause[kept], minlength=population.slot.size)
    stop = np.cumsum(counts)
    position = population.position[kept]
    return ClauseTable(stop - counts, stop, clauses.attribute[position], clauses.low[position], clauses.high[position])


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return an array by slot with room for more slots, which are as if nothing was ever done to them."""
    return np.concatenate([array, np.zeros((room - len(array), *array.shape[1:]), array.dtype)])
