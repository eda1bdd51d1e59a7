"""Subscription ids by slot: integers or texts, or simply the slot numbers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError
from eventsieve.model.growing import GrowingArray
from eventsieve.model.large_arrays import large_array

Id: TypeAlias = int | str


def checked_id(given: Any) -> Id:
    """Return an id as a plain int or str; raise DataError if it is neither."""
    if isinstance(given, str):
        if given:
            return given
        raise DataError("an id is an integer or a non-empty text, not ''")
    if isinstance(given, Integral) and not isinstance(given, bool):
        if -(2**63) <= int(given) < 2**63:
            return int(given)
        raise DataError(f"an integer id fits into 64 bits, unlike {given}; give it as text")
    raise DataError(f"an id is an integer or a non-empty text, not {given!r} ({type(given).__name__})")


class Ids:
    """The id of each slot, and the slot of each id.

    While ids are the numbers 0, 1, 2, ... nothing is stored at all. The way back from id to slot is a dict,
    made when it is first asked for: matching never needs it.
    """

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self._values: GrowingArray | None = None
        self._slot_of: dict[Id, int] | None = None
        self._forgotten: set[int] = set()

    @classmethod
    def from_values(cls, values: NDArray[Any]) -> Ids:
        """Take ids by slot, an int64 array or an array of objects; they must differ."""
        ids = cls(len(values))
        ids._values = GrowingArray(values)
        return ids

    @property
    def values(self) -> NDArray[Any] | None:
        """The ids by slot, or None where the slots themselves are the ids."""
        return None if self._values is None else self._values.view

    def take(self, slots: NDArray[np.int32]) -> NDArray[Any]:
        """Return the ids of many slots: an int64 array, or an array of objects where there are texts."""
        if self._values is not None and self._values.view.dtype == object:
            named: NDArray[Any] = self._values.view[slots]
            return named
        found = large_array(slots.size, np.int64)
        if self._values is None:
            found[:] = slots
        else:
            # Slots are in range; to have it checked would take a copy.
            np.take(self._values.view, slots, out=found, mode="clip")
        return found

    def get(self, slot: int) -> Id:
        """Return the id of a slot as a plain int or str."""
        if self._values is None:
            return slot
        found = self._values.view[slot]
        return found if isinstance(found, str) else int(found)

    def slot(self, id: Id) -> int | None:
        """Return the slot that an id was last set at, or None."""
        if self._values is None:
            return id if isinstance(id, int) and 0 <= id < self._count and id not in self._forgotten else None
        if self._slot_of is None:
            self._slot_of = {
                id: slot for slot, id in enumerate(self._values.view.tolist()) if slot not in self._forgotten
            }
        return self._slot_of.get(id)

    def set(self, slots: Sequence[int] | NDArray[np.int32], ids: Iterable[Id]) -> None:
        """Give ids to slots, growing as needed."""
        given = list(ids)
        top = max(slots, default=-1) + 1
        if self._forgotten:
            self._forgotten.difference_update(map(int, slots))
        if self._values is None and all(id == slot for id, slot in zip(given, slots, strict=True)):
            self._count = max(self._count, int(top))
            return
        column = self._column_for(given)
        column.resize(max(len(column), int(top)), None if column.view.dtype == object else -1)
        values = np.empty(len(given), column.view.dtype)
        values[:] = given
        column.view[np.asarray(slots, np.int64)] = values
        if self._slot_of is not None:
            self._slot_of.update(zip(given, map(int, slots), strict=True))

    def forget(self, slots: Iterable[int]) -> None:
        """Take the way back to these slots out."""
        for slot in slots:
            self._forgotten.add(slot)
            if self._slot_of is not None:
                self._slot_of.pop(self.get(slot), None)

    def _column_for(self, given: list[Id]) -> GrowingArray:
        """Return the column, changed to one that can hold these ids too."""
        if self._values is None:
            self._values = GrowingArray(np.arange(self._count, dtype=np.int64))
        if self._values.view.dtype != object and any(isinstance(id, str) for id in given):
            self._values = GrowingArray(self._values.view.astype(object))
        return self._values

    def shared(self) -> Ids:
        """Return an independent copy that shares what it can."""
        other = Ids(self._count)
        other._forgotten = set(self._forgotten)
        if self._values is not None:
            other._values = GrowingArray.copy_of(self._values.view)
            other._slot_of = None if self._slot_of is None else dict(self._slot_of)
        return other
