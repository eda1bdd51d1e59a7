"""Where each clause stands in the sieve: slots to positions and back.

The first positions are arranged: similar clauses side by side, block by block. What came later stands behind them in
the order it came, the tail. A freed position is used again in the tail only: a stranger among arranged clauses would
take away what they have in common, and with it the reason to pass over their block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.growing import GrowingArray

FREE: Final = -1


class Positions:
    """The owner of both directions. `slots` are those of positions 0, 1, 2, ...; none of them counts as arranged."""

    def __init__(self, slots: NDArray[np.int32], n_slots: int, n_arranged: int = 0) -> None:
        self.n_arranged = n_arranged
        self._slot = GrowingArray.copy_of(slots)
        used = np.flatnonzero(slots != FREE).astype(np.int32)
        self._position = GrowingArray(np.empty(0, np.int32))
        self._position.resize(n_slots, FREE)
        self._position.view[slots[used]] = used
        self._free = (n_arranged + np.flatnonzero(slots[n_arranged:] == FREE)).tolist()

    @property
    def slot_of_position(self) -> NDArray[np.int32]:
        return self._slot.view

    def __len__(self) -> int:
        return len(self._slot)

    @property
    def n_tail(self) -> int:
        """Clauses that are not arranged."""
        return len(self._slot) - self.n_arranged - len(self._free)

    def give(self, slots: NDArray[np.int32], n_slots: int) -> NDArray[np.int32]:
        """Return positions in the tail for new clauses, freed ones first."""
        again = [self._free.pop() for _ in range(min(len(self._free), slots.size))]
        first = len(self._slot)
        more = slots.size - len(again)
        self._slot.resize(first + more)
        positions = np.concatenate([np.array(again, np.int32), np.arange(first, first + more, dtype=np.int32)])
        self._position.resize(n_slots, FREE)
        self._slot.view[positions] = slots
        self._position.view[slots] = positions
        return positions

    def take_back(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Free the positions of removed clauses, and return them."""
        positions: NDArray[np.int32] = self._position.view[slots].copy()
        self._position.view[slots] = FREE
        self._slot.view[positions] = FREE
        self._free.extend(positions[positions >= self.n_arranged].tolist())
        return positions

    def tail(self) -> NDArray[np.int32]:
        """Return the positions of the tail that have clauses."""
        taken = np.flatnonzero(self._slot.view[self.n_arranged :] != FREE)
        return (self.n_arranged + taken).astype(np.int32)

    def arrange(self, order: NDArray[np.int32], n_arranged: int) -> None:
        """Put the clauses at positions `order`, which are the whole tail, into that order, without gaps."""
        slots = self._slot.view[order].copy()
        self._slot.resize(self.n_arranged + slots.size)
        self._slot.view[self.n_arranged :] = slots
        self._position.view[slots] = np.arange(self.n_arranged, len(self._slot), dtype=np.int32)
        self._free = []
        self.n_arranged = n_arranged

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return {
            "slot_of_position": self._slot.view,
            "position_of_slot": self._position.view,
            "n_arranged": np.array([self.n_arranged], np.int64),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], n_slots: int) -> Positions:
        """Return what `arrays` came from."""
        return cls(arrays["slot_of_position"], n_slots, int(arrays["n_arranged"][0]))
