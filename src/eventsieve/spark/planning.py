"""The choice of a matcher, made once on the driver for all shards. Workers build what they are told to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eventsieve.index.automatic import WISHES, plan_for
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.report import LoadWarning
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE: Final = 4096
"""Events that a worker matches at a time."""
_SAMPLED: Final = 20_000
"""Subscriptions of a DataFrame that the choice is made by."""


class Decision(NamedTuple):
    """What workers build with, and the plan behind it in plain values, None where the matcher was named."""

    matcher: str
    params: dict[str, Any]
    plan: dict[str, Any] | None


def decide(
    subscriptions: Subscriptions | DataFrame, matcher: str, params: Mapping[str, Any], schema: Schema, shards: int
) -> Decision:
    """Choose a matcher where none is named; say at once what is wrong with a name or a parameter."""
    if matcher != "auto":
        make_matcher(matcher, **params)
        return Decision(matcher, dict(params), None)
    wishes = {"batch": _AT_ONCE, **{name: value for name, value in params.items() if name in WISHES}}
    own = {name: value for name, value in params.items() if name not in WISHES}
    if isinstance(subscriptions, Subscriptions):
        plan = plan_for(subscriptions, wishes, shards)
    else:
        sample, n_clauses = _sample(subscriptions, schema)
        plan = plan_for(sample, wishes, shards, n_clauses)
    chosen = {**own, **plan.chosen.params}
    # Whatever is no wish goes to the matcher, such as the ladder of an elastic one.
    make_matcher(plan.chosen.matcher, **chosen)
    return Decision(plan.chosen.matcher, chosen, plan.to_dict())


def _sample(subscriptions: DataFrame, schema: Schema) -> tuple[Subscriptions, int]:
    """Return some subscriptions of a DataFrame and the number of clauses that all of them should have."""
    n_rows = subscriptions.count()
    few = Subscriptions(schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # the job itself reads every row and says what is wrong
        few.add_arrow(subscriptions.select("id", "filter").limit(_SAMPLED).toArrow())
    table = few.table()
    n_clauses = int((table.stop > table.start).sum())
    return few, n_clauses * n_rows // max(1, min(n_rows, _SAMPLED))
