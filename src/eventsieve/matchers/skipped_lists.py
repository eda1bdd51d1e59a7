"""The bucket lists of one skip plan: REIN's lists without the ends of the skipped predicates.

They are matched by REIN's own walk, over the null bitsets of the matcher they belong to. Where the plan wants clauses
checked afterwards (`left_out`), or has rows in place of lists (`prepared_rows`), that is done by `checked_blocks`. A
clause that is inserted goes into the lists whole and is untouched until the next plan. A clause that is deleted takes
its matches out of the plan's account, so that the plan knows when it has become too generous for what is left.

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
from eventsieve.matchers.checked_blocks import events_at_once, match_blocks
from eventsieve.matchers.left_out import LeftOut, forget_slots, left_out_of, with_room
from eventsieve.matchers.prepared_rows import PreparedRows
from eventsieve.matchers.rein import Rein
from eventsieve.matchers.rein_index import lists_from
from eventsieve.matchers.scratch import borrowed
from eventsieve.model.columns import ClauseTable, EventColumns, flat

_KEPT: Final = "kept_"
_LEFT_OUT: Final = "left_out_"
_CODES: Final = ("rank_start", "ranked", "rows", "asks")
"""What is stored of the left-out predicates: the table of the transform is the owner's."""
_ROOM: Final = 1.25
"""Of the matches to be expected of a batch, since batches differ."""


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
    rows: PreparedRows
    """What is ruled out beforehand; plans made together share it."""
    _left_out: LeftOut
    """What clauses are checked by in the end."""
    _account: NDArray[np.float64]
    """True matches and false ones to be expected per event, and what the model's true ones are multiplied by."""

    def __init__(self, owner: Rein, plan: SkipPlan, rows: PreparedRows) -> None:
        super().__init__(buckets=owner.buckets, transform=owner.transform)
        self.plan = plan
        self.rows = rows
        self._rule = owner._rule
        self._nulls = owner._nulls

    @classmethod
    def made(
        cls, owner: Rein, plan: SkipPlan, population: Population, skips: Skips, rows: PreparedRows
    ) -> SkippedLists:
        """Build the lists of a plan."""
        lists = cls(owner, plan, rows)
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
        lists._left_out = left_out_of(lists._rule.table, checked, owner.n_attributes)
        lists.clauses = owner.clauses
        return lists

    @classmethod
    def stored(cls, owner: Rein, arrays: Mapping[str, NDArray[Any]], rows: PreparedRows) -> SkippedLists:
        """Take up the lists that `arrays` gave."""
        facts = json.loads(arrays["plan"].tobytes())
        plan = SkipPlan.from_json(facts, flat(arrays["plan_touched"], np.int32), flat(arrays["may_see"], np.float64))
        lists = cls(owner, plan, rows)
        lists.restore(arrays, owner.clauses, owner.domains)
        return lists

    @property
    def within_budget(self) -> bool:
        """The false matches that are still to be expected fit the true ones that are left."""
        return bool(self._account[1] <= allowance(self.plan.false_positive) * self._account[0] + 1e-12)

    @property
    def n_bytes(self) -> int:
        """The memory that this plan takes, without rows that it may share."""
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
        forget_slots(slots, self._left_out)

    def _expected_matches(self, events: EventColumns) -> int:
        reported = self.plan.expected_matches + self.plan.expected_false
        return int(_ROOM * reported * (events.start.size - 1))

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        if not (self._left_out.rows.size or self.rows.may_hold.size):
            return super()._match_events(events, first, out_count, out_slots)
        n_blocks, words = self._nulls.rows.alive.shape
        n_group = events_at_once(events.start.size - 1 - first, n_blocks)
        with borrowed("candidates", n_group * n_blocks * words, np.uint64) as candidates:
            return match_blocks(
                self._rule,
                self._lists,
                self._nulls.rows,
                self.rows,
                self._left_out,
                self.clauses,
                events,
                first,
                candidates.reshape(n_group, n_blocks, words),
                out_count,
                out_slots,
            )

    def _build(self) -> None:
        self._build_lists()

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._insert_ends(slots)
        if self.n_slots > self.touched.size:
            room = self.n_slots + self.n_slots // 8
            self.touched, self._altered = (_grown(each, room) for each in (self.touched, self._altered))
            self._left_out = with_room(self._left_out, room)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._delete_ends(slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            **self._lists._asdict(),
            **{_KEPT + name: column for name, column in self._kept._asdict().items()},
            "account": self._account,
            "touched": self.touched,
            "altered": self._altered,
            **{_LEFT_OUT + name: getattr(self._left_out, name) for name in _CODES},
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
        codes = (flat(arrays[_LEFT_OUT + name], arrays[_LEFT_OUT + name].dtype) for name in _CODES)
        self._left_out = LeftOut(self._rule.table, *codes)


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
