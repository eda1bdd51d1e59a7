"""What the elastic variants of REIN share: skip plans, the smaller lists that carry them out, and matching by them.

Paper: EEM, section 5.1. A plan for one F leaves predicates out. The paper flags cells and asks the flag while walking;
here a plan has bucket lists of its own, without the entries it skips, so what is skipped costs nothing at all, and
F = 0 is REIN itself: the same lists, the same walk. A ladder of F values shares the null bitsets; a plan is made when
its rung is first asked for, and afterwards the choice among plans is a look-up per event.

Differences from the paper: a skipped predicate still asks that its attribute is there, which the null bitsets answer
anyway. So false matches arise only from values, and the model holds for events that lack attributes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.elastic.cost import UnitCosts, gain, lists_in_use, work_of
from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.population import EventSample, NearMisses, Population, population_of
from eventsieve.elastic.precision import BUDGETS, Budget, allowance, measured_share
from eventsieve.elastic.selection import Layout, class_of
from eventsieve.elastic.skips import Skips
from eventsieve.errors import MatcherError
from eventsieve.matchers.base import ElasticMatches, join_results
from eventsieve.matchers.near_misses import near_misses
from eventsieve.matchers.prepared_rows import PreparedRows, cells_of, no_rows, open_slots, rows_from
from eventsieve.matchers.rein import Rein
from eventsieve.matchers.rein_costs import full_events, measured_costs, nanoseconds_per_event
from eventsieve.matchers.skipped_lists import SkippedLists
from eventsieve.matchers.verifying import verify_matches
from eventsieve.model.columns import ClauseTable, EventColumns, flat, slice_events
from eventsieve.model.transform import TransformChoice

TABLE_3: Final = (0.001, 0.003, 0.005, 0.01, 0.03, 0.05)
"""The values of F in Table 3 of the paper: the default ladder."""

_TRIAL_EVENTS: Final = 512
_NEAR_MISS_WORK: Final = 1 << 29
"""Pairs of clause and event at most that near misses are counted on: about a second."""
_TIMED_EVENTS: Final = 16
_TRIAL_ROUNDS: Final = 6
_SAMPLE_VALUES: Final = 1 << 20
_SAMPLE = "sample_"
_PLAN = "plan_"
_ROWS = "rows_"


class SkippingRein(Rein):
    """Base of the elastic matchers. Subclasses say which predicates to skip within a budget."""

    shown_classes = 5
    """Width classes that a plan is described by."""

    def __init__(
        self,
        *,
        buckets: int = 1000,
        transform: TransformChoice = "linear",
        ladder: Sequence[float] = TABLE_3,
        exact: Sequence[int] = (),
        budget: str = "additive",
    ) -> None:
        super().__init__(buckets=buckets, transform=transform)
        self.ladder = tuple(float(share) for share in ladder)
        rising = all(low < high for low, high in pairwise((0.0, *self.ladder, 1.0)))
        if not (self.ladder and rising):
            raise ValueError(f"ladder must be rising shares between 0 and 1, not {self.ladder}")
        if budget not in BUDGETS:
            raise ValueError(f"budget must be one of {', '.join(BUDGETS)}, not {budget!r}")
        self.exact = tuple(int(attribute) for attribute in exact)
        self.budget = budget
        self.unit_costs = UnitCosts()
        self._sample: EventColumns | None = None
        self._near_misses: NearMisses | None = None
        self._true_matches: NDArray[np.int64] | None = None
        """Of each event that plans are tried on. Both are counted once for all plans."""
        self._prepared: dict[float, SkippedLists] = {}
        self._preparing = Lock()

    @abstractmethod
    def _choose(self, population: Population, budget: Budget, layout: Layout) -> Skips:
        """Return which predicates to skip, and which of them to check afterwards."""

    def _paper_matchability(self, population: Population) -> float:
        """Return w of the paper's Y: the mean matchability of what would be skipped."""
        return float(population.matchability.mean()) if population.matchability.size else 1.0

    def calibrate(self) -> UnitCosts:
        """Measure what matching costs on this machine and with this index; later plans choose and predict by it."""
        unit = measured_costs(self.buckets)
        population = self._population()
        nothing = Skips.nothing(population)
        known = work_of(population, nothing, BLOCK_SLOTS, self.buckets, self.n_slots).cost(unit)
        seen = nanoseconds_per_event(self, self._timed_events())
        self.unit_costs = replace(unit, rest=max(0.0, seen - known))
        self._forget_counts()
        self._prepared.clear()
        return self.unit_costs

    def _timed_events(self) -> EventColumns:
        """Return a few events to take times on: of the sample, or drawn uniformly."""
        if self._sample is not None:
            return slice_events(self._sample, 0, min(_TIMED_EVENTS, self._sample.start.size - 1))
        low, high = self.domains
        share = np.random.default_rng(1).random((_TIMED_EVENTS, low.size))
        return full_events(low + (high - low) * share)

    # -- matching ------------------------------------------------------------------------------------------

    def _match_elastic(
        self, events: EventColumns, false_positive: NDArray[np.float64], threads: int, verify: bool
    ) -> ElasticMatches:
        rung = np.searchsorted(np.asarray(self.ladder), false_positive + 1e-12, "right")
        cuts = [0, *(np.flatnonzero(np.diff(rung)) + 1).tolist(), rung.size]
        parts, modes = [(np.zeros(1, np.int64), np.empty(0, np.int32))], [np.empty(0, np.bool_)]
        for first, stop in pairwise(cuts):
            if first < stop:
                share = (0.0, *self.ladder)[rung[first]]
                found, approximate = self._match_run(slice_events(events, first, stop), share, threads, verify)
                parts.append(found)
                modes.append(approximate)
        event_start, slots = join_results(parts)
        return ElasticMatches(event_start, slots, np.concatenate(modes))

    def _match_run(
        self, events: EventColumns, share: float, threads: int, verify: bool
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], NDArray[np.bool_]]:
        """Match events of one F; say of each match whether its clause was touched."""
        lists = self._lists_for(share) if share > 0.0 else None
        if lists is None or not lists.plan.skipped:
            event_start, slots = self.match_batch(events, threads)
            return (event_start, slots), np.zeros(slots.size, np.bool_)
        event_start, slots = lists.match_batch(events, threads)
        approximate = lists.touched[slots]
        if not verify:
            return (event_start, slots), approximate
        keep = np.empty(slots.size, np.bool_)
        counts = np.empty(event_start.size - 1, np.int64)
        verify_matches(self.clauses, events, self.n_attributes, event_start, slots, approximate, keep, counts)
        np.cumsum(counts, out=event_start[1:])
        slots = slots[keep]
        return (event_start, slots), np.zeros(slots.size, np.bool_)

    # -- planning ------------------------------------------------------------------------------------------

    def _skip_plan(self, false_positive: float) -> SkipPlan:
        rung = int(np.searchsorted(np.asarray(self.ladder), false_positive + 1e-12, "right"))
        plan = self._lists_for(self.ladder[rung - 1]).plan if rung else self._empty_plan()
        return replace(plan, asked=false_positive)

    def _ready_share(self, false_positive: float) -> float:
        return max((share for share in self._prepared if share <= false_positive + 1e-12), default=0.0)

    def _learn(self, events: EventColumns) -> None:
        n_events = events.start.shape[0] - 1
        most = max(1, _SAMPLE_VALUES // max(1, events.value.size // max(1, n_events)))
        start, attribute, value = slice_events(events, 0, min(n_events, most))
        self._sample = EventColumns(start, attribute.copy(), value.copy()) if n_events else None
        self._forget_counts()
        self._prepared.clear()

    def _lists_for(self, share: float) -> SkippedLists:
        found = self._prepared.get(share)
        if found is None:
            with self._preparing:
                found = self._prepared.get(share) or self._prepare(share)
                self._prepared[share] = found
        return found

    def _prepare(self, share: float) -> SkippedLists:
        """Choose what to skip, build the lists, and try them on the sample; skip less until the sample agrees."""
        population, rows = self._ruled_out(self._population())
        layout = self._layout(population)
        budget = self._budget_for(share, population)
        trial = self._trial_events()
        for _ in range(_TRIAL_ROUNDS):
            skipped = self._choose(population, budget, layout)
            plan = self._describe_plan(share, budget, population, skipped)
            lists = SkippedLists.made(self, plan, population, skipped, rows)
            if trial is None or not skipped.skipped.any():
                return lists
            measured, error = self._measured_share(lists, trial)
            lists.plan = replace(lists.plan, measured_share=measured, measured_error=error)
            if measured + 2.0 * error <= share or self.budget == "paper":
                return lists
            budget = replace(budget, limit=budget.limit * min(0.9 * share / (measured + 2.0 * error), 0.5))
        nothing = Skips.nothing(population)
        plan = self._describe_plan(share, budget, population, nothing)
        return SkippedLists.made(self, plan, population, nothing, no_rows(self.n_attributes, self.buckets))

    def _ruled_out(self, population: Population) -> tuple[Population, PreparedRows]:
        """Return rows that stand in for lists, none here, and the population as it is with them."""
        return population, no_rows(self.n_attributes, self.buckets)

    def _trial_events(self) -> EventColumns | None:
        """Return the end of the sample: near misses are counted at its beginning, and a trial needs other events."""
        if self._sample is None:
            return None
        n_events = self._sample.start.size - 1
        return slice_events(self._sample, n_events - min(_TRIAL_EVENTS, -(-n_events // 2)), n_events)

    def _measured_share(self, lists: SkippedLists, events: EventColumns) -> tuple[float, float]:
        if self._true_matches is None:
            self._true_matches = np.diff(self.match_batch(events)[0])
        reported = np.diff(lists.match_batch(events)[0])
        return measured_share(reported, reported - self._true_matches)

    def _population(self) -> Population:
        exact = np.zeros(self.n_attributes, np.bool_)
        exact[list(self.exact)] = True
        population = population_of(self.clauses, self.domains, self._event_sample(), exact)
        if self._sample is None:
            return population
        if self._near_misses is None:
            half = -(-(self._sample.start.size - 1) // 2)
            counted = slice_events(self._sample, 0, min(_NEAR_MISS_WORK // max(1, self.n_slots), half))
            self._near_misses = near_misses(self.clauses, population.position, counted, self.n_attributes)
        return replace(population, near_misses=self._near_misses)

    def _event_sample(self) -> EventSample | None:
        return None if self._sample is None else EventSample.of(self._sample, self.n_attributes)

    def _layout(self, population: Population) -> Layout:
        block = population.slot[population.clause] // BLOCK_SLOTS
        cell = self._cells(population.attribute, self.clauses.low[population.position])
        return Layout(block * self.n_attributes + population.attribute, population.attribute * self.buckets + cell)

    def _cells(self, attribute: NDArray[np.int32], value: NDArray[np.float64]) -> NDArray[np.int64]:
        cell = np.empty(attribute.size, np.int64)
        cells_of(self._rule, attribute, value, cell)
        return cell

    def _budget_for(self, share: float, population: Population) -> Budget:
        if self.budget == "paper":
            return Budget.paper(share, population.slot.size, self._paper_matchability(population))
        return Budget.additive(share, population.total_matches)

    def _describe_plan(self, share: float, budget: Budget, population: Population, skips: Skips) -> SkipPlan:
        nothing, (skipped, unchecked) = Skips.nothing(population), skips
        before, after = (
            work_of(population, left_out, BLOCK_SLOTS, self.buckets, self.n_slots) for left_out in (nothing, skips)
        )
        left_out = np.bincount(population.attribute[skipped], minlength=self.n_attributes)
        frequency = np.bincount(population.attribute, minlength=self.n_attributes)
        touched = np.flatnonzero(population.has(unchecked))
        matches, reported = population.matches, population.reported(unchecked)
        n_lists = lists_in_use(population, nothing.skipped, BLOCK_SLOTS)[0].size
        return SkipPlan(
            asked=share,
            false_positive=share,
            budget=self.budget,
            n_clauses=population.slot.size,
            n_predicates=population.attribute.size,
            skipped=int(skipped.sum()),
            paper_skippable=Budget.paper(share, population.slot.size, self._paper_matchability(population)).limit,
            allowed=allowance(share) * population.total_matches,
            expected_false=population.false_matches(unchecked),
            expected_matches=population.total_matches,
            skipped_of_attribute={str(a): (int(left_out[a]), int(frequency[a])) for a in np.flatnonzero(left_out)},
            skipped_of_class=tuple(
                np.bincount(
                    class_of(population.matchability[skipped], self.shown_classes), minlength=self.shown_classes
                ).tolist()
            ),
            lists=(n_lists - lists_in_use(population, skipped, BLOCK_SLOTS)[0].size, n_lists),
            gain=gain(before, after, self.unit_costs),
            touched=population.slot[touched].astype(np.int32),
            may_see=1.0 - matches[touched] / reported[touched],
            checked=skips.checked_clauses(population).size,
            rows=after.row,
        )

    def _empty_plan(self) -> SkipPlan:
        population = self._population()
        return self._describe_plan(0.0, Budget("additive", 0.0), population, Skips.nothing(population))

    # -- changing and keeping ------------------------------------------------------------------------------

    def _forget_counts(self) -> None:
        """Let go of what all plans share: it was counted for other clauses, events or costs."""
        self._near_misses = self._true_matches = None

    def _build(self) -> None:
        for attribute in self.exact:
            if not 0 <= attribute < self.n_attributes:
                raise MatcherError(
                    f"exact names attribute {attribute}, but the attributes are 0 to {self.n_attributes - 1}"
                )
        self._forget_counts()
        self._prepared.clear()
        super()._build()

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._forget_counts()
        super()._insert(slots)
        for lists in self._prepared.values():
            lists.insert(slots, self.clauses)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._forget_counts()
        if self._prepared:
            # What goes away takes its true matches with it, and with them some of what the plan may spend.
            gone = ClauseTable(self.clauses.start[slots], self.clauses.stop[slots], *self.clauses[2:])
            nothing_exact = np.zeros(self.n_attributes, np.bool_)
            matches = population_of(gone, self.domains, self._event_sample(), nothing_exact).matches
            for rows in self._rows_in_use():
                open_slots(self.clauses, slots, rows)
            for share, lists in list(self._prepared.items()):
                lists.forget(slots, matches)
                if self.budget == "additive" and not lists.within_budget:
                    del self._prepared[share]
        super()._delete(slots)

    def _rows_in_use(self) -> list[PreparedRows]:
        """Return the rows of all plans, those that several share once."""
        return list({id(lists.rows): lists.rows for lists in self._prepared.values()}.values())

    def _rebind(self) -> None:
        for lists in self._prepared.values():
            lists.rebind(self.clauses)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        sample = {} if self._sample is None else self._sample._asdict()
        rows = self._rows_in_use()
        number = {id(each): np.array([place]) for place, each in enumerate(rows)}
        plans = {
            f"{_PLAN}{(0.0, *self.ladder).index(share)}_{name}": array
            for share, lists in self._prepared.items()
            for name, array in {**lists.arrays(), _ROWS: number[id(lists.rows)]}.items()
        }
        shared = {f"{_ROWS}{place}_{name}": a for place, each in enumerate(rows) for name, a in each._asdict().items()}
        learned = {_SAMPLE + name: column for name, column in sample.items()}
        return {**super()._arrays(), **learned, **shared, **plans}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        if _SAMPLE + "start" in arrays:
            columns = (arrays[_SAMPLE + name] for name in EventColumns._fields)
            self._sample = EventColumns(*(flat(column, column.dtype) for column in columns))
        rows: dict[int, PreparedRows] = {}
        for rung, share in enumerate((0.0, *self.ladder)):
            stored = _part_of(arrays, f"{_PLAN}{rung}_")
            if _ROWS in stored:  # a plan of an older version is made anew when it is asked for
                number = int(stored[_ROWS][0])
                if number not in rows:
                    rows[number] = rows_from(_part_of(arrays, f"{_ROWS}{number}_"))
                self._prepared[share] = SkippedLists.stored(self, stored, rows[number])

    def _describe(self) -> dict[str, Any]:
        return {
            **super()._describe(),
            "plans": {f"{share:g}": lists.n_bytes for share, lists in sorted(self._prepared.items())},
            "prepared_rows": sum(rows.n_bytes for rows in self._rows_in_use()),
            "sample_events": 0 if self._sample is None else self._sample.start.size - 1,
        }


def _part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
