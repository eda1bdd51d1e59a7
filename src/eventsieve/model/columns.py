"""The columnar forms that cross into compiled code: clauses and events as bundles of flat arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClauseTable(NamedTuple):
    """Conjunctions of closed intervals. Clause c owns the predicates p in start[c]:stop[c], by rising attribute.

    Predicate p asks low[p] <= value of attribute[p] <= high[p]; -inf and inf leave a side open. A clause slot
    with start == stop is free, or holds a clause that constrains nothing: matchers leave it out either way.
    """

    start: NDArray[np.int64]  # (n_slots,)
    stop: NDArray[np.int64]  # (n_slots,)
    attribute: NDArray[np.int32]  # (n_predicates,)
    low: NDArray[np.float64]  # (n_predicates,)
    high: NDArray[np.float64]  # (n_predicates,)


class EventColumns(NamedTuple):
    """A batch of events. Event e has the value[i] of attribute[i] for i in start[e]:start[e+1], by rising attribute."""

    start: NDArray[np.int64]  # (n_events + 1,)
    attribute: NDArray[np.int32]  # (n_values,)
    value: NDArray[np.float64]  # (n_values,)


class Domains(NamedTuple):
    """Finite ends per attribute, low < high, for indexes that cut a value range into cells."""

    low: NDArray[np.float64]  # (n_attributes,)
    high: NDArray[np.float64]  # (n_attributes,)


def flat(values: Any, dtype: Any) -> NDArray[Any]:
    """Return a contiguous, writable array of one dtype.

    Compiled code has one specialisation per combination of dtype, layout and writability, so all of
    them are fixed here: Arrow and memory maps hand out read-only arrays, which would compile a second one.
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.writeable else array.copy()


def slice_events(events: EventColumns, first: int, stop: int) -> EventColumns:
    """Return the events first:stop as a batch of their own."""
    begin, end = events.start[first], events.start[stop]
    return EventColumns(events.start[first : stop + 1] - begin, events.attribute[begin:end], events.value[begin:end])
