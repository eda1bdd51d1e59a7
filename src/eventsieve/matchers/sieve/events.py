"""Events as the sieve sees them: codes instead of values, and the rows that each event picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code, code_of
from eventsieve.matchers.sieve.layout import GROUP, NONE, first_row, group_row, is_whole
from eventsieve.matchers.sieve.predicates import ABSENT, LAST_CODE

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
    beside: NDArray[np.int32]  # (n_events, ...), rows of the cells next to that of a value: who is in all of them holds
    n_beside: NDArray[np.int32]  # (n_events,), a multiple of four as well, or NONE if nobody can be told to hold
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
        np.empty((n_events, n_attributes + 1), np.int32),
        np.empty((n_events, n_row_attributes + 2 * GROUP), np.int32),
        np.empty(n_events, np.int32),
        np.empty((n_events, 2 * n_row_attributes + 4), np.int32),
        np.empty(n_events, np.int32),
        np.ones(n_events, np.bool_),
    )
    found.code[:, n_attributes] = 0
    found.by_attribute[n_attributes, :] = 0
    present = np.empty(n_row_attributes + 1, np.int32)
    for e in range(n_events):
        whole = True
        for i in range(events.start[first + e], events.start[first + e + 1]):
            a, value = events.attribute[i], events.value[i]
            code = code_of(table, a, value)
            found.code[e, a] = code
            found.by_attribute[a, e] = code
            found.value[e, a] = value
            whole &= attributes.whole[a] & is_whole(table, apart, a, value)
        found.whole[e] = whole
        n_present = _choose_rows(attributes, found, e, present)
        _choose_rows_beside(attributes, found, e, present[:n_present])
    return found


@inlined
def _choose_rows(attributes: Attributes, found: EventCodes, e: int, out_present: NDArray[np.int32]) -> int:
    """Pick the rows of an event: one for each group with absent attributes, then one for each value.

    Return how many of the attributes with rows are there, after listing them. Which are is hard to guess, so it is no
    branch.
    """
    attribute_of_row, code, chosen = attributes.attribute_of_row, found.code, found.chosen
    n_row_attributes = attribute_of_row.shape[0]
    n_groups, n_present = 0, 0
    chosen[e, 0] = 0
    for first in range(0, n_row_attributes, GROUP):
        absent = 0
        for r in range(first, min(first + GROUP, n_row_attributes)):
            is_absent = int(code[e, attribute_of_row[r]] == ABSENT)
            absent |= is_absent << (r - first)
            out_present[n_present] = r
            n_present += 1 - is_absent
        chosen[e, n_groups] = group_row(attributes, first) + absent
        n_groups += absent != 0
    for i in range(n_present):
        r = out_present[i]
        value_cell = cell_of_code(code[e, attribute_of_row[r]], attributes.n_cells)
        chosen[e, n_groups + i] = first_row(attributes, r) + value_cell
    found.row[e, :] = chosen[e, 0]
    for i in range(n_present):
        found.row[e, attribute_of_row[out_present[i]]] = chosen[e, n_groups + i]
    n = n_groups + n_present
    while n % 4:
        chosen[e, n] = chosen[e, n - 1]
        n += 1
    found.n_chosen[e] = n
    return n_present


@inlined
def _choose_rows_beside(attributes: Attributes, found: EventCodes, e: int, present: NDArray[np.int32]) -> None:
    """Pick the rows that tell who holds for an event: two for each value with ends of clauses around it in its cell."""
    n_cells, attribute_of_row = attributes.n_cells, attributes.attribute_of_row
    n = 0
    for r in present:
        a = attribute_of_row[r]
        code, value = found.code[e, a], found.value[e, a]
        cell = cell_of_code(code, n_cells)
        if value >= attributes.highest_low[a, cell] and value <= attributes.lowest_high[a, cell]:
            continue
        if code in (0, LAST_CODE):
            # It may lie outside the domain, and an end at the border too.
            found.n_beside[e] = NONE
            return
        row = first_row(attributes, r) + cell
        found.beside[e, n], found.beside[e, n + 1] = row - 1, row + 1
        n += 2
    if n % 4:
        found.beside[e, n], found.beside[e, n + 1] = found.beside[e, n - 2], found.beside[e, n - 1]
        n += 2
    found.n_beside[e] = n
