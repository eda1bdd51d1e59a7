"""What to skip: three ways of choosing predicates within a budget.

* `whole_attributes`: Ada-REIN. The rarest attributes, all of their predicates.
* `width_classes`: WPA-REIN, EEM's Algorithm 1. Classes of predicates from the widest down; in a class whole attributes,
  rarest first, then cells, smallest first.
* `spare_predicates`: ours. Whole lists whose few predicates cost more to visit than they are worth, then the predicates
  that their clause can spare because its other predicates are selective enough.

Each returns which predicates are skipped. The first two add up what each skip costs on its own; `within` makes sure of
the sum, because two skips on one clause cost more than both alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eventsieve.elastic.cost import UnitCosts
from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import Budget

Mask = NDArray[np.bool_]
Choice = Callable[[float], Mask]
"""From a limit to the predicates that are skipped within it."""

_ROUNDS = 12
_SAMPLE_CLAUSES = 1 << 15


@dataclass(frozen=True)
class Layout:
    """How the index lays predicates out: what shares a list, and what shares a cell of it."""

    list_of_predicate: NDArray[np.int64]
    """One number per block and attribute."""
    cell_of_predicate: NDArray[np.int64]
    """One number per attribute and bucket of the low end."""


def predicate_costs(population: Population, budget: Budget) -> NDArray[np.float64]:
    """Return what skipping each predicate takes from the budget; infinite where it must not be skipped."""
    cost = np.ones(population.attribute.size) if budget.kind == "paper" else population.cost_alone()
    return np.where(population.may_skip, cost, np.inf)


def within(population: Population, budget: Budget, choose: Choice) -> Mask:
    """Return the largest choice found whose false matches stay within the budget, all skips taken together."""
    skipped = choose(budget.limit)
    if budget.kind == "paper":
        return skipped
    limit = budget.limit
    for _ in range(_ROUNDS):
        spent = population.false_matches(skipped)
        if spent <= budget.limit:
            return skipped
        limit *= 0.99 * budget.limit / spent
        skipped = choose(limit)
    return np.zeros(population.attribute.size, np.bool_)


def whole_attributes(population: Population, budget: Budget) -> Mask:
    """Skip the rarest attributes that fit into the budget."""
    cost = predicate_costs(population, budget)
    frequency = np.bincount(population.attribute, minlength=population.presence.size)
    price = _sums(population.attribute, cost, population.presence.size)

    def choose(limit: float) -> Mask:
        return _taken(frequency, price, limit)[population.attribute]

    return within(population, budget, choose)


def width_classes(population: Population, budget: Budget, layout: Layout, n_classes: int) -> Mask:
    """Skip by Algorithm 1: from the widest class down, attributes that fit, then cells that fit."""
    cost = predicate_costs(population, budget)
    width_class = class_of(population.matchability, n_classes)

    def choose(limit: float) -> Mask:
        skipped = np.zeros(population.attribute.size, np.bool_)
        for number in range(n_classes - 1, -1, -1):
            of_class = np.flatnonzero(width_class == number)
            left = _take_groups(population.attribute[of_class], cost[of_class], limit, of_class, skipped)
            rest = of_class[~skipped[of_class]]
            left = _take_groups(layout.cell_of_predicate[rest], cost[rest], left, rest, skipped)
            # Lines 4 to 11 go on to the next class only with what this one could not use.
            limit = left
        return skipped

    return within(population, budget, choose)


def class_of(matchability: NDArray[np.float64], n_classes: int) -> NDArray[np.int64]:
    """Return the width class of each predicate: equal parts of the range from 0 to 1 (line 1)."""
    return np.minimum((matchability * n_classes).astype(np.int64), n_classes - 1)


def spare_predicates(population: Population, budget: Budget, layout: Layout, unit: UnitCosts) -> Mask:
    """Skip what saves most time per false match: first whole lists, then single predicates.

    A predicate that is left out saves marking in a share 1 - w of the events, and adds P (1 - w) false matches, where
    P is the chance that the rest of its clause holds. So P alone ranks predicates, and a clause gives up its widest
    first.
    A whole list also saves the visit. Both are taken up to one rate of false matches per nanosecond, found by bisection
    on a sample of the clauses; the last step, on all of them, uses the budget up exactly.
    """
    price, saving = _lists(population, budget, layout, unit)
    rate = _common_rate(population, budget, price, saving, unit)
    emptied = within(population, budget, lambda limit: _cheapest(price, saving, rate, limit)[layout.list_of_predicate])
    left = budget.limit - population.false_matches(emptied)
    return emptied | _spare(population, emptied, left)


def _lists(
    population: Population, budget: Budget, layout: Layout, unit: UnitCosts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return per list the false matches and the nanoseconds per event that skipping all of it means."""
    presence = population.presence[population.attribute]
    n_lists = int(layout.list_of_predicate.max(initial=-1)) + 1
    price = _sums(layout.list_of_predicate, predicate_costs(population, budget), n_lists)
    marks = presence * (1.0 - population.matchability) * unit.mark
    saving = _sums(layout.list_of_predicate, marks, n_lists)
    visit = np.zeros(n_lists)
    visit[layout.list_of_predicate] = presence * unit.switch
    return price, saving + visit


def _common_rate(
    population: Population,
    budget: Budget,
    price: NDArray[np.float64],
    saving: NDArray[np.float64],
    unit: UnitCosts,
) -> float:
    """Return the false matches per nanosecond at which lists and single predicates together use the budget up."""
    step = max(1, population.slot.size // _SAMPLE_CLAUSES)
    chance, false, _ = _ranked(population, np.zeros(population.attribute.size, np.bool_), step)
    spent = np.cumsum(false) * step
    by_rate = np.argsort(_rates(price, saving), kind="stable")
    list_rates, list_spent = _rates(price, saving)[by_rate], np.cumsum(price[by_rate])

    def total(rate: float) -> float:
        lists, single = np.searchsorted(list_rates, rate, "right"), np.searchsorted(chance, rate * unit.mark, "right")
        return float((list_spent[lists - 1] if lists else 0.0) + (spent[single - 1] if single else 0.0))

    low, high = 0.0, 1.0 / unit.mark
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= budget.limit else (low, middle)
    # The upper end: where widths are equal many lists have one and the same rate, and some of them fit.
    return high


def _rates(price: NDArray[np.float64], saving: NDArray[np.float64]) -> NDArray[np.float64]:
    rates = np.full(price.size, np.inf)
    np.divide(price, saving, out=rates, where=saving > 0)
    return rates


def _cheapest(price: NDArray[np.float64], saving: NDArray[np.float64], rate: float, limit: float) -> Mask:
    """Take lists up to a rate, cheapest rate first, while they fit."""
    rates = _rates(price, saving)
    order = np.argsort(rates, kind="stable")
    fits = (rates[order] <= rate) & (np.cumsum(price[order]) <= limit)
    taken = np.zeros(price.size, np.bool_)
    taken[order[fits]] = True
    return taken


def _spare(population: Population, skipped: Mask, limit: float) -> Mask:
    """Skip single predicates beyond those skipped already, the ones their clause needs least first."""
    _, false, predicate = _ranked(population, skipped, 1)
    chosen = np.zeros(population.attribute.size, np.bool_)
    # Each was taken to go after the wider ones of its clause. If one of those stays, the sum is on the safe side.
    chosen[predicate[: int(np.searchsorted(np.cumsum(false), limit, "right"))]] = True
    return chosen


def _ranked(
    population: Population, skipped: Mask, step: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return (chance that the rest holds, false matches added, predicate) of every step-th clause, by rising chance.

    Each predicate is taken to go after the wider ones of its clause, and a clause keeps its narrowest.
    """
    free = population.may_skip & ~skipped & (population.clause % step == 0)
    predicate = np.flatnonzero(free)
    clause, width = population.clause[predicate], population.matchability[predicate]
    order = np.lexsort((-width, clause))
    predicate, clause, width = predicate[order], clause[order], width[order]
    # The clause's own product so far, growing by 1 / w as its predicates go, in logarithms: products get very small.
    reported = np.log(np.maximum(population.reported(skipped), 1e-300))
    grown = np.cumsum(-np.log(width))
    begins = np.flatnonzero(np.diff(clause, prepend=-1))
    sizes = np.diff(begins, append=clause.size)
    before = np.repeat(grown[begins] + np.log(width[begins]), sizes) if clause.size else grown
    chance = np.exp(reported[clause] + grown - before)
    false = population.at_least_seen(chance * (1.0 - width), predicate)
    # What was seen of a predicate says how likely the rest of its clause holds, if the model thinks too little of it.
    chance = np.maximum(chance, false / np.maximum(1.0 - width, 1e-12))
    kept_left = np.bincount(population.clause[~skipped], minlength=population.slot.size)
    place = np.arange(clause.size) - np.repeat(begins, sizes)
    may_go = place + 1 < kept_left[clause]
    rank = np.argsort(chance[may_go], kind="stable")
    return chance[may_go][rank], false[may_go][rank], predicate[may_go][rank]


def _take_groups(
    key: NDArray[np.integer], cost: NDArray[np.float64], limit: float, predicate: NDArray[np.int64], out_skipped: Mask
) -> float:
    """Mark the predicates of the smallest groups that fit; return what is left of the limit."""
    if key.size == 0:
        return limit
    _, group, size = np.unique(key, return_inverse=True, return_counts=True)
    price = _sums(group, cost, size.size)
    taken = _taken(size, price, limit)
    out_skipped[predicate[taken[group]]] = True
    return limit - float(price[taken].sum())


def _taken(size: NDArray[np.integer], price: NDArray[np.float64], limit: float) -> Mask:
    """Take groups, smallest first, until the next one does not fit. Empty ones and forbidden ones are passed over."""
    taken = np.zeros(size.size, np.bool_)
    order = np.argsort(size, kind="stable")
    order = order[(size[order] > 0) & np.isfinite(price[order])]
    taken[order[: int(np.searchsorted(np.cumsum(price[order]), limit, "right"))]] = True
    return taken


def _sums(key: NDArray[np.integer], values: NDArray[np.float64], n_keys: int) -> NDArray[np.float64]:
    return np.bincount(key, weights=values, minlength=n_keys).astype(np.float64)
