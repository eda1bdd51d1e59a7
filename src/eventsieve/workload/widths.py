"""Widths of predicates as shares of the domain: fixed, bounded, random, or two independent ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Width:
    """How wide predicates are, written as a number or a short text.

    ========== ==============================================================================
    `0.4`      fixed: every predicate covers 0.4 of the domain
    `0.1..0.6` bounded: widths are uniform between the two
    `random`   both ends are uniform over the domain (widths are 1/3 on average)
    `ends:0.5` low is uniform in [0, 1 - 0.5], high in [0.5, 1], independently (HEM, section 5)
    `tuned`    fixed, at the width that gives the workload's match rate
    ========== ==============================================================================

    >>> Width.parse("0.1..0.6")
    Width(form='bounded', low=0.1, high=0.6)
    """

    form: str
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def parse(cls, written: Any) -> Width:
        """Read a width; raise DataError with the forms there are."""
        text = str(written).strip()
        try:
            if text in ("random", "tuned"):
                return cls(text)
            if text.startswith("ends:"):
                width = cls("ends", float(text[5:]), float(text[5:]))
            elif ".." in text:
                low, high = text.split("..")
                width = cls("bounded", float(low), float(high))
            else:
                width = cls("fixed", float(text), float(text))
        except ValueError:
            raise DataError(
                f"{written!r} is no width; write 0.4, 0.1..0.6, random, ends:0.5, or tuned with a match rate"
            ) from None
        if not 0 <= width.low <= width.high <= 1:
            raise DataError(f"the width {written!r} leaves the domain; a width is a share of it, between 0 and 1")
        return width

    def __str__(self) -> str:
        if self.form == "bounded":
            return f"{self.low}..{self.high}"
        return {"fixed": f"{self.low}", "ends": f"ends:{self.low}"}.get(self.form, self.form)

    def draw(self, rng: np.random.Generator, place: Floats) -> tuple[Floats, Floats]:
        """Return (low, width) in [0, 1] for predicates whose places in [0, 1) are drawn.

        A predicate of width w starts at place * (1 - w): uniform places give starts uniform in [0, 1 - w].
        """
        if self.form == "ends":
            low = place * (1.0 - self.low)
            high = self.low + rng.random(place.size) * (1.0 - self.low)
            # Under half of the domain the two ranges overlap, and the ends may come out in the wrong order.
            return np.minimum(low, high), np.abs(high - low)
        if self.form == "random":
            other = rng.random(place.size)
            return np.minimum(place, other), np.abs(place - other)
        if self.form == "bounded":
            width = self.low + rng.random(place.size) * (self.high - self.low)
        else:
            width = np.full(place.size, self.low)
        return place * (1.0 - width), width
