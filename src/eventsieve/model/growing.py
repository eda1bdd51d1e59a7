"""An array that grows at its end at amortised constant cost.

Room is left from the beginning: if it had to be made by the first insertion into an index of millions, that insertion
would copy all arrays of the index. Room that is not used yet costs addresses, but no memory.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_ROOM: Final = 8
"""One more element is left room for by so many that are there."""


class GrowingArray:
    """An array with spare room behind its end; `view` is the part in use. What grows is its first dimension.

    Growing may move the data, so a view is only good until the next `extend` or `resize`.
    """

    __slots__ = ("_data", "_size")

    def __init__(self, data: NDArray[Any], size: int | None = None) -> None:
        """Take over an array, of which the first `size` elements are in use: all, unless it is said."""
        self._data = data
        self._size = data.shape[0] if size is None else size

    @classmethod
    def of_size(cls, size: int, dtype: DTypeLike) -> GrowingArray:
        """Return an array with room behind it, and anything in it, as `np.empty` does."""
        return cls(np.empty(_with_room(size), dtype), size)

    @classmethod
    def copy_of(cls, values: ArrayLike, dtype: DTypeLike | None = None) -> GrowingArray:
        """Return a copy with room behind it."""
        given = np.atleast_1d(np.asarray(values, dtype))
        size = given.shape[0]
        data = np.empty((_with_room(size), *given.shape[1:]), given.dtype)
        data[:size] = given
        return cls(data, size)

    @property
    def view(self) -> NDArray[Any]:
        return self._data[: self._size]

    def __len__(self) -> int:
        return self._size

    def extend(self, values: NDArray[Any]) -> None:
        first = self._size
        self.resize(first + len(values))
        self._data[first : self._size] = values

    def resize(self, size: int, fill: Any = 0) -> None:
        """Set the number of elements; new ones hold `fill`."""
        if size > self._data.shape[0]:
            room = max(_with_room(size), self._data.shape[0] * 3 // 2)
            grown = np.empty((room, *self._data.shape[1:]), self._data.dtype)
            grown[: self._size] = self._data[: self._size]
            self._data = grown
        if size > self._size:
            self._data[self._size : size] = fill
        self._size = size

    def shared(self) -> GrowingArray:
        """Return a second owner of the same data, which gets the spare room too: both must not write there."""
        other = GrowingArray(self._data, self._size)
        self._data = self.view
        return other


def _with_room(size: int) -> int:
    return size + size // _ROOM + 16
