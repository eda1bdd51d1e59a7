"""Which attribute divides an overfull bucket, and who moves (section IV-B-3, Algorithm 2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.matchers.gem_tree.layout import BY_CELL, BY_ORDER, Shape
from eventsieve.matchers.gem_tree.triangle import cell_of_interval
from eventsieve.model.columns import ClauseTable


class Candidates(NamedTuple):
    """The clauses of a bucket: candidate k owns the predicates start[k]:start[k+1], each with the cell it lies in."""

    start: NDArray[np.int64]  # (n + 1,)
    attribute: NDArray[np.int32]
    cell: NDArray[np.int32]


class Ballot(NamedTuple):
    """Scratch: what each candidate asks for, and the sums per attribute."""

    vote: NDArray[np.int32]  # (n,): the attribute a candidate moves by, or -1
    cell: NDArray[np.int32]  # (n,): the cell it moves to
    moved: NDArray[np.int32]  # (n,)
    popularity: NDArray[np.int64]  # (n_attributes,)
    votes: NDArray[np.int64]  # (n_attributes,)


def list_candidates(clauses: ClauseTable, shape: Shape, slots: NDArray[np.int32]) -> Candidates:
    """Return the predicates of these clauses with their cells."""
    start = np.zeros(slots.size + 1, np.int64)
    np.cumsum(clauses.stop[slots] - clauses.start[slots], out=start[1:])
    found = Candidates(start, np.empty(start[-1], np.int32), np.empty(start[-1], np.int32))
    _write_candidates(clauses, shape, slots, found)
    return found


def new_ballot(n_candidates: int, n_attributes: int) -> Ballot:
    """Return scratch for so many candidates."""
    vote, cell, moved = np.empty((3, n_candidates), np.int32)
    return Ballot(vote, cell, moved, np.zeros(n_attributes, np.int64), np.zeros(n_attributes, np.int64))


@kernel
def _write_candidates(clauses: ClauseTable, shape: Shape, slots: NDArray[np.int32], out: Candidates) -> None:
    for k in range(slots.shape[0]):
        begin = clauses.start[slots[k]]
        for i in range(out.start[k], out.start[k + 1]):
            p = begin + i - out.start[k]
            a = clauses.attribute[p]
            out.attribute[i] = a
            out.cell[i] = cell_of_interval(shape, a, clauses.low[p], clauses.high[p], shape.n_cells)


@inlined
def _predicate_on(candidates: Candidates, k: int, attribute: int) -> int:
    """Return the predicate of candidate k on an attribute, or -1 if it has none."""
    for i in range(candidates.start[k], candidates.start[k + 1]):
        if candidates.attribute[i] == attribute:
            return i
    return -1


@kernel
def refine(
    candidates: Candidates,
    clauses: ClauseTable,
    shape: Shape,
    slots: NDArray[np.int32],
    order: NDArray[np.int32],
    attribute: int,
    scale: int,
) -> bool:
    """Put finer cells in place of those of the attribute that led to a node; return whether that tells any apart.

    Where all intervals are the same, as with single values, a finer triangle would have one cell in use.
    """
    lowest, highest = np.inf, -np.inf
    for k in order:
        i = _predicate_on(candidates, k, attribute)
        p = clauses.start[slots[k]] + i - candidates.start[k]
        candidates.cell[i] = cell_of_interval(shape, attribute, clauses.low[p], clauses.high[p], scale)
        lowest, highest = min(lowest, clauses.low[p]), max(highest, clauses.high[p])
    return bool(lowest < highest)


@inlined
def _rate_of(candidates: Candidates, shape: Shape, i: int, triangle_cells: int, refined: int) -> float:
    """Return how often the cell of a predicate is visited; for the refined attribute, by the events that get here."""
    a = candidates.attribute[i]
    return shape.finer_rate[candidates.cell[i]] if a == refined else shape.rate[a * triangle_cells + candidates.cell[i]]


@kernel
def _count(
    candidates: Candidates,
    shape: Shape,
    order: NDArray[np.int32],
    closed: NDArray[np.bool_],
    refined: int,
    ballot: Ballot,
) -> None:
    """Count the candidates per attribute. By cell, a predicate that every event visits counts for nothing."""
    triangle_cells = shape.rate.shape[0] // closed.shape[0]
    ballot.popularity[:] = 0
    for k in order:
        for i in range(candidates.start[k], candidates.start[k + 1]):
            if shape.mode != BY_CELL or _rate_of(candidates, shape, i, triangle_cells, refined) < 1.0:
                a = candidates.attribute[i]
                ballot.popularity[a] += not closed[a]


@kernel
def _vote(
    candidates: Candidates,
    shape: Shape,
    order: NDArray[np.int32],
    closed: NDArray[np.bool_],
    refined: int,
    ballot: Ballot,
) -> None:
    """Let each candidate vote for the attribute whose cell is visited least; among equals for the most popular."""
    triangle_cells = shape.rate.shape[0] // closed.shape[0]
    ballot.votes[:] = 0
    for k in order:
        best = -1
        best_rate = 1.0
        for i in range(candidates.start[k], candidates.start[k + 1]):
            a = candidates.attribute[i]
            if closed[a]:
                continue
            rate = _rate_of(candidates, shape, i, triangle_cells, refined)
            if rate < best_rate or (rate == best_rate and best >= 0 and ballot.popularity[a] > ballot.popularity[best]):
                best, best_rate = a, rate
        ballot.vote[k] = best
        if best >= 0:
            ballot.votes[best] += 1


@kernel
def _agree(candidates: Candidates, order: NDArray[np.int32], attribute: int, ballot: Ballot) -> None:
    """Let every candidate that has a predicate on the attribute move by it."""
    for k in order:
        ballot.vote[k] = attribute if _predicate_on(candidates, k, attribute) >= 0 else -1


@kernel
def choose(
    candidates: Candidates,
    shape: Shape,
    order: NDArray[np.int32],
    closed: NDArray[np.bool_],
    refined: int,
    minimum: int,
    ballot: Ballot,
) -> int:
    """Return the attribute to divide the candidates by, or -1 if too few would move by any; fill in their votes.

    `closed` attributes are on the path already, or have a triangle here. Cells of the `refined` one are finer.
    """
    _count(candidates, shape, order, closed, refined, ballot)
    if shape.mode == BY_CELL:
        _vote(candidates, shape, order, closed, refined, ballot)
        wanted = int(np.argmax(ballot.votes))
        if ballot.votes[wanted] >= minimum:
            return wanted
    attribute = int(np.argmax(ballot.popularity))
    if ballot.popularity[attribute] < minimum:
        return -1
    if shape.mode == BY_ORDER:
        for a in range(closed.shape[0]):
            if ballot.popularity[a] >= minimum and shape.priority[a] < shape.priority[attribute]:
                attribute = a
    _agree(candidates, order, attribute, ballot)
    return attribute


@kernel
def move(
    candidates: Candidates, order: NDArray[np.int32], attribute: int, ballot: Ballot, out_size: NDArray[np.int64]
) -> int:
    """Put the candidates that move by the attribute behind the others, cell by cell; return how many stay.

    `out_size` becomes the number that moves to each cell.
    """
    out_size[:] = 0
    n_stay = n_moved = 0
    for k in order:
        if ballot.vote[k] != attribute:
            order[n_stay] = k
            n_stay += 1
            continue
        i = _predicate_on(candidates, k, attribute)
        ballot.cell[k] = candidates.cell[i]
        out_size[candidates.cell[i]] += 1
        ballot.moved[n_moved] = k
        n_moved += 1
    place = np.empty(out_size.shape[0], np.int64)
    at = n_stay
    for cell in range(out_size.shape[0]):
        place[cell] = at
        at += out_size[cell]
    for m in range(n_moved):
        k = ballot.moved[m]
        order[place[ballot.cell[k]]] = k
        place[ballot.cell[k]] += 1
    return n_stay
