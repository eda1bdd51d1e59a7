"""Where each clause stands in the sieve: slots to positions and back, and the clause table by position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.sieve.layout import NONE
from eventsieve.model.columns import ClauseTable
from eventsieve.model.growing import GrowingArray


class Positions:
    """Positions are given out once, and again after their clause was removed.

    In order, a position is its slot: nothing has to be looked up, and nothing is kept.
    """

    def __init__(self, slot_of_position: NDArray[np.int32], n_slots: int, in_order: bool) -> None:
        self.in_order = in_order
        self._n_slots = n_slots
        self._slot = GrowingArray(slot_of_position)
        position_of_slot = np.full(0 if in_order else n_slots, NONE, np.int32)
        used = np.flatnonzero(slot_of_position != NONE).astype(np.int32)
        position_of_slot[slot_of_position[used]] = used
        self._position = GrowingArray(position_of_slot)
        self._start = GrowingArray(np.zeros(slot_of_position.size, np.int64))
        self._stop = GrowingArray(np.zeros(slot_of_position.size, np.int64))
        self._free = np.flatnonzero(slot_of_position == NONE).tolist()

    @property
    def slot_of_position(self) -> NDArray[np.int32]:
        return self._slot.view

    def __len__(self) -> int:
        return self._n_slots if self.in_order else len(self._slot)

    def give(self, slots: NDArray[np.int32], n_slots: int) -> NDArray[np.int32]:
        """Return positions for new clauses, freed ones first."""
        self._n_slots = n_slots
        if self.in_order:
            return slots
        again = [self._free.pop() for _ in range(min(len(self._free), slots.size))]
        first = len(self._slot)
        more = slots.size - len(again)
        for array in (self._slot, self._start, self._stop):
            array.resize(first + more)
        positions = np.concatenate([np.array(again, np.int32), np.arange(first, first + more, dtype=np.int32)])
        self._position.resize(n_slots, NONE)
        self._slot.view[positions] = slots
        self._position.view[slots] = positions
        return positions

    def take_back(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Free the positions of removed clauses, and return them."""
        if self.in_order:
            return slots
        positions: NDArray[np.int32] = self._position.view[slots].copy()
        self._position.view[slots] = NONE
        self._slot.view[positions] = NONE
        self._free.extend(positions.tolist())
        return positions

    def table(self, clauses: ClauseTable) -> ClauseTable:
        """Return the clause table by position. Free positions have no predicates."""
        if self.in_order:
            return clauses
        return clauses._replace(start=self._start.view, stop=self._stop.view)

    def look_up(self, clauses: ClauseTable, positions: NDArray[np.int32] | slice) -> None:
        """Note where the predicates of the clauses at `positions` are."""
        if self.in_order:
            return
        slots = self._slot.view[positions]
        self._start.view[positions] = np.where(slots == NONE, 0, clauses.start[slots])
        self._stop.view[positions] = np.where(slots == NONE, 0, clauses.stop[slots])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return {
            "slot_of_position": self._slot.view,
            "position_of_slot": self._position.view,
            "start": self._start.view,
            "stop": self._stop.view,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], n_slots: int, in_order: bool) -> Positions:
        """Return what `arrays` came from; `look_up` is still to be called."""
        return cls(arrays["slot_of_position"].copy(), n_slots, in_order)
