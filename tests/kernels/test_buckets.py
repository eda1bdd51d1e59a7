"""Bucket lists under change: after any insertions and deletions each cell holds what a fresh build puts there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.matchers.rein import Rein
from eventsieve.matchers.rein_index import ReinIndex
from eventsieve.matchers.rein_o import ReinO
from eventsieve.model.columns import ClauseTable, Domains


def random_clauses(n_slots: int, n_attributes: int, seed: int) -> ClauseTable:
    """Clauses with up to all attributes, some ends open, many ends equal, every tenth slot free."""
    rng = np.random.default_rng(seed)
    asked = rng.random((n_slots, n_attributes)) < 0.6
    asked[rng.random(n_slots) < 0.1] = False
    counts = asked.sum(axis=1)
    stop = np.cumsum(counts).astype(np.int64)
    ends = np.sort(rng.choice(np.linspace(-0.2, 1.2, 29), (counts.sum(), 2)), axis=1)
    ends[:, 0][rng.random(counts.sum()) < 0.2] = -np.inf
    ends[:, 1][rng.random(counts.sum()) < 0.2] = np.inf
    attribute = np.nonzero(asked)[1].astype(np.int32)
    return ClauseTable(stop - counts, stop, attribute, ends[:, 0].copy(), ends[:, 1].copy())


def domains(n_attributes: int) -> Domains:
    return Domains(np.zeros(n_attributes), np.ones(n_attributes))


def contents(matcher: ReinIndex) -> list[list[tuple[int, float]]]:
    """The entries of every cell of every list, in an order of their own."""
    arrays = matcher.arrays()
    found = []
    for start, cells in zip(arrays["start"].tolist(), arrays["cell_start"].tolist(), strict=True):
        for first, stop in pairwise(cells):
            entries = slice(start + first, start + stop)
            found.append(sorted(zip(arrays["place"][entries].tolist(), arrays["bound"][entries].tolist(), strict=True)))
    return found


def emptied(clauses: ClauseTable, gone: np.ndarray) -> ClauseTable:
    """The same table with the slots of `gone` free."""
    stop = clauses.stop.copy()
    stop[gone] = clauses.start[gone]
    return clauses._replace(stop=stop)


@pytest.mark.parametrize("make", [Rein, ReinO])
@pytest.mark.parametrize("n_cells", [1, 5, 40])
@pytest.mark.parametrize("batch", [1, 7, 400])
def test_changes_in_place_equal_a_fresh_build(make: Callable[..., ReinIndex], n_cells: int, batch: int) -> None:
    clauses = random_clauses(300, 3, seed=n_cells)
    rng = np.random.default_rng(batch)
    matcher = make(buckets=n_cells)
    gone = np.flatnonzero(rng.random(300) < 0.5).astype(np.int32)
    matcher.build(emptied(clauses, gone), domains(3))
    for _ in range(3):
        for part in np.array_split(rng.permutation(gone), max(1, gone.size // batch)):
            matcher.insert(part, clauses)
        whole = make(buckets=n_cells)
        whole.build(clauses, domains(3))
        assert contents(matcher) == contents(whole)
        gone = np.flatnonzero(rng.random(300) < 0.5).astype(np.int32)
        for part in np.array_split(rng.permutation(gone), max(1, gone.size // batch)):
            matcher.delete(part)
        rest = make(buckets=n_cells)
        rest.build(emptied(clauses, gone), domains(3))
        assert contents(matcher) == contents(rest)
        for name in ("alive", "null"):
            assert np.array_equal(matcher.arrays()[name], rest.arrays()[name])


def test_a_list_can_hold_a_whole_block() -> None:
    """Every slot of a block asks for the same attribute: the 16-bit borders of cells must reach the end."""
    n_slots = BLOCK_SLOTS + 1
    ends = np.full(n_slots, 0.5)
    numbers = np.arange(n_slots, dtype=np.int64)
    clauses = ClauseTable(numbers, numbers + 1, np.zeros(n_slots, np.int32), ends, ends)
    matcher = Rein(buckets=10)
    matcher.build(clauses, domains(1))
    assert matcher.describe()["entries"] == 2 * n_slots
    assert [len(cell) for cell in contents(matcher) if cell] == [BLOCK_SLOTS, BLOCK_SLOTS, 1, 1]


def test_growing_from_nothing_by_batches_of_all_sizes() -> None:
    """The pool must have room for every list that a batch makes move, however much of it was spare before."""
    clauses = random_clauses(6000, 3, seed=2)
    matcher = Rein(buckets=30)
    everything = np.arange(6000, dtype=np.int32)
    matcher.build(emptied(clauses, everything), domains(3))
    for part in np.split(everything, [1, 2, 10, 200, 1500, 1501, 1600, 3500]):
        matcher.insert(part, clauses)
        assert matcher.arrays()["used"][0] <= matcher.arrays()["place"].size
    whole = Rein(buckets=30)
    whole.build(clauses, domains(3))
    assert contents(matcher) == contents(whole)


def test_the_pool_does_not_grow_for_ever() -> None:
    """Replacing clauses over and over reuses the room that moved lists leave behind."""
    clauses = random_clauses(2000, 4, seed=9)
    matcher = Rein(buckets=20)
    matcher.build(clauses, domains(4))
    rng = np.random.default_rng(1)
    for _ in range(60):
        slots = rng.choice(2000, 200, replace=False).astype(np.int32)
        matcher.delete(slots)
        matcher.insert(slots, clauses)
    facts = matcher.describe()
    assert facts["spare_entries"] < facts["entries"]
