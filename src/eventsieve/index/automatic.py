"""`matcher="auto"`: ask the planner, build what it says, and hold what was built against the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from eventsieve.elastic.precision import check_share
from eventsieve.errors import MatcherError, suggestion
from eventsieve.planner import Plan, Wish, choose
from eventsieve.planner.memory import default_budget, read_memory, shown

if TYPE_CHECKING:
    from eventsieve.index.index import Index
    from eventsieve.model.columns import EventColumns
    from eventsieve.subscriptions import Subscriptions

WISHES: Final = ("memory", "batch", "events", "false_positive")
"""What "auto" takes in place of a matcher's parameters."""


def read_wish(params: Mapping[str, Any], columns_of: Callable[[Any], EventColumns]) -> Wish:
    """Check what was given with "auto". `columns_of` reads a sample of events."""
    for name in params:
        if name not in WISHES:
            raise MatcherError(
                f"'auto' takes no parameter {name!r}{suggestion(name, WISHES)}; the parameters of a matcher go with "
                "its name"
            )
    batch, events = params.get("batch"), params.get("events")
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
        raise MatcherError(f"batch is the number of events matched at a time, from 1 on, not {batch!r}")
    return Wish(
        default_budget() if params.get("memory") is None else read_memory(params["memory"]),
        batch,
        None if events is None or not len(events) else columns_of(events),
        check_share(params.get("false_positive", 0.0)),
    )


def plan_for(
    subscriptions: Subscriptions, params: Mapping[str, Any], n_parts: int = 1, n_clauses: int | None = None
) -> Plan:
    """Plan for a collection, or for one of its parts: what a cluster decides once, for all its workers.

    With `n_clauses` the collection is a sample of so many.
    """
    from eventsieve.index.index import read_events

    wish = read_wish(params, lambda events: read_events(subscriptions.schema, events).columns_for(subscriptions.codes))
    table = subscriptions.table()
    n_held = int((table.stop > table.start).sum())
    wanted = n_held if n_clauses is None else n_clauses
    table_bytes = subscriptions.nbytes() * wanted // max(1, n_held)
    part = replace(wish, memory=wish.memory // n_parts)
    return choose(table, subscriptions.domains(), part, wanted // n_parts, table_bytes // n_parts)


def build_within(plan: Plan, build: Callable[[str, Mapping[str, Any]], Index]) -> tuple[Index, Plan]:
    """Build what a plan says; where that turns out larger than the budget, the next that fits."""
    while True:
        index = build(plan.chosen.matcher, plan.chosen.params)
        size = int(index.describe()["index_bytes"])
        if plan.memory is None or size <= plan.memory:
            return index, plan
        refused = plan.chosen.label
        plan = plan.without(f"too large: built, it takes {shown(size)}")
        if plan.chosen.label == refused:
            raise MatcherError(
                f"the index takes {shown(size)} with {refused!r}, more than the {shown(plan.memory or 0)} it may, and "
                "no smaller matcher is left; allow more memory, or cut the subscriptions into shards"
            )
