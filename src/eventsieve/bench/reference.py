"""The reference scan: the frozen yardstick that every result is a multiple of. Not a matcher.

Predicates are packed one after the other as three int32 (attribute, low, width), 12 bytes each, subscription by
subscription. An event is a dense row of int32 values. A subscription is left at its first predicate that fails; a
predicate is one unsigned comparison, since `low <= value <= low + width` is `unsigned(value - low) <= width`.

Absolute times mean little on another machine or beside other load; the ratio to this scan in the same run means
something. That holds only while the scan stays as it is: it is never tuned, never given a better layout or order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.model.columns import EventColumns
from eventsieve.workload import SubscriptionArrays

_ABSENT = -1
"""No predicate holds for it: as an unsigned number, -1 - low is beyond every width."""


class Packed(NamedTuple):
    """Subscription s owns the predicates start[s]:start[s+1]; predicate p is (attribute, low, width) from 3 * p on."""

    start: NDArray[np.int32]  # (n + 1,)
    predicate: NDArray[np.int32]  # (3 * n_predicates,)


class Reference:
    """The scan over one set of subscriptions."""

    def __init__(self, subscriptions: SubscriptionArrays, n_attributes: int) -> None:
        start, attribute, low, high = subscriptions
        table = np.empty((attribute.size, 3), np.int32)
        table[:, 0] = attribute
        self._bounds: list[NDArray[np.float64]] = []
        """Per attribute all bounds, rising, each once: a bound is known by twice its rank in here."""
        # 16-bit keys are sorted digit by digit, several times faster than by comparison.
        by_attribute = np.argsort(attribute.astype(np.uint16) if n_attributes < 1 << 16 else attribute, kind="stable")
        stops = np.cumsum(np.bincount(attribute, minlength=n_attributes))
        for predicates in np.split(by_attribute, stops[:-1]):
            ends = np.concatenate([low[predicates], high[predicates]])
            bounds, rank = np.unique(ends, return_inverse=True)
            low_rank, high_rank = np.split(2 * rank.astype(np.int32), 2)
            table[predicates, 1] = low_rank
            table[predicates, 2] = high_rank - low_rank
            self._bounds.append(bounds)
        self._packed = Packed(start.astype(np.int32), table.reshape(-1))
        self._room = np.empty(max(1, start.size - 1), np.int32)

    def row(self, events: EventColumns, e: int) -> NDArray[np.int32]:
        """Return event e as a dense row: twice a bound's rank where the value is that bound, odd between two bounds."""
        row = np.full(len(self._bounds), _ABSENT, np.int32)
        for i in range(events.start[e], events.start[e + 1]):
            bounds, value = self._bounds[events.attribute[i]], events.value[i]
            rank = int(np.searchsorted(bounds, value))
            met = rank < bounds.size and bounds[rank] == value
            row[events.attribute[i]] = 2 * rank if met else 2 * rank - 1
        return row

    def scan(self, row: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the subscriptions that the event satisfies, rising. The array is overwritten by the next scan."""
        return self._room[: _scan(self._packed, row, self._room)]


@kernel
def _scan(packed: Packed, row: NDArray[np.int32], out_slots: NDArray[np.int32]) -> int:
    found = 0
    start = packed.start
    predicate = packed.predicate
    for s in range(start.shape[0] - 1):
        matches = True
        for p in range(start[s], start[s + 1]):
            value = row[predicate[3 * p]]
            if np.uint32(value - predicate[3 * p + 1]) > np.uint32(predicate[3 * p + 2]):
                matches = False
                break
        if matches:
            out_slots[found] = s
            found += 1
    return found
