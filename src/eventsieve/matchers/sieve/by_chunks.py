"""One event by chunks: rows are ANDed from end to end, runs of ends that values fail are cleared, bits are listed.

Runs lie all over main memory. So those of a chunk are asked for before its rows are ANDed, which takes long enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, popcount, prefetch, trailing_zeros
from eventsieve._kernels.bitset import clear_bit, has_bit
from eventsieve._kernels.clauses import clause_holds
from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.lines import LINE_WORDS, and_four_lines
from eventsieve._kernels.positions import CODE_BITS, cell_of_code
from eventsieve.matchers.sieve.chunks import CHUNK_WORDS, CODE_SHIFT, SCATTERED
from eventsieve.matchers.sieve.found import BITS_AT_ONCE, end_run
from eventsieve.matchers.sieve.layout import NONE
from eventsieve.matchers.sieve.predicates import ABSENT, LAST_CODE

if TYPE_CHECKING:
    from eventsieve.matchers.sieve.chunks import Chunks
    from eventsieve.matchers.sieve.events import EventCodes
    from eventsieve.matchers.sieve.found import Found
    from eventsieve.matchers.sieve.layout import Attributes
    from eventsieve.matchers.sieve.search import SieveIndex
    from eventsieve.model.columns import ClauseTable

_LINE_ENDS: Final = 16
_FETCHED_LINES: Final = 6
"""The rest of a longer run is fetched by the processor itself."""
_NEAR: Final = 7
_TIES: Final = 1024
"""Room for ties; there is more if it is needed."""
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_LAST_BIT: Final = np.uint64(1 << 63)
_WORD_SHIFT: Final = np.uint64(6)
_LOW_BITS: Final = np.uint64(63)
_PLACE: Final = np.uint64((1 << CODE_SHIFT) - 1)


class _Picks(NamedTuple):
    """What an event reads of every chunk."""

    row: NDArray[np.int64]  # rows to AND: a multiple of four, the last may come several times
    cell: NDArray[np.int64]  # cells whose ends are gone through
    code: NDArray[np.int64]  # for each of them the value's code, or ABSENT
    within: NDArray[np.int64]  # and where in the cell it lies, as a code of the cell


@kernel
def match_chunks(index: SieveIndex, codes: EventCodes, e: int, part: int, n_parts: int, used: int, out: Found) -> int:
    """List the matches of an event in the chunks of a part; return how many there are then, or -1 without room."""
    chunks = index.chunks
    picks = _picked(index.attributes, chunks, codes.code[e])
    result = np.empty(CHUNK_WORDS, np.uint64)
    ties = np.empty(_TIES, np.int32)
    for chunk in range(part, chunks.stop.shape[0], n_parts):
        first, stop = chunks.stop[chunk - 1] if chunk > 0 else 0, chunks.stop[chunk]
        n_words = (stop - first) // WORD_BITS
        words = result[:n_words]
        _fetch(chunks, chunk, picks)
        words[:] = chunks.alive[first // WORD_BITS : stop // WORD_BITS]
        _and_rows(chunks.rows, chunks.rows_start[chunk], n_words, picks.row, words)
        n_ties = _clear_runs(chunks.border[chunk], chunks.end, picks, words, ties)
        if n_ties > ties.shape[0]:
            # Clearing twice does no harm.
            ties = np.empty(2 * n_ties, np.int32)
            _clear_runs(chunks.border[chunk], chunks.end, picks, words, ties)
        if not codes.whole[e]:
            _settle(index.clauses, chunks.slot[first:stop], codes, e, ties[:n_ties], words)
        used = _list_bits(words, chunks.slot[first:stop], chunks.shift[chunk], used, out.slot)
        if used < 0:
            return -1
    end_run(out, e, used)
    return used


@kernel
def _picked(attributes: Attributes, chunks: Chunks, code: NDArray[np.int32]) -> _Picks:
    """Return what an event with these codes picks."""
    n_cells, n_attributes = attributes.n_cells, attributes.row_attribute.shape[0]
    row, cell = np.zeros(n_attributes + 3, np.int64), np.empty(n_attributes, np.int64)
    cell_code, within = np.empty(n_attributes, np.int64), np.empty(n_attributes, np.int64)
    n_rows, n = 0, 0
    for a in range(n_attributes):
        r, number = attributes.row_attribute[a], 0
        if r != NONE:
            number = n_cells if code[a] == ABSENT else cell_of_code(code[a], n_cells)
            row[n_rows] = r * (n_cells + 1) + number
            n_rows += 1
        if number < n_cells:
            cell[n], cell_code[n] = chunks.first_cell[a] + number, code[a]
            within[n] = (code[a] if r == NONE else code[a] * n_cells) & LAST_CODE
            n += 1
    while n_rows % 4:
        row[n_rows] = row[n_rows - 1]
        n_rows += 1
    return _Picks(row[:n_rows], cell[:n], cell_code[:n], within[:n])


@kernel
def _fetch(chunks: Chunks, chunk: int, picks: _Picks) -> None:
    """Ask for the runs of a chunk, where they should be, and for the borders of the next chunk's."""
    border, end, cell = chunks.border, chunks.end, picks.cell
    for i in range(cell.shape[0]):
        at = 2 * cell[i]
        begin, middle, stop = border[chunk, at], border[chunk, at + 1], border[chunk, at + 2]
        first, last = _expected(begin, middle, picks.within[i]), _expected(middle, stop, picks.within[i])
        prefetch(end, first - _LINE_ENDS)
        for line in range(first, min(last, first + _FETCHED_LINES * _LINE_ENDS), _LINE_ENDS):
            prefetch(end, line)
        prefetch(end, last)
        if chunk + 1 < border.shape[0]:
            prefetch(border, (chunk + 1) * border.shape[1] + at)


@inlined
def _expected(begin: int, stop: int, within: int) -> int:
    """Return where in a list the ends should begin that lie above a value, if they are spread evenly."""
    return begin + ((stop - begin) * within >> CODE_BITS)


@kernel
def _and_rows(
    rows: NDArray[np.uint64], start: int, n_words: int, chosen: NDArray[np.int64], out_words: NDArray[np.uint64]
) -> None:
    """AND the chosen rows, four at a time."""
    for i in range(0, chosen.shape[0], 4):
        r0, r1 = start + chosen[i] * n_words, start + chosen[i + 1] * n_words
        r2, r3 = start + chosen[i + 2] * n_words, start + chosen[i + 3] * n_words
        for w in range(0, n_words, LINE_WORDS):
            and_four_lines(rows, r0 + w, r1 + w, r2 + w, r3 + w, out_words, w, out_words, w)


@kernel
def _clear_runs(
    border: NDArray[np.int64],
    end: NDArray[np.uint32],
    picks: _Picks,
    out_words: NDArray[np.uint64],
    out_ties: NDArray[np.int32],
) -> int:
    """Clear whom values fail; return how many ends have the very code of a value, and list them if there is room."""
    cell, codes, within = picks.cell, picks.code, picks.within
    n_ties = 0
    for i in range(cell.shape[0]):
        begin, middle, stop = border[2 * cell[i]], border[2 * cell[i] + 1], border[2 * cell[i] + 2]
        if codes[i] == ABSENT:
            _clear(end, begin, middle, out_words)
            continue
        least, beyond = codes[i] << CODE_SHIFT, (codes[i] + 1) << CODE_SHIFT
        first = _search(end, begin, middle, _expected(begin, middle, within[i]), beyond)
        last = _search(end, middle, stop, _expected(middle, stop, within[i]), least)
        _clear(end, first, last, out_words)
        while first > begin and np.int64(end[first - 1]) >= least:
            first -= 1
            if n_ties < out_ties.shape[0]:
                out_ties[n_ties] = np.int64(end[first]) & np.int64(_PLACE)
            n_ties += 1
        while last < stop and np.int64(end[last]) < beyond:
            if n_ties < out_ties.shape[0]:
                out_ties[n_ties] = np.int64(end[last]) & np.int64(_PLACE)
            n_ties += 1
            last += 1
    return n_ties


@inlined
def _search(end: NDArray[np.uint32], begin: int, stop: int, expected: int, wanted: int) -> int:
    """Return the first end from `begin` to `stop` that is not below what is wanted; it should be near `expected`."""
    step = _NEAR
    if expected < stop and np.int64(end[expected]) < wanted:
        begin = expected + 1
        while begin + step < stop and np.int64(end[begin + step]) < wanted:
            begin += step + 1
            step *= 2
        stop = min(stop, begin + step)
    else:
        stop = expected
        while stop - step > begin and np.int64(end[stop - step]) >= wanted:
            stop -= step
            step *= 2
        begin = max(begin, stop - step)
    n = stop - begin
    while n > 0:
        # Halving without a branch.
        half = (n + 1) >> 1
        begin += half * int(np.int64(end[begin + half - 1]) < wanted)
        n -= half
    return begin


@inlined
def _clear(end: NDArray[np.uint32], first: int, stop: int, out_words: NDArray[np.uint64]) -> None:
    for i in range(np.uint64(first), np.uint64(stop)):
        place = np.uint64(end[i]) & _PLACE
        out_words[place >> _WORD_SHIFT] &= ~(_ONE << (place & _LOW_BITS))


@kernel
def _settle(
    clauses: ClauseTable,
    slots: NDArray[np.int32],
    codes: EventCodes,
    e: int,
    ties: NDArray[np.int32],
    out_words: NDArray[np.uint64],
) -> None:
    """Hold survivors with a tie against the clause table."""
    for place in ties:
        if has_bit(out_words, place) and not clause_holds(clauses, slots[place], codes.value[e]):
            clear_bit(out_words, place)


@kernel
def _list_bits(
    words: NDArray[np.uint64], slots: NDArray[np.int32], shift: int, used: int, out_slot: NDArray[np.int32]
) -> int:
    """List the clauses whose bits are set; return how many matches there are then, or -1 if there is no room."""
    n = 0
    for w in range(words.shape[0]):
        n += popcount(words[w])
    if used + n + BITS_AT_ONCE > out_slot.shape[0]:
        return -1
    at = np.uint64(used)
    dense = n > words.shape[0]
    for w in range(words.shape[0]):
        word, first = words[w], max(shift, 0) + w * WORD_BITS
        after = at + np.uint64(popcount(word))
        if (word != _ZERO) | dense:
            # Some at a time, whether a word has them or not: cheaper than to guess wrong where to stop.
            for k in range(BITS_AT_ONCE):
                out_slot[at + np.uint64(k)] = first + trailing_zeros(word | _LAST_BIT)
                word &= word - _ONE
            for i in range(at + np.uint64(BITS_AT_ONCE), after):
                out_slot[i] = first + trailing_zeros(word)
                word &= word - _ONE
        at = after
    if shift == SCATTERED:
        # In a loop of its own, since main memory answers many at a time if no branch is in the way.
        for i in range(np.uint64(used), at):
            out_slot[i] = slots[np.uint64(out_slot[i])]
    return used + n
