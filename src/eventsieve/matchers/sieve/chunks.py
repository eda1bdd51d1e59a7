"""Chunks: the layout for events that match much, where hulls pass over little and a row is read from end to end.

Clauses are in chunks of up to 65,536, each with its own by rising slot. (So where slots follow one another, a match
need not be looked up, which would take main memory longer than the rows.) For each attribute that enough clauses ask
for and each cell of its domain, a chunk has a row of bits in one piece of up to 8 KB, which main memory gives much
faster than as many lines apart; and one for events that lack the attribute. A bit is clear if the clause cannot hold.

What a row leaves open lies in the cell of the value: low ends above it and high ends below it. The ends of a cell stand
side by side, low ones by rising code, then high ones by rising code. So those that a value fails are one run: from the
first low end above it to the last high end below it. Attributes without rows have one cell, and the run tells all.

A chunk is written once. Removed clauses lose their bit of `alive`, new ones wait in the tail (`positions.py`).
Positions within a chunk are not places: they are for batches, and have similar clauses side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import ALL_ONES, clear_bit, set_bit
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code
from eventsieve.matchers.sieve.layout import NONE
from eventsieve.matchers.sieve.predicates import fields

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.layout import Attributes
    from eventsieve.matchers.sieve.predicates import Predicates

CHUNK: Final = 1 << 16
CHUNK_WORDS: Final = CHUNK // WORD_BITS
CODE_SHIFT: Final = 16
SCATTERED: Final = -1
_PLACE: Final = (1 << CODE_SHIFT) - 1


class Chunks(NamedTuple):
    """All chunks, one after the other.

    Row attribute r has n_cells + 1 rows, the last for its absence. In the order of attributes, those with rows have
    n_cells cells of ends and the others one: attribute a has those from first_cell[a] on.
    """

    stop: NDArray[np.int64]  # (n_chunks,), the position behind a chunk; the next one begins there
    slot: NDArray[np.int32]  # (stop[-1],), by chunk and place
    shift: NDArray[np.int64]  # (n_chunks,), the slot of place 0 if they follow one another, else SCATTERED
    alive: NDArray[np.uint64]  # one bit for each of these
    rows_start: NDArray[np.int64]  # (n_chunks + 1,), where its rows begin
    rows: NDArray[np.uint64]
    first_cell: NDArray[np.int64]  # (n_attributes + 1,)
    border: NDArray[np.int64]  # (n_chunks, 2 * n_cells_in_all + 1), where low ends of a cell begin, then high ends
    end: NDArray[np.uint32]  # the code, then the place within the chunk


def no_chunks(attributes: Attributes) -> Chunks:
    """Return no chunks, for these attributes."""
    n_cells = np.where(attributes.row_attribute == NONE, 1, attributes.n_cells)
    first_cell = np.concatenate([np.zeros(1, np.int64), np.cumsum(n_cells, dtype=np.int64)])
    return Chunks(
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int64),
        np.empty(0, np.uint64),
        np.zeros(1, np.int64),
        np.empty(0, np.uint64),
        first_cell,
        np.zeros((0, 2 * int(first_cell[-1]) + 1), np.int64),
        np.empty(0, np.uint32),
    )


def with_more(
    chunks: Chunks, predicates: Predicates, attributes: Attributes, slots: NDArray[np.int32], first: int
) -> Chunks:
    """Return the chunks with more of them, for clauses at positions from `first` on; there are whole words of them."""
    end = first + slots.size
    stops = np.minimum(np.arange(first + CHUNK, end + CHUNK, CHUNK), end)
    n_ends = 2 * int((predicates.span[1::2] - predicates.span[::2])[first:end].sum(dtype=np.int64))
    n_words = np.diff(stops, prepend=first) // WORD_BITS * n_rows_of_chunk(attributes)
    grown = Chunks(
        np.concatenate([chunks.stop, stops]),
        np.concatenate([chunks.slot, slots]),
        np.concatenate([chunks.shift, np.full(stops.size, SCATTERED, np.int64)]),
        np.concatenate([chunks.alive, np.full(slots.size // WORD_BITS, ALL_ONES)]),
        np.concatenate([chunks.rows_start, chunks.rows_start[-1] + np.cumsum(n_words)]),
        np.concatenate([chunks.rows, np.empty(n_words.sum(), np.uint64)]),
        chunks.first_cell,
        np.concatenate([chunks.border, np.zeros((stops.size, chunks.border.shape[1]), np.int64)]),
        np.concatenate([chunks.end, np.empty(n_ends, np.uint32)]),
    )
    used = chunks.end.size
    for chunk in range(chunks.stop.size, grown.stop.size):
        stop = int(grown.stop[chunk])
        place_of_position = _take_places(grown, chunk, first, stop)
        used = _write_ends(predicates, attributes, grown, chunk, first, place_of_position, used)
        _write_rows(attributes, grown, chunk, first)
        first = stop
    return grown


def _take_places(chunks: Chunks, chunk: int, first: int, stop: int) -> NDArray[np.int64]:
    """Put the slots of a chunk, which are by position, in order; return the place of each position."""
    slots = chunks.slot[first:stop]
    order = np.argsort(slots)
    place_of_position = np.empty(order.size, np.int64)
    place_of_position[order] = np.arange(order.size)
    slots[:] = slots[order]
    if slots[-1] - slots[0] == slots.size - 1:
        chunks.shift[chunk] = slots[0]
    return place_of_position


@kernel
def remove_from_chunks(chunks: Chunks, slots: NDArray[np.int32], positions: NDArray[np.int32]) -> None:
    """Let those of the clauses that are in chunks live no more."""
    for i in range(slots.shape[0]):
        chunk = np.searchsorted(chunks.stop, positions[i], side="right")
        if chunk < chunks.stop.shape[0]:
            first = chunks.stop[chunk - 1] if chunk else 0
            at = first + np.searchsorted(chunks.slot[first : chunks.stop[chunk]], slots[i])
            clear_bit(chunks.alive, at)


def n_rows_of_chunk(attributes: Attributes) -> int:
    """Return how many rows a chunk has."""
    return int(attributes.attribute_of_row.size * (attributes.n_cells + 1))


@inlined
def _place(end: np.uint32) -> int:
    return int(end & np.uint32(_PLACE))


@inlined
def _cell(attributes: Attributes, first_cell: NDArray[np.int64], a: int, code: int) -> int:
    """Return the number of a code's cell among all cells."""
    within = 0 if attributes.row_attribute[a] == NONE else cell_of_code(code, attributes.n_cells)
    return int(first_cell[a] + within)


@kernel
def _write_ends(
    predicates: Predicates,
    attributes: Attributes,
    chunks: Chunks,
    chunk: int,
    first: int,
    place_of_position: NDArray[np.int64],
    used: int,
) -> int:
    """Write the ends of a chunk that begins at a position, behind those that are used; return how many are then."""
    border, end, first_cell = chunks.border[chunk], chunks.end, chunks.first_cell
    stop = chunks.stop[chunk]
    for position in range(first, stop):
        for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
            a, low, high = fields(predicates, p)
            border[2 * _cell(attributes, first_cell, a, low)] += 1
            border[2 * _cell(attributes, first_cell, a, high) + 1] += 1
    for i in range(border.shape[0]):
        used += border[i]
        border[i] = used
    # Filled from behind, so that each border comes to stand where its ends begin.
    for position in range(first, stop):
        for p in range(predicates.span[2 * position], predicates.span[2 * position + 1]):
            a, low, high = fields(predicates, p)
            place = place_of_position[position - first]
            i, j = 2 * _cell(attributes, first_cell, a, low), 2 * _cell(attributes, first_cell, a, high) + 1
            border[i] -= 1
            end[border[i]] = (low << CODE_SHIFT) | place
            border[j] -= 1
            end[border[j]] = (high << CODE_SHIFT) | place
    for i in range(border.shape[0] - 1):
        if border[i + 1] - border[i] > 1:
            end[border[i] : border[i + 1]].sort()
    return int(used)


@kernel
def _write_rows(attributes: Attributes, chunks: Chunks, chunk: int, first: int) -> None:
    """Write the rows of a chunk: from cell to cell, clauses come in at their low ends and go at their high ones."""
    n_cells, border, end = attributes.n_cells, chunks.border[chunk], chunks.end
    n_words = (chunks.stop[chunk] - first) // WORD_BITS
    row = np.empty(n_words, np.uint64)
    at = chunks.rows_start[chunk]
    for a in attributes.attribute_of_row:
        cell = chunks.first_cell[a]
        row[:] = ALL_ONES
        for c in range(cell, cell + n_cells):
            for i in range(border[2 * c], border[2 * c + 1]):
                clear_bit(row, _place(end[i]))
        chunks.rows[at + n_cells * n_words : at + (n_cells + 1) * n_words] = row
        for c in range(cell, cell + n_cells):
            for i in range(border[2 * c], border[2 * c + 1]):
                set_bit(row, _place(end[i]))
            chunks.rows[at : at + n_words] = row
            at += n_words
            for i in range(border[2 * c + 1], border[2 * c + 2]):
                clear_bit(row, _place(end[i]))
        at += n_words
