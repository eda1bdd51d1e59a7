"""Codes: numbers for values that a float64 cannot carry, texts and integers beyond 2**53.

Only values that subscriptions name get a code of their own, in order of first appearance and for ever. All
other texts share one code, so that `IS NOT NULL` and `!=` stay right for them. Big integers get codes beyond
2**53 on their own side of zero, so that `x > 5` holds for every big positive one, named or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError
from eventsieve.model.types import LARGEST_EXACT

OTHER_TEXT: Final = 0.0
"""The code of every text that no subscription names; named ones count from 1."""

_OTHER_BIG: Final = float(LARGEST_EXACT + 2)
_FIRST_BIG: Final = float(2 * LARGEST_EXACT)
_BIG_STEP: Final = 4.0
"""Above 2**54 floats are 4 apart, so each code has a closed interval of its own."""
_MOST_BIG: Final = LARGEST_EXACT // 2


class Codes:
    """Append-only dictionaries, one per attribute that needs one."""

    def __init__(self) -> None:
        self._codes: dict[int, dict[str | int, float]] = {}

    def assign(self, attribute: int, value: str | int) -> float:
        """Return the value's code, giving it one if it has none."""
        known = self._codes.setdefault(attribute, {})
        code = known.get(value)
        if code is None:
            code = known[value] = _text_code(len(known)) if isinstance(value, str) else _big_code(value, len(known))
        return code

    def look_up(self, attribute: int, value: str | int) -> float:
        """Return the value's code, or the one that all unnamed values of its kind share."""
        code = self._codes.get(attribute, {}).get(value)
        if code is not None:
            return code
        if isinstance(value, str):
            return OTHER_TEXT
        return _OTHER_BIG if value > 0 else -_OTHER_BIG

    def values(self, attribute: int) -> list[str | int]:
        """Return the named values of an attribute in the order of their codes."""
        return list(self._codes.get(attribute, ()))

    def value_of(self, attribute: int, code: float) -> str | int | None:
        """Return the value that has this code, or None."""
        for value, known in self._codes.get(attribute, {}).items():
            if known == code:
                return value
        return None

    def attributes(self) -> list[int]:
        """Return the attributes that have named values."""
        return sorted(attribute for attribute, known in self._codes.items() if known)

    def assign_all(self, attribute: int, values: Iterable[str | int]) -> list[float]:
        """Return the codes of many values, giving one to those that have none."""
        return [self.assign(attribute, value) for value in values]

    def copy(self) -> Codes:
        """Return an independent copy with the same codes."""
        other = Codes()
        other._codes = {attribute: dict(known) for attribute, known in self._codes.items()}
        return other


def ranks(codes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of codes in the `values` of their attribute.

    >>> codes = Codes()
    >>> ranks(np.array([codes.assign(0, "a"), codes.assign(0, "b"), codes.assign(1, -(2**60))])).tolist()
    [0, 1, 0]
    """
    size = np.abs(codes)
    found: NDArray[np.int64] = np.where(size < _FIRST_BIG, size - 1.0, (size - _FIRST_BIG) / _BIG_STEP).astype(np.int64)
    return found


def _text_code(rank: int) -> float:
    return float(rank + 1)


def _big_code(value: int, rank: int) -> float:
    if abs(value) <= LARGEST_EXACT:
        raise DataError(f"{value} needs no code: a float64 holds it exactly")
    if rank >= _MOST_BIG:
        raise DataError("too many integers beyond 2**53 are named by subscriptions")
    code = _FIRST_BIG + _BIG_STEP * rank
    return code if value > 0 else -code
