"""Events as the sieve sees them: codes instead of values, and the rows that each event picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code, code_of
from eventsieve.matchers.sieve.layout import GROUP, NONE, is_whole
from eventsieve.matchers.sieve.predicates import ABSENT

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.layout import Attributes
    from eventsieve.model.columns import EventColumns
    from eventsieve.model.transform import TransformTable


class EventCodes(NamedTuple):
    """Some events, by number and attribute. Attribute n_attributes is none, and every event passes its hulls."""

    code: NDArray[np.int32]  # (n_events, n_attributes + 1), ABSENT where there is no value
    by_attribute: NDArray[np.int32]  # (n_attributes + 1, n_events), the same turned round
    value: NDArray[np.float64]  # (n_events, n_attributes), NaN where there is none: no comparison with it holds
    row: NDArray[np.int32]  # (n_events, n_attributes + 1), the row of the value's cell, or the first chosen one
    chosen: NDArray[np.int32]  # (n_events, ...), rows to AND, those for absent attributes first
    n_chosen: NDArray[np.int32]  # (n_events,), a multiple of four: the last row may come several times
    sure: NDArray[np.bool_]  # (n_events,), what is left by all rows holds
    whole: NDArray[np.bool_]  # (n_events,), a tie of codes is one of values


@kernel
def translated(
    table: TransformTable,
    apart: NDArray[np.bool_],
    attributes: Attributes,
    events: EventColumns,
    first: int,
    n_events: int,
) -> EventCodes:
    """Return the events from `first` on."""
    n_attributes = attributes.row_attribute.shape[0]
    n_row_attributes = attributes.attribute_of_row.shape[0]
    found = EventCodes(
        np.full((n_events, n_attributes + 1), ABSENT, np.int32),
        np.full((n_attributes + 1, n_events), ABSENT, np.int32),
        np.full((n_events, n_attributes), np.nan),
        np.zeros((n_events, n_attributes + 1), np.int32),
        np.zeros((n_events, n_row_attributes + 2 * GROUP), np.int32),
        np.empty(n_events, np.int32),
        np.ones(n_events, np.bool_),
        np.ones(n_events, np.bool_),
    )
    found.code[:, n_attributes] = 0
    found.by_attribute[n_attributes, :] = 0
    for e in range(n_events):
        sure, whole = n_row_attributes == n_attributes, True
        for i in range(events.start[first + e], events.start[first + e + 1]):
            a, value = events.attribute[i], events.value[i]
            code = code_of(table, a, value)
            found.code[e, a] = code
            found.by_attribute[a, e] = code
            found.value[e, a] = value
            cell = cell_of_code(code, attributes.n_cells)
            sure &= (value >= attributes.highest_low[a, cell]) & (value <= attributes.lowest_high[a, cell])
            whole &= attributes.whole[a] & is_whole(table, apart, a, value)
        found.sure[e], found.whole[e] = sure, whole
        _choose_rows(attributes, found, e)
    return found


@inlined
def _choose_rows(attributes: Attributes, found: EventCodes, e: int) -> None:
    """Pick the rows of an event: one for each group with absent attributes, then one for each value."""
    n_cells, attribute_of_row = attributes.n_cells, attributes.attribute_of_row
    n_row_attributes = attribute_of_row.shape[0]
    n = 0
    for first in range(0, n_row_attributes, GROUP):
        absent = 0
        for r in range(first, min(first + GROUP, n_row_attributes)):
            absent |= int(found.code[e, attribute_of_row[r]] == ABSENT) << (r - first)
        found.chosen[e, n] = n_row_attributes * n_cells + (first // GROUP << GROUP) + absent
        n += absent != 0
    for r in range(n_row_attributes):
        a = attribute_of_row[r]
        if found.code[e, a] != ABSENT:
            row = r * n_cells + cell_of_code(found.code[e, a], n_cells)
            found.row[e, a] = row
            found.chosen[e, n] = row
            n += 1
    for a in range(found.row.shape[1]):
        if a == found.row.shape[1] - 1 or found.code[e, a] == ABSENT or attributes.row_attribute[a] == NONE:
            found.row[e, a] = found.chosen[e, 0]
    while n % 4:
        found.chosen[e, n] = found.chosen[e, n - 1]
        n += 1
    found.n_chosen[e] = n
