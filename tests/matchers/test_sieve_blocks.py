"""Sieve by blocks: who has no end in the cell of a value needs no check, and answers are exact all the same."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve.matchers.sieve import matcher as sieve_matcher
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.matchers.sieve.order import BLOCK
from tests.matchers.dense import DOMAINS, Table, random_values
from tests.matchers.sieve_tables import assert_exact, close, close_table, in_blocks

MANY = 300
"""Events for which all rows of a block are read, as enough of them look into it."""


def test_changes_and_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clauses that come, go, come to the places of others and are arranged, then all of them in another matcher."""
    monkeypatch.setattr(sieve_matcher, "_LONGEST_TAIL", BLOCK)
    table = close_table(6 * BLOCK, seed=11, popularity=0.7)
    values = np.concatenate([close((MANY, table.low.shape[1]), seed=12), random_values(40, seed=13)])
    table.asked[:, 0] |= ~table.asked.any(axis=1)
    whole, asked = table.clauses(), table.asked.copy()
    table.asked[4 * BLOCK :] = False
    matcher = in_blocks(table, cells=5)
    table.asked[:] = asked
    for first, stop in ((4 * BLOCK, 4 * BLOCK + 100), (4 * BLOCK + 100, 6 * BLOCK)):
        matcher.insert(np.arange(first, stop, dtype=np.int32), whole)
        gone = np.arange(stop - 90, stop - 10, dtype=np.int32)
        matcher.delete(gone)
        again = gone[::2]
        matcher.insert(again, whole)
        table.asked[np.setdiff1d(gone, again)] = False
    assert_exact(matcher, table, values)
    other = Sieve(cells=5)
    other.restore({name: array.copy() for name, array in matcher.arrays().items()}, whole, DOMAINS)
    assert_exact(other, table, values)


@pytest.mark.parametrize("cells", [1, 2, 7, 40])
@pytest.mark.parametrize("open_share", [0.1, 0.7])
def test_many_survivors(cells: int, open_share: float) -> None:
    """Values on ends, on the borders of cells and of domains, and outside; attributes that are absent."""
    table = Table(3 * BLOCK + 77, seed=cells, popularity=0.6, open_share=open_share)
    assert_exact(in_blocks(table, cells=cells), table, random_values(MANY, seed=2))


@pytest.mark.parametrize("cells", [1, 3, 16])
def test_ends_and_values_at_the_borders_of_the_domain(cells: int) -> None:
    """Codes stop at the borders, so there the rows before the first cell and behind the last cannot tell."""
    table = close_table(2 * BLOCK, seed=5, popularity=0.5, places=(0.0, 1.0))
    values = close((MANY, table.low.shape[1]), seed=6, places=(0.0, 0.5, 1.0))
    values[:, 3:][np.random.default_rng(7).random((MANY, values.shape[1] - 3)) < 0.3] = np.nan
    assert_exact(in_blocks(table, cells=cells), table, values)


def test_rare_attributes_leave_doubt() -> None:
    """A clause that asks for an attribute without rows is checked, whatever the other rows tell."""
    popularity = np.array([0.6, 0.6, 0.6, 0.02, 0.02])
    table = Table(2 * BLOCK, seed=8, popularity=popularity, open_share=0.6)
    matcher = in_blocks(table, cells=12, rare=10)
    assert matcher.describe()["attributes_with_rows"] == 3
    assert_exact(matcher, table, random_values(MANY, seed=9))
