"""An array that grows at its end at amortised constant cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class GrowingArray:
    """An array with spare room behind its end; `view` is the part in use. What grows is its first dimension.

    Growing may move the data, so a view is only good until the next `extend` or `resize`.
    """

    __slots__ = ("_data", "_size")

    def __init__(self, data: NDArray[Any]) -> None:
        self._data = data
        self._size = data.shape[0]

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
            room = max(size, self._data.shape[0] * 3 // 2 + 16)
            grown = np.empty((room, *self._data.shape[1:]), self._data.dtype)
            grown[: self._size] = self._data[: self._size]
            self._data = grown
        if size > self._size:
            self._data[self._size : size] = fill
        self._size = size

    def shared(self) -> GrowingArray:
        """Return a second owner of the same data. Neither writes into spare room the other could also claim."""
        self._data = self._data[: self._size]
        return GrowingArray(self._data)
