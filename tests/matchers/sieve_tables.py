"""Dense tables for the sieve's ways to match: ends and values that its codes cannot tell apart, and forced layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve.matchers.sieve import matcher as sieve_matcher
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.model.columns import Domains
from tests.matchers.dense import DOMAINS, N_ATTRIBUTES, Table, matched

_STEP = 2.0**-20
"""A sixteenth of what a code of 16 bits can tell."""


def close(
    shape: tuple[int, ...], seed: int, places: tuple[float, ...] = (0.25, 0.5, 0.625, 0.75)
) -> NDArray[np.float64]:
    """Return numbers that lie around a few places: beside each other, below, on and above the border of a code."""
    rng = np.random.default_rng(seed)
    return rng.choice(np.array(places), shape) + rng.integers(-3, 4, shape) * _STEP


def close_table(
    n_slots: int, seed: int, popularity: float = 0.6, places: tuple[float, ...] = (0.25, 0.5, 0.625, 0.75)
) -> Table:
    """Return clauses with such ends."""
    table = Table(n_slots, seed, popularity)
    ends = np.sort(close((n_slots, N_ATTRIBUTES, 2), seed, places), axis=2)
    table.low = np.where(np.isinf(table.low), table.low, ends[..., 0])
    table.high = np.where(np.isinf(table.high), table.high, ends[..., 1])
    return table


def whole_table(n_slots: int, seed: int) -> Table:
    """Return clauses whose ends are whole numbers, for `WHOLE_DOMAINS`, or none."""
    table = Table(n_slots, seed, 0.6)
    table.low, table.high = (
        np.where(np.isinf(ends), ends, np.clip(np.round(10 * ends), 0, 10)) for ends in (table.low, table.high)
    )
    return table


WHOLE_DOMAINS = Domains(np.zeros(N_ATTRIBUTES), np.full(N_ATTRIBUTES, 10.0))


def in_blocks(table: Table, domains: Domains = DOMAINS, **params: Any) -> Sieve:
    """Return a sieve of the table that has no chunks."""
    return _with_many_matches_from(1.0, table, domains, params)


def in_chunks(table: Table, domains: Domains = DOMAINS, **params: Any) -> Sieve:
    """Return a sieve of the table with all clauses of whole blocks in chunks, however much events match."""
    found = _with_many_matches_from(-1.0, table, domains, params)
    assert found.describe()["chunks"] or found.describe()["blocks"] <= 1
    return found


def _with_many_matches_from(rate: float, table: Table, domains: Domains, params: dict[str, Any]) -> Sieve:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sieve_matcher, "_MANY_MATCHES", rate)
        matcher = Sieve(**params)
        matcher.build(table.clauses(), domains)
    return matcher


def assert_exact(matcher: Sieve, table: Table, values: np.ndarray) -> None:
    """Match one by one, a few at a time and all together, and compare with brute force."""
    expected = table.answer(values)
    assert matched(matcher, values) == expected
    for at_once in (1, 8):
        for first in range(0, min(24, len(values)), at_once):
            assert matched(matcher, values[first : first + at_once]) == expected[first : first + at_once]
