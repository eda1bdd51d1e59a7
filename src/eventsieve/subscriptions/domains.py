"""How far the values of each attribute reach: what cuts a range into cells has to know."""

from __future__ import annotations

from typing import Final

import numpy as np

from eventsieve.model.columns import ClauseTable, Domains
from eventsieve.model.schema import Schema

_WIDEST: Final = 1e300
_NARROWEST: Final = 1e-200
"""Ends and widths of domains stay between these, so that no arithmetic on them overflows or vanishes."""


def domains_of(schema: Schema, clauses: ClauseTable) -> Domains:
    """Return finite ends per attribute: as declared, else as far as the finite bounds of all predicates reach."""
    low, high = np.full(len(schema), np.inf), np.full(len(schema), -np.inf)
    for ends in (clauses.low, clauses.high):
        finite = np.isfinite(ends)
        np.minimum.at(low, clauses.attribute[finite], ends[finite])
        np.maximum.at(high, clauses.attribute[finite], ends[finite])
    for a, kind in enumerate(schema.types):
        declared_low, declared_high = kind.domain()
        low[a] = declared_low if declared_low is not None else low[a]
        high[a] = declared_high if declared_high is not None else high[a]
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    high = np.where(np.isfinite(high), high, low)
    # Ends and width must be ordinary numbers: a cell's width is a share of them.
    low, high = np.clip(low, -_WIDEST, _WIDEST), np.clip(high, -_WIDEST, _WIDEST)
    least = np.maximum(_NARROWEST, np.maximum(np.abs(low), np.abs(high)) * 1e-12)
    high = np.where(high - low > least, high, low + np.maximum(1.0, np.abs(low) * 1e-9))
    return Domains(low, high)
