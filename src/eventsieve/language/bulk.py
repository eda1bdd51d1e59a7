"""Compile many filter texts at once: plain conjunctions by a compiled scanner, the rest left to the parser.

The parser needs a tenth of a millisecond per predicate, so a million filters would take minutes. Most filters are
plain conjunctions, which the scanner reads at some hundred megabytes per second. Where it has the least doubt
it leaves a row alone; what it does compile is exactly what `parse` and `compile_filter` would give.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.language.parse import LONGEST_TEXT
from eventsieve.language.scanner import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    BOOL,
    FLOAT,
    INT,
    TEXT,
    UNEQUAL,
    Names,
    Predicates,
    names_of,
    room_for,
    scan_rows,
)
from eventsieve.model.codes import Codes
from eventsieve.model.columns import flat
from eventsieve.model.schema import Schema

_ROWS_AT_ONCE: Final = 1 << 16


class BulkResult(NamedTuple):
    """One clause per handled row r: its predicates are start[r]:stop[r], by rising attribute."""

    handled: NDArray[np.bool_]  # (n_rows,)
    start: NDArray[np.int64]  # (n_rows,)
    stop: NDArray[np.int64]  # (n_rows,); start == stop where a row was left to the parser
    attribute: NDArray[np.int32]  # (n_predicates,)
    low: NDArray[np.float64]  # (n_predicates,)
    high: NDArray[np.float64]  # (n_predicates,)


def compile_bulk(texts: Any, schema: Schema, codes: Codes) -> BulkResult:
    """Compile the rows of an Arrow text array that are plain conjunctions; leave all others for the parser.

    Rows that are wrong, can never match, or need more than one clause are among those left, so that every
    error comes from one place.

    >>> from eventsieve.model.types import Int
    >>> result = compile_bulk(pa.array(["a > 5", "a = 1 OR a = 2"]), Schema({"a": Int()}), Codes())
    >>> result.handled.tolist(), result.low.tolist(), result.high.tolist()
    ([True, False], [6.0], [inf])
    """
    names = names_of(schema)
    parts = [
        _compiled(texts.slice(first, _ROWS_AT_ONCE), names, codes) for first in range(0, len(texts), _ROWS_AT_ONCE)
    ]
    count = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    stop = np.cumsum(count)
    return BulkResult(
        count > 0,
        stop - count,
        stop,
        np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)]),
        np.concatenate([np.zeros(0), *(part[2] for part in parts)]),
        np.concatenate([np.zeros(0), *(part[3] for part in parts)]),
    )


def _compiled(
    texts: Any, names: Names, codes: Codes
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return how many predicates each row has (0 if it was left), and the predicates' attributes and ends."""
    letters, offsets, skipped = _bytes_of(texts)
    found = room_for(len(offsets) - 1, int(offsets[-1] - offsets[0]))
    n_predicates, n_literals = scan_rows(letters, offsets, names, skipped, found)
    found = found.trimmed(n_predicates, n_literals)
    _cast_numbers(letters, found)
    low, high = _intervals(found, names)
    rows = np.repeat(np.arange(len(found.n_of_row)), found.n_of_row)
    impossible = np.zeros(len(found.n_of_row), np.bool_)
    impossible[rows[low > high]] = True
    kept = ~impossible[rows]
    _encode_texts(letters, found, names, codes, kept, low, high)
    count = np.where(impossible, 0, found.n_of_row).astype(np.int64)
    attribute, low, high = found.attribute[kept], low[kept], high[kept]
    _sort_rows(count, attribute, low, high)
    return count, attribute, low, high


def _bytes_of(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the letters of an Arrow array, the offsets of its rows, and the rows that are no filter anyway."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    texts = texts.cast(pa.large_string())
    if len(texts) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.bool_)
    _, offset_buffer, letter_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(letter_buffer, np.uint8) if letter_buffer else np.zeros(0, np.uint8)
    skipped = texts.is_null().to_numpy(zero_copy_only=False) | (np.diff(offsets) > LONGEST_TEXT)
    first = int(offsets[0])
    # A copy of a few megabytes, so that the kernels see one dtype, one layout and writable arrays only.
    return flat(letters[first : int(offsets[-1])], np.uint8), flat(offsets - first, np.int64), flat(skipped, np.bool_)


def _cast_numbers(letters: NDArray[np.uint8], found: Predicates) -> None:
    """Give every number its value. Arrow rounds decimals to the nearest float64, as the parser does."""
    numbers = np.flatnonzero((found.literal_kind == FLOAT) | (found.literal_kind == INT))
    values = pc.cast(_texts_at(letters, found, numbers), pa.float64()).to_numpy(zero_copy_only=False)
    found.literal_value[numbers] = values + 0.0  # -0.0 becomes 0.0


def _texts_at(letters: NDArray[np.uint8], found: Predicates, literals: NDArray[np.int64]) -> Any:
    """Return the spans of these literals as an Arrow array."""
    start, stop = found.literal_start[literals], found.literal_stop[literals]
    offsets = np.zeros(len(literals) + 1, np.int64)
    np.cumsum(stop - start, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    _copy_spans(letters, start, offsets, copied)
    return pa.LargeStringArray.from_buffers(len(literals), pa.py_buffer(offsets), pa.py_buffer(copied))


def _intervals(found: Predicates, names: Names) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the closed interval of every predicate, empty where it can never hold. Texts get theirs later."""
    kind, operator = names.kind[found.attribute], found.operator
    first = found.literal_value[found.first]
    second = np.where(found.second < 0, first, found.literal_value[found.second])
    # `halted != TRUE` is `halted = FALSE`.
    first = np.where(operator == UNEQUAL, 1.0 - first, first)
    second = np.where(operator == UNEQUAL, 1.0 - second, second)
    whole = kind != FLOAT
    low, high = np.where(whole, np.ceil(first), first), np.where(whole, np.floor(second), second)
    above, below = operator == ABOVE, operator == BELOW
    low[above] = np.where(whole, np.floor(first) + 1.0, np.nextafter(first, np.inf))[above]
    high[below] = np.where(whole, np.ceil(second) - 1.0, np.nextafter(second, -np.inf))[below]
    low[below | (operator == AT_MOST)] = -np.inf
    high[above | (operator == AT_LEAST)] = np.inf
    everything = (kind == BOOL) & (low <= 0.0) & (high >= 1.0)
    only_one = (kind == BOOL) & ~everything
    low[only_one], high[only_one] = np.maximum(low[only_one], 0.0), np.minimum(high[only_one], 1.0)
    low[everything], high[everything] = -np.inf, np.inf
    return low + 0.0, high + 0.0


def _encode_texts(
    letters: NDArray[np.uint8],
    found: Predicates,
    names: Names,
    codes: Codes,
    kept: NDArray[np.bool_],
    out_low: NDArray[np.float64],
    out_high: NDArray[np.float64],
) -> None:
    """Turn the texts of kept predicates into codes: points, since texts are compared for equality only."""
    for attribute in np.flatnonzero(names.kind == TEXT):
        predicates = np.flatnonzero(kept & (found.attribute == attribute))
        if predicates.size:
            distinct = _texts_at(letters, found, found.first[predicates]).dictionary_encode()
            of_distinct = np.array(codes.assign_all(int(attribute), distinct.dictionary.to_pylist()))
            out_low[predicates] = out_high[predicates] = of_distinct[distinct.indices.to_numpy()]


@kernel
def _copy_spans(
    letters: NDArray[np.uint8], start: NDArray[np.int64], offsets: NDArray[np.int64], out_letters: NDArray[np.uint8]
) -> None:
    for span in range(start.shape[0]):
        shift = start[span] - offsets[span]
        for k in range(offsets[span], offsets[span + 1]):
            out_letters[k] = letters[k + shift]


@kernel
def _sort_rows(
    count: NDArray[np.int64],
    out_attribute: NDArray[np.int32],
    out_low: NDArray[np.float64],
    out_high: NDArray[np.float64],
) -> None:
    """Bring every row's predicates into the order of their attributes; rows are short, so insertion does."""
    first = 0
    for row in range(count.shape[0]):
        for p in range(first + 1, first + count[row]):
            attribute, low, high = out_attribute[p], out_low[p], out_high[p]
            q = p
            while q > first and out_attribute[q - 1] > attribute:
                out_attribute[q], out_low[q], out_high[q] = out_attribute[q - 1], out_low[q - 1], out_high[q - 1]
                q -= 1
            out_attribute[q], out_low[q], out_high[q] = attribute, low, high
        first += count[row]
