"""BOP, the bitset-based optimization paradigm: what any attribute-by-attribute index needs to become a bitset matcher.

Paper: Liang et al., "BOP: A Bitset-based Optimization Paradigm for Content-based Event Matching Algorithms"
(SEKE 2023), section IV. A matcher keeps its own index plus `NullBitsets`, and hands one kernel to
`_kernels.bop.match_by_attribute`: the one that marks, for one attribute and value, the satisfied predicates.
REIN-O and TAMA-O are the two uses.

Differences from the paper: the bitsets are cut into blocks of slots and an event is matched block by block, so the two
working bitsets never leave the first-level cache. Null bits are set from the start and cleared for the k attributes
a clause asks for, so an insertion touches k bits, not d - k; free slots are kept out by one more bitset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import ALL_ONES
from eventsieve._kernels.bop import BlockRows, enter_clauses, remove_clauses
from eventsieve._kernels.buckets import BLOCK_SLOTS
from eventsieve.model.columns import ClauseTable, flat


class NullBitsets:
    """Per attribute, the clauses that do not ask for it: the growing owner of `BlockRows`."""

    rows: BlockRows

    def __init__(self, n_attributes: int, block_slots: int = BLOCK_SLOTS) -> None:
        words = block_slots // WORD_BITS
        self.rows = BlockRows(np.zeros((0, words), np.uint64), np.zeros((0, n_attributes, words), np.uint64))

    @property
    def n_blocks(self) -> int:
        return self.rows.alive.shape[0]

    def make_room(self, n_slots: int) -> None:
        """Add the blocks that this many slots need."""
        _, n_attributes, words = self.rows.null.shape
        more = -(-n_slots // (words * WORD_BITS)) - self.n_blocks
        if more > 0:
            alive = np.zeros((more, words), np.uint64)
            null = np.full((more, n_attributes, words), ALL_ONES)
            self.rows = BlockRows(np.concatenate([self.rows.alive, alive]), np.concatenate([self.rows.null, null]))

    def insert(self, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Take in the clauses at `slots`."""
        self.make_room(clauses.start.shape[0])
        enter_clauses(clauses, slots, self.rows)

    def delete(self, clauses: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Forget the clauses at `slots`, which the table still holds."""
        remove_clauses(clauses, slots, self.rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return self.rows._asdict()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up what `arrays` gave."""
        self.rows = BlockRows(flat(arrays["alive"], np.uint64), flat(arrays["null"], np.uint64))
