"""Matches: which subscriptions each event of a batch satisfies, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.model.ids import Id, Ids


class Matches:
    """The result of a batch: event e matches slots[event_start[e]:event_start[e+1]], in any order, each once.

    `slots` is the dense form; `ids` is made when it is first asked for.
    """

    def __init__(
        self,
        event_start: NDArray[np.int64],
        slots: NDArray[np.int32],
        ids: Ids,
        approximate: bool | NDArray[np.bool_] = False,
    ) -> None:
        self.event_start = event_start
        self.slots = slots
        self.approximate = approximate if isinstance(approximate, bool) else bool(np.any(approximate))
        """Matches can be false, within the matcher's bound; `match_mode` says so match by match."""
        self._approximate = approximate
        self._ids_by_slot = ids

    @cached_property
    def ids(self) -> NDArray[Any]:
        """The ids in the order of `slots`: int64, or objects where there are texts."""
        return self._ids_by_slot.take(self.slots)

    @property
    def event(self) -> NDArray[np.int64]:
        """The event of each match, in the order of `slots`."""
        return np.repeat(np.arange(len(self)), np.diff(self.event_start))

    @property
    def may_be_false(self) -> NDArray[np.bool_]:
        """For each match, whether it is approximate."""
        return np.broadcast_to(self._approximate, self.slots.shape)

    @property
    def match_mode(self) -> NDArray[Any]:
        """For each match, "exact" or "approximate"."""
        return np.where(self.may_be_false, "approximate", "exact")

    def of(self, e: int) -> list[Id]:
        """Return the ids that event e matches, as plain ints and strs, in the order the subscriptions came."""
        slots = np.sort(self.slots[self.event_start[e] : self.event_start[e + 1]])
        found: list[Id] = self._ids_by_slot.take(slots).tolist()
        return found

    def __len__(self) -> int:
        """Return the number of events."""
        return self.event_start.shape[0] - 1

    def __iter__(self) -> Iterator[list[Id]]:
        return (self.of(e) for e in range(len(self)))

    def __repr__(self) -> str:
        return f"<{self.slots.shape[0]} matches of {len(self)} events>"

    def to_arrow(self) -> pa.Table:
        """Return a table of pairs with the columns event, subscription_id and match_mode."""
        return pa.table(
            {"event": self.event, "subscription_id": self.ids, "match_mode": self.match_mode.astype(object)}
        )
