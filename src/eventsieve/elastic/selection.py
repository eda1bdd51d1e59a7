"""What to skip: three ways of choosing predicates.

* `whole_attributes`: Ada-REIN. The rarest attributes, all of their predicates.
* `width_classes`: WPA-REIN, EEM's Algorithm 1. Classes of predicates from the widest down; in a class whole attributes,
  rarest first, then cells, smallest first.
* `spare_predicates`: ours, with a check afterwards. Whole lists whose few predicates cost more to visit than to check,
  then the predicates that their clause can spare because its other predicates are selective enough. Of the skipped ones
  `unchecked_predicates` says which need no check within the budget.

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
_LIST_ROUNDS = 6


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


def spare_predicates(population: Population, layout: Layout, unit: UnitCosts) -> Mask:
    """Skip what takes longer to mark or to visit than to check afterwards, in the few clauses that are left.

    What rows rule out is not marked in lists as well. Of the rest, first whole lists: the few predicates of one block
    on one attribute, where turning to them is what costs. Then single predicates. One that is left out saves a mark in
    a share 1 - w of the events and makes its clause come up 1/w times as often, so a clause gives up its widest first,
    as long as it pays.
    """
    in_rows = covered_predicates(population)
    starts = [in_rows]
    emptied = _emptied_lists(population, layout, unit, in_rows)
    if (emptied & ~in_rows).any():
        starts.append(emptied)
    choices = [_spared(population, each, unit) for each in starts]
    return min([in_rows, *choices], key=lambda skipped: time_of(population, layout, skipped, unit))


def covered_predicates(population: Population) -> Mask:
    """Return the predicates that rows stand in for."""
    if population.ruled_out is None:
        return np.zeros(population.attribute.size, np.bool_)
    return population.ruled_out.covered & population.may_skip


def time_of(population: Population, layout: Layout, skipped: Mask, unit: UnitCosts) -> float:
    """Return what marking, visiting and checking take per event with these predicates skipped."""
    kept = ~skipped
    presence = population.presence[population.attribute]
    marks = float((presence * (1.0 - population.matchability))[kept].sum())
    visits = np.zeros(int(layout.list_of_predicate.max(initial=-1)) + 1)
    visits[layout.list_of_predicate[kept]] = presence[kept]
    checks = float(population.reported(skipped)[population.has(skipped)].sum())
    return marks * unit.mark + float(visits.sum()) * unit.switch + checks * unit.check


def unchecked_predicates(population: Population, skipped: Mask, limit: float) -> Mask:
    """Return the skipped predicates that need no check within a limit on false matches per event.

    Whole clauses, those first whose reports are false least often: a check costs the same whatever comes of it.
    """
    if not skipped.any() or limit <= 0.0:
        return np.zeros(skipped.size, np.bool_)
    reported = population.reported(skipped)
    false = population.false_matches_of_clauses(skipped)
    altered = np.flatnonzero(population.has(skipped))
    order = altered[np.argsort(false[altered] / reported[altered], kind="stable")]
    fits = np.zeros(population.slot.size, np.bool_)
    fits[order[: int(np.searchsorted(np.cumsum(false[order]), limit, "right"))]] = True
    return skipped & fits[population.clause]


def _emptied_lists(population: Population, layout: Layout, unit: UnitCosts, in_rows: Mask) -> Mask:
    """Skip whole lists beyond those in rows while that pays, the best part of those that do in each round.

    What goes makes the rest of its clauses dearer, so the price of a list is looked at anew in every round. Lists that
    go together cost more than each alone: where half of them would cost more than they save, fewer are tried.
    """
    lists = layout.list_of_predicate
    n_lists = int(lists.max(initial=-1)) + 1
    if not n_lists:
        return in_rows
    presence = population.presence[population.attribute]
    saving = _sums(lists, presence * (1.0 - population.matchability) * unit.mark, n_lists)
    visit = np.zeros(n_lists)
    visit[lists] = presence * unit.switch
    saving += visit
    open_lists = np.bincount(lists[~population.may_skip | in_rows], minlength=n_lists) == 0
    emptied = np.zeros(n_lists, np.bool_)
    skipped = in_rows
    cost, part = time_of(population, layout, skipped, unit), 0.5
    for _ in range(_LIST_ROUNDS):
        price = _sums(lists, _added_candidates(population, skipped), n_lists) * unit.check
        paying = np.flatnonzero(open_lists & ~emptied & (saving > price))
        if not paying.size:
            break
        rank = np.argsort(price[paying] / saving[paying], kind="stable")
        tried = emptied.copy()
        tried[paying[rank[: max(1, int(part * paying.size))]]] = True
        without = in_rows | (tried[lists] & ~_last_of_clause(population, tried[lists]))
        new_cost = time_of(population, layout, without, unit)
        if new_cost < cost:
            emptied, skipped, cost = tried, without, new_cost
        else:
            part /= 4.0
    return skipped


def _added_candidates(population: Population, skipped: Mask) -> NDArray[np.float64]:
    """Return what skipping each predicate, beyond those skipped already, adds in candidates per event.

    The first of a clause adds its true matches as well: they are checked from then on.
    """
    reported = population.reported(skipped)
    checked = np.where(population.has(skipped), reported, 0.0)
    added = reported[population.clause] / population.matchability - checked[population.clause]
    return np.where(skipped, 0.0, population.at_least_seen(added, slice(None)))


def _last_of_clause(population: Population, skipped: Mask) -> Mask:
    """Return for clauses that would lose every predicate their narrowest one: without any, they match always."""
    bare = np.logical_and.reduceat(skipped, population.first)
    narrowest = np.minimum.reduceat(population.matchability, population.first)
    return bare[population.clause] & (population.matchability == narrowest[population.clause])


def _spared(population: Population, skipped: Mask, unit: UnitCosts) -> Mask:
    """Skip more than is skipped already: of each clause its widest predicates, as many as pays best.

    What is paid for is checking the clause whenever the rest of it holds, its true matches included. A clause keeps its
    narrowest, unless it is in rows too.
    """
    predicate = np.flatnonzero(population.may_skip & ~skipped)
    if not predicate.size:
        return skipped
    clause, width = population.clause[predicate], population.matchability[predicate]
    order = np.lexsort((-width, clause))
    predicate, clause, width = predicate[order], clause[order], width[order]
    begins = np.flatnonzero(np.diff(clause, prepend=-1))
    sizes = np.diff(begins, append=clause.size)
    # The clause's own product so far, growing by 1 / w as its predicates go, in logarithms: products get very small.
    reported = population.reported(skipped)
    grown = _running(-np.log(width), begins, sizes)
    chance = np.exp(np.log(np.maximum(reported, 1e-300))[clause] + grown)
    # What was seen of a predicate says how likely the rest of its clause holds, if the model thinks too little of it.
    false = population.at_least_seen(chance * (1.0 - width), predicate)
    chance = np.maximum(chance, false / np.maximum(1.0 - width, 1e-12))
    saving = unit.mark * _running(population.presence[population.attribute[predicate]] * (1.0 - width), begins, sizes)
    paid = np.where(population.has(skipped), reported, 0.0)
    rules = ~skipped | covered_predicates(population)
    kept = np.bincount(population.clause[rules], minlength=population.slot.size)
    place = np.arange(clause.size) - np.repeat(begins, sizes)
    profit = np.where(place + 1 < kept[clause], saving - unit.check * (chance - paid[clause]), -1.0)
    best = np.repeat(np.maximum(np.maximum.reduceat(profit, begins), 0.0), sizes)
    last = np.maximum.reduceat(np.where((profit == best) & (profit > 0.0), place, -1), begins)
    spared = skipped.copy()
    spared[predicate[place <= np.repeat(last, sizes)]] = True
    return spared


def _running(values: NDArray[np.float64], begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return running sums that begin anew with each group."""
    sums = np.cumsum(values)
    running: NDArray[np.float64] = sums - np.repeat(sums[begins] - values[begins], sizes)
    return running


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
