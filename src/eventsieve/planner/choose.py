"""The choice: rule out by unit costs, try what is left on a sample, take the fastest that fits the memory budget.

A matcher serves single events and batches differently well. Where both matter, the one is taken whose worse side is
the least behind the best: being twice as slow as need be at one of them is not made good by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from eventsieve.errors import MatcherError
from eventsieve.matchers.registry import elastic_matchers, matchers
from eventsieve.model.columns import ClauseTable, Domains, EventColumns, slice_events
from eventsieve.model.statistics import statistics_of
from eventsieve.planner.drawn_events import draw_events
from eventsieve.planner.memory import shown
from eventsieve.planner.plan import AROUND_MS, Basis, Candidate, Cost, Plan, Wish
from eventsieve.planner.trial import BATCH, Bench, Setting, is_compiled
from eventsieve.planner.unit_costs import Facts, predict

FEW: Final = 1000
"""Below so many clauses a scan takes microseconds and nothing is worth a trial."""
_WHOLE: Final = 1 << 14
_LARGEST_SAMPLE: Final = 6 << 14
"""Clauses up to which trials use all of them, and at most."""
_CLEARLY: Final = 3.0
"""A matcher that unit costs put so far behind the best is not tried: they are good to a factor of two."""
_LEAST_TRIED: Final = 3
_MOST_TRIED: Final = 4
_WAIT_FOR_COMPILER: Final = 200_000
"""Clauses from which on a trial is worth compiling a matcher for: some 15 seconds, once per installation."""
_EXAMINED: Final = 2048
_MEETING: Final = 24
"""Clauses and events that the facts are taken from."""
_SMALLER: Final[Mapping[str, Mapping[str, Any]]] = {"sieve": {"memory": 40}}
"""Settings of matchers that trade speed for memory, tried where the default does not fit."""

Measure: TypeAlias = Callable[[Sequence[Setting]], list[Cost]]


@dataclass(frozen=True)
class _Rated:
    """A candidate with its cost, while the choice is made."""

    matcher: str
    params: Mapping[str, Any]
    cost: Cost
    basis: Basis

    def candidate(self, table_bytes: int, verdict: str) -> Candidate:
        return Candidate(
            self.matcher,
            dict(self.params),
            round(self.cost.single_ms + AROUND_MS, 6),
            round(self.cost.batch_ms, 6),
            round(self.cost.matcher_bytes) + table_bytes,
            self.basis,
            verdict,
        )


def choose(
    clauses: ClauseTable,
    domains: Domains,
    wish: Wish,
    n_clauses: int | None = None,
    table_bytes: int | None = None,
    measure: Measure | None = None,
    compiled: Callable[[str], bool] = is_compiled,
) -> Plan:
    """Choose a matcher for a table of clauses, or for `n_clauses` of which the table is a sample.

    `table_bytes` is the size of the whole clause table. `measure` and `compiled` stand for the machine.
    """
    slots = np.flatnonzero(clauses.stop > clauses.start)
    n_clauses = slots.size if n_clauses is None else n_clauses
    table_bytes = sum(array.nbytes for array in clauses) if table_bytes is None else table_bytes
    if n_clauses < FEW or not slots.size:
        return _by_rule(n_clauses, wish)
    sample = _every(clauses, slots, _sample_size(n_clauses))
    events = draw_events(_every(sample, None, _EXAMINED), domains, BATCH) if wish.events is None else wish.events
    facts = _facts(sample, domains, events, n_clauses)
    bench = Bench(sample, n_clauses, domains, _some(events, BATCH), wish.false_positive)
    chooser = _Chooser(wish, table_bytes, facts, measure or bench.costs, compiled)
    kind = "events drawn from the domains" if wish.events is None else "given events"
    based_on = f"trials on {min(bench.n_sampled, n_clauses):,} of them with {kind}"
    return Plan(n_clauses, wish.memory, wish.batch, based_on, chooser.ranked())


def _by_rule(n_clauses: int, wish: Wish) -> Plan:
    name = "ada-rein" if wish.false_positive else "simple"
    taken = Candidate(name, basis="rule", verdict=f"taken: below {FEW:,} clauses there is nothing to gain")
    return Plan(n_clauses, wish.memory, wish.batch, "their number alone", (taken,))


class _Chooser:
    """One choice under way."""

    def __init__(
        self, wish: Wish, table_bytes: int, facts: Facts, measure: Measure, compiled: Callable[[str], bool]
    ) -> None:
        self._wish, self._table_bytes, self._facts = wish, table_bytes, facts
        self._measure, self._compiled = measure, compiled

    def ranked(self) -> tuple[Candidate, ...]:
        """Return all candidates, the one to take first."""
        guessed = self._guessed()
        tried = self._tried(guessed)
        fitting = [each for each in tried if self._fits(each)]
        if not fitting:
            raise self._nothing_fits([*guessed, *tried])
        best = self._in_order(fitting)
        scale = self._scale(guessed, tried)
        rest = [
            replace(each, cost=_scaled(each.cost, scale)) for each in guessed if _label(each) not in map(_label, tried)
        ]
        too_large = [each for each in tried if not self._fits(each)]
        return (
            best[0].candidate(self._table_bytes, self._praise(best)),
            *(each.candidate(self._table_bytes, self._behind(each, best)) for each in best[1:]),
            *(each.candidate(self._table_bytes, self._verdict(each, best)) for each in [*too_large, *rest]),
        )

    # -- by unit costs -----------------------------------------------------------------------------------

    def _guessed(self) -> list[_Rated]:
        """Return every matcher of the wanted kind with the cost that its unit costs give, the best first."""
        if self._wish.false_positive:
            basis = predict("rein", self._facts)
            assert basis is not None
            return [_Rated(name, {}, basis, "unit costs") for name in elastic_matchers()]
        found = []
        for name in matchers():
            cost = predict(name, self._facts)
            if cost is not None:
                found.append(_Rated(name, {}, cost, "unit costs"))
        return self._in_order(found)

    def _fits(self, each: _Rated) -> bool:
        return each.cost.matcher_bytes + self._table_bytes <= self._wish.memory

    # -- by trials ---------------------------------------------------------------------------------------

    def _tried(self, guessed: list[_Rated]) -> list[_Rated]:
        """Try the plausible ones. A large one may have a smaller setting; the scan is there where nothing else fits."""
        tried = self._trials([(each.matcher, {}) for each in self._plausible(guessed)])
        too_large = [each.matcher for each in tried if not self._fits(each)]
        tried += self._trials([(name, _SMALLER[name]) for name in too_large if name in _SMALLER])
        if not any(map(self._fits, tried)):
            rest = [each for each in sorted(guessed, key=_bytes) if self._is_new(each, tried)]
            tried += self._trials([(each.matcher, {}) for each in rest[:_LEAST_TRIED]])
        return tried

    def _is_new(self, each: _Rated, tried: list[_Rated]) -> bool:
        return self._fits(each) and _label(each) not in map(_label, tried)

    def _plausible(self, guessed: list[_Rated]) -> list[_Rated]:
        if self._wish.false_positive:
            return guessed
        # Unit costs of memory are good to a third; the trial is stricter.
        could_fit = [each for each in guessed if each.cost.matcher_bytes * 0.5 + self._table_bytes <= self._wish.memory]
        n_near = sum(self._score(each, could_fit) <= _CLEARLY for each in could_fit)
        near = could_fit[: min(max(n_near, _LEAST_TRIED), _MOST_TRIED)]
        patient = self._facts.n_clauses >= _WAIT_FOR_COMPILER
        return [each for number, each in enumerate(near) if number == 0 or patient or self._compiled(each.matcher)]

    def _trials(self, settings: list[Setting]) -> list[_Rated]:
        costs = self._measure(settings) if settings else []
        return [_Rated(name, params, cost, "timed") for (name, params), cost in zip(settings, costs, strict=True)]

    # -- comparing ---------------------------------------------------------------------------------------

    def _score(self, each: _Rated, among: list[_Rated]) -> float:
        """Return how many times slower than the best of all it is, at what is asked for."""
        single = (each.cost.single_ms + AROUND_MS) / (min(other.cost.single_ms for other in among) + AROUND_MS)
        batch = each.cost.batch_ms / max(1e-9, min(other.cost.batch_ms for other in among))
        if self._wish.batch is None:
            return max(single, batch)
        return single if self._wish.batch == 1 else batch

    def _in_order(self, rated: list[_Rated]) -> list[_Rated]:
        return sorted(rated, key=lambda each: (self._score(each, rated), each.matcher))

    def _scale(self, guessed: list[_Rated], tried: list[_Rated]) -> float:
        """Return how this machine and these clauses compare with the unit costs, by those that were tried."""
        guess = {each.matcher: each.cost for each in guessed}
        ratios = [
            (each.cost.single_ms + AROUND_MS) / (guess[each.matcher].single_ms + AROUND_MS)
            for each in tried
            if each.matcher in guess and not each.params
        ]
        return float(np.median(ratios)) if ratios else 1.0

    # -- words -------------------------------------------------------------------------------------------

    def _praise(self, best: list[_Rated]) -> str:
        if len(best) == 1:
            return "taken: the only one tried that fits"
        if self._wish.batch is None:
            return "taken: nearest to the best at single events and batches alike"
        return f"taken: fastest {'one at a time' if self._wish.batch == 1 else 'in batches'}"

    def _behind(self, each: _Rated, best: list[_Rated]) -> str:
        return f"slower: {self._score(each, best):.2f} times the best, the one taken {self._score(best[0], best):.2f}"

    def _verdict(self, each: _Rated, best: list[_Rated]) -> str:
        if not self._fits(each):
            return f"too large: {shown(each.cost.matcher_bytes + self._table_bytes)}"
        behind = self._score(each, [*best, each])
        if behind <= _CLEARLY and not self._compiled(each.matcher):
            return "not tried: it would have to be compiled first"
        return f"not tried: about {behind:.1f} times the best"

    def _nothing_fits(self, rated: list[_Rated]) -> MatcherError:
        least = min(each.cost.matcher_bytes for each in rated) + self._table_bytes
        return MatcherError(
            f"no matcher fits {self._facts.n_clauses:,} clauses into {shown(self._wish.memory)}: the smallest takes "
            f"about {shown(least)}, {shown(self._table_bytes)} of it the clauses themselves; allow more memory, or cut "
            "the subscriptions into shards"
        )


def _label(each: _Rated) -> tuple[str, str]:
    return each.matcher, repr(sorted(each.params.items()))


def _bytes(each: _Rated) -> float:
    return each.cost.matcher_bytes


def _scaled(cost: Cost, factor: float) -> Cost:
    single = (cost.single_ms + AROUND_MS) * factor - AROUND_MS
    return Cost(max(0.0, single), cost.batch_ms * factor, cost.matcher_bytes)


# -- samples -----------------------------------------------------------------------------------------------


def _sample_size(n_clauses: int) -> int:
    if n_clauses <= _WHOLE:
        return n_clauses
    # Whole multiples, so that no matcher's last page is half empty.
    return min(max(1, n_clauses // 5 // _WHOLE) * _WHOLE, _LARGEST_SAMPLE)


def _every(clauses: ClauseTable, slots: np.ndarray[Any, Any] | None, count: int) -> ClauseTable:
    """Return `count` clauses, evenly spread, as a table over the same predicates."""
    held = np.arange(clauses.start.shape[0]) if slots is None else slots
    picked = held[np.arange(min(count, held.size)) * held.size // min(count, held.size)]
    return clauses._replace(start=clauses.start[picked], stop=clauses.stop[picked])


def _some(events: EventColumns, count: int) -> EventColumns:
    return slice_events(events, 0, min(count, events.start.shape[0] - 1))


def _facts(sample: ClauseTable, domains: Domains, events: EventColumns, n_clauses: int) -> Facts:
    few = _every(sample, None, _EXAMINED)
    return Facts.of(statistics_of(few, domains, _some(events, _MEETING)), n_clauses)
