"""What it costs to AND 48 rows over a million clauses, by how the rows lie in memory.

Rows of `sieve`'s blocks lie in pieces of 64 bytes: an event reads few of them, since hulls pass over most blocks. Where
events match much, hulls pass over little, and all pieces of a row come from main memory, which gives longer ones much
quicker. So the rows of its chunks are in pieces of some kilobytes.

    python experiments/sieve/reading_rows.py

prints the processor time of one event for several lengths of the pieces, with caches emptied before each.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve._kernels.lines import LINE_WORDS, and_four_lines

N_WORDS = 245 * 64
N_ROWS = 2400
N_CHOSEN = 48
REPEATS = 12


@kernel
def and_pieces(
    words: NDArray[np.uint64], piece: int, n_pieces: int, rows: NDArray[np.int64], result: NDArray[np.uint64]
) -> None:
    """AND the rows piece by piece, four rows in a pass."""
    for number in range(n_pieces):
        first = number * N_ROWS * piece
        for j in range(0, rows.shape[0], 4):
            r0, r1 = first + rows[j] * piece, first + rows[j + 1] * piece
            r2, r3 = first + rows[j + 2] * piece, first + rows[j + 3] * piece
            for w in range(0, piece, LINE_WORDS):
                and_four_lines(words, r0 + w, r1 + w, r2 + w, r3 + w, result, w, result, w)


def main() -> None:
    words = np.ones(N_WORDS * N_ROWS, np.uint64)
    other = np.ones(10_000_000)
    rng = np.random.default_rng(1)
    for piece in (8, 64, 128, 256, 512):
        result = np.zeros(piece, np.uint64)
        spent = []
        for _ in range(REPEATS):
            rows = np.sort(rng.choice(N_ROWS, N_CHOSEN, replace=False))
            other.sum()
            begin = time.thread_time_ns()
            and_pieces(words, piece, N_WORDS // piece, rows, result)
            spent.append(time.thread_time_ns() - begin)
        print(f"pieces of {piece * 8:5} bytes: {np.median(spent) / 1e6:.3f} ms, least {min(spent) / 1e6:.3f}")


if __name__ == "__main__":
    main()
