"""Clauses of one collection in the codes of another, all at once where that is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.columns import ClauseTable
from eventsieve.model.types import LARGEST_EXACT, Text

if TYPE_CHECKING:
    from eventsieve.subscriptions.collection import Subscriptions


def in_codes_of(target: Subscriptions, source: Subscriptions) -> ClauseTable | None:
    """Return the source's clause table in the target's codes, which are given as needed.

    Only single values can be translated: `!= 'A'` is an interval around a code, and its neighbours differ between
    collections. Return None if there is such an interval and the codes differ.
    """
    table = source.table()
    differing = [
        a
        for a in source.codes.attributes()
        if target.codes.values(a)[: len(source.codes.values(a))] != source.codes.values(a)
    ]
    if not differing:
        return table
    low, high = table.low.copy(), table.high.copy()
    for a in differing:
        at = np.flatnonzero(table.attribute == a)
        if not isinstance(source.schema.types[a], Text):
            # Integers up to 2**53 stand for themselves.
            at = at[_is_code(low[at]) | _is_code(high[at])]
        if np.any(low[at] != high[at]):
            return None
        known = source.codes.values(a)
        theirs = np.array([source.codes.look_up(a, value) for value in known])
        order = np.argsort(theirs)
        ours = np.array(target.codes.assign_all(a, known))[order]
        low[at] = high[at] = ours[np.searchsorted(theirs[order], low[at])]
    return table._replace(low=low, high=high)


def _is_code(ends: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(ends) & (np.abs(ends) > LARGEST_EXACT)
