"""Bitsets: rows of 64-bit words, one bit per clause slot.

Bit `s` of a row is bit `s % 64` of word `s // 64`. All row operations work on whole words, so bits past the last
slot must be kept at zero in at least one operand; the growing callers keep them so.

Loops run over contiguous slices and several rows per pass: the result row is then read and written once for
eight operands rather than once for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS, trailing_zeros
from eventsieve._kernels.compiler import inlined, kernel

ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LOW_BITS = np.uint64(WORD_BITS - 1)
_WORD_SHIFT = np.uint64(6)


@inlined
def set_bit(words: NDArray[np.uint64], bit: int) -> None:
    position = np.uint64(bit)
    words[position >> _WORD_SHIFT] |= _ONE << (position & _LOW_BITS)


@inlined
def clear_bit(words: NDArray[np.uint64], bit: int) -> None:
    position = np.uint64(bit)
    words[position >> _WORD_SHIFT] &= ~(_ONE << (position & _LOW_BITS))


@inlined
def has_bit(words: NDArray[np.uint64], bit: int) -> bool:
    position = np.uint64(bit)
    found: bool = (words[position >> _WORD_SHIFT] >> (position & _LOW_BITS)) & _ONE != _ZERO
    return found


@kernel
def copy_row(words: NDArray[np.uint64], out_words: NDArray[np.uint64]) -> None:
    """Copy a row."""
    for w in range(out_words.shape[0]):
        out_words[w] = words[w]


@kernel
def invert_row(out_words: NDArray[np.uint64]) -> None:
    """Flip every bit of a row."""
    for w in range(out_words.shape[0]):
        out_words[w] = ~out_words[w]


@kernel
def and_row(words: NDArray[np.uint64], out_words: NDArray[np.uint64]) -> None:
    """AND one row into another."""
    for w in range(out_words.shape[0]):
        out_words[w] &= words[w]


@kernel
def and_rows(rows: NDArray[np.uint64], chosen: NDArray[np.int32], n_chosen: int, out_words: NDArray[np.uint64]) -> None:
    """AND the rows of a table that `chosen[:n_chosen]` names into `out_words`, eight in a pass."""
    n_words = out_words.shape[0]
    i = 0
    while i + 8 <= n_chosen:
        # One-dimensional views: the compiler then sees contiguous streams and uses wide registers.
        r0 = rows[chosen[i]]
        r1 = rows[chosen[i + 1]]
        r2 = rows[chosen[i + 2]]
        r3 = rows[chosen[i + 3]]
        r4 = rows[chosen[i + 4]]
        r5 = rows[chosen[i + 5]]
        r6 = rows[chosen[i + 6]]
        r7 = rows[chosen[i + 7]]
        for w in range(n_words):
            out_words[w] &= (r0[w] & r1[w] & r2[w] & r3[w]) & (r4[w] & r5[w] & r6[w] & r7[w])
        i += 8
    if i + 4 <= n_chosen:
        r0 = rows[chosen[i]]
        r1 = rows[chosen[i + 1]]
        r2 = rows[chosen[i + 2]]
        r3 = rows[chosen[i + 3]]
        for w in range(n_words):
            out_words[w] &= r0[w] & r1[w] & r2[w] & r3[w]
        i += 4
    if i + 2 <= n_chosen:
        r0 = rows[chosen[i]]
        r1 = rows[chosen[i + 1]]
        for w in range(n_words):
            out_words[w] &= r0[w] & r1[w]
        i += 2
    if i < n_chosen:
        r0 = rows[chosen[i]]
        for w in range(n_words):
            out_words[w] &= r0[w]


@kernel
def extract_bits(words: NDArray[np.uint64], first: int, position: int, out_slots: NDArray[np.int32]) -> int:
    """Write `first` plus the place of each set bit to out_slots[position:], rising; return the next position."""
    for w in range(words.shape[0]):
        word = words[w]
        base = first + w * WORD_BITS
        while word != _ZERO:
            out_slots[position] = base + trailing_zeros(word)
            position += 1
            word &= word - _ONE
    return position
