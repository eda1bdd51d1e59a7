"""Bitset kernels against plain NumPy booleans, at and around the edges of words."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve._kernels import bitset
from eventsieve._kernels.compiler import kernel

SIZES = [1, 63, 64, 65, 127, 128, 1000]


def words_for(n_bits: int) -> int:
    return -(-n_bits // 64)


def packed(flags: np.ndarray, n_words: int) -> np.ndarray:
    """A row whose bit s is flags[s], zero past the last flag."""
    row = np.zeros(n_words, np.uint64)
    for s in np.flatnonzero(flags).tolist():
        row[s // 64] |= np.uint64(1 << s % 64)
    return row


def unpacked(words: np.ndarray, n_bits: int) -> np.ndarray:
    return np.array([(int(words[s // 64]) >> (s % 64)) & 1 for s in range(n_bits)], bool)


@pytest.mark.parametrize("n_bits", SIZES)
@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 4, 7, 8, 9, 15, 21])
def test_and_rows_is_the_conjunction_of_the_chosen_rows(n_bits: int, n_rows: int) -> None:
    rng = np.random.default_rng(n_bits * 100 + n_rows)
    flags = rng.random((25, n_bits)) < 0.95
    rows = np.stack([packed(row, words_for(n_bits)) for row in flags])
    chosen = rng.permutation(25).astype(np.int32)
    result = packed(np.ones(n_bits, bool), words_for(n_bits))
    bitset.and_rows(rows, chosen, n_rows, result)
    assert np.array_equal(unpacked(result, n_bits), flags[chosen[:n_rows]].all(axis=0))


@pytest.mark.parametrize("n_bits", SIZES)
def test_row_operations_agree_with_numpy(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    n_words = words_for(n_bits)
    one, two = (packed(rng.random(n_bits) < 0.5, n_words) for _ in range(2))
    out = np.empty_like(one)
    bitset.copy_row(one, out)
    assert np.array_equal(out, one)
    bitset.and_row(two, out)
    assert np.array_equal(out, one & two)
    bitset.invert_row(out)
    assert np.array_equal(out, ~(one & two))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("n_bits", SIZES)
def test_extraction_writes_rising_slots_behind_what_is_there(n_bits: int, share: float) -> None:
    flags = np.random.default_rng(n_bits).random(n_bits) < share
    out = np.full(n_bits + 3, -1, np.int32)
    end = bitset.extract_bits(packed(flags, words_for(n_bits)), 1000, 3, out)
    assert (out[:3] == -1).all()
    assert np.array_equal(out[3:end], np.flatnonzero(flags) + 1000)


@kernel
def _touch(words: np.ndarray, setting: np.ndarray, clearing: np.ndarray, out_seen: np.ndarray) -> None:
    for s in setting:
        bitset.set_bit(words, s)
    for s in clearing:
        bitset.clear_bit(words, s)
    for s in range(out_seen.shape[0]):
        out_seen[s] = bitset.has_bit(words, s)


def test_single_bits_at_word_edges() -> None:
    words = np.zeros(3, np.uint64)
    seen = np.zeros(192, np.bool_)
    _touch(words, np.array([0, 63, 64, 65, 127, 128, 191], np.int32), np.array([64, 128, 5], np.int32), seen)
    assert np.flatnonzero(seen).tolist() == [0, 63, 65, 127, 191]
    assert np.array_equal(unpacked(words, 192), seen)
