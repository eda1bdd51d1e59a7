"""Filter texts by slot, as they were written, in one block of bytes rather than a Python object each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_LONG_RUN = 1 << 14
"""Texts that are worth copying the base for."""


class Texts:
    """A frozen base of texts in Arrow form, and the changes since."""

    def __init__(self, base: pa.LargeStringArray | None = None) -> None:
        self._base: Any = pa.array([], pa.large_string()) if base is None else base
        self._changed: dict[int, str | None] = {}

    @property
    def empty(self) -> bool:
        """No slot has a text."""
        return not self._changed and len(self._base) == self._base.null_count

    def get(self, slot: int) -> str | None:
        """Return the text of a slot, None where there is none."""
        if slot in self._changed:
            return self._changed[slot]
        if slot >= len(self._base):
            return None
        text: str | None = self._base[slot].as_py()
        return text

    def set(self, slot: int, text: str | None) -> None:
        """Change the text of a slot."""
        if text is None and slot >= len(self._base):
            self._changed.pop(slot, None)
        else:
            self._changed[slot] = text

    def frozen(self, n_slots: int) -> pa.LargeStringArray:
        """Return all texts by slot as one Arrow array, which becomes the base."""
        if self._changed or len(self._base) != n_slots:
            texts = self._base.to_pylist()[:n_slots] + [None] * (n_slots - len(self._base))
            for slot, text in self._changed.items():
                if slot < n_slots:
                    texts[slot] = text
            self._base = pa.array(texts, pa.large_string())
            self._changed = {}
        return self._base

    def set_many(self, slots: NDArray[np.int32], texts: pa.Array, n_before: int) -> None:
        """Give many slots their texts; a long run right behind the first `n_before` slots becomes part of the base."""
        if len(slots) >= _LONG_RUN and slots[0] == n_before and len(slots) == slots[-1] - slots[0] + 1:
            self._base = pa.concat_arrays([self.frozen(n_before), texts.cast(pa.large_string())])
            return
        for slot, text in zip(slots.tolist(), texts.to_pylist(), strict=True):
            self.set(slot, text)

    def copy(self) -> Texts:
        """Return an independent copy; the base is immutable and shared."""
        other = Texts(self._base)
        other._changed = dict(self._changed)
        return other
