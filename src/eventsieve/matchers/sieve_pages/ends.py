"""The ends of all predicates, by chunk of slots, attribute and cell: what makes survivors of the rows exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.buckets import (
    BucketLists,
    BucketRule,
    count_ends,
    delete_ends,
    ends_of,
    fill_ends,
    find_ends,
    insert_ends,
    lay_out,
    missing_room,
    repack,
    sorted_ends,
)
from eventsieve.model.columns import ClauseTable, flat


class Ends:
    """The growing owner of the lists."""

    lists: BucketLists

    def __init__(self, rule: BucketRule, n_attributes: int) -> None:
        self._rule = rule
        self._n_attributes = n_attributes
        self.lists = BucketLists(
            np.zeros(0, np.int64),
            np.zeros(0, np.int32),
            np.zeros((0, rule.n_cells + 1), np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(0, np.float64),
            np.zeros(1, np.int64),
        )

    def build(self, table: ClauseTable, n_chunks: int) -> None:
        """Take in every clause of the table."""
        self.add_chunks(n_chunks)
        count_ends(self._rule, table, self._n_attributes, self.lists)
        self._give_pool(lay_out(self.lists))
        fill_ends(self._rule, table, self._n_attributes, self.lists)
        self.lists.used[0] = self.lists.place.size

    def add_chunks(self, n_chunks: int) -> None:
        """Have lists for this many chunks, the new ones empty."""
        lists = self.lists
        more = 2 * self._n_attributes * n_chunks - lists.start.size
        if more > 0:
            self.lists = lists._replace(
                start=np.concatenate([lists.start, np.zeros(more, np.int64)]),
                room=np.concatenate([lists.room, np.zeros(more, np.int32)]),
                cell_start=np.concatenate([lists.cell_start, np.zeros((more, self._rule.n_cells + 1), np.uint16)]),
            )

    def insert(self, table: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Take in the clauses at `slots`."""
        ends = sorted_ends(ends_of(self._rule, table, self._n_attributes, slots))
        missing = missing_room(ends, self.lists)
        if missing:
            self._grow_pool(missing)
        insert_ends(ends, self.lists)

    def delete(self, table: ClauseTable, slots: NDArray[np.int32]) -> None:
        """Forget the clauses at `slots`."""
        ends = ends_of(self._rule, table, self._n_attributes, slots)
        at = find_ends(ends, self.lists)
        order = np.lexsort((at, ends.key))
        delete_ends(ends.key[order], at[order], self.lists)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return {f"ends_{name}": array for name, array in self.lists._asdict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up what `arrays` gave."""
        columns = (arrays[f"ends_{name}"] for name in BucketLists._fields)
        self.lists = BucketLists(*(flat(column, column.dtype) for column in columns))

    def _give_pool(self, size: int) -> None:
        self.lists = self.lists._replace(place=np.zeros(size, np.uint16), bound=np.zeros(size, np.float64))

    def _grow_pool(self, missing: int) -> None:
        """Replace the pool by a larger one, without the room that moved lists left behind."""
        old = self.lists
        in_use = int(old.room.sum(dtype=np.int64))
        asked = missing + old.place.size - int(old.used[0])
        self._give_pool(in_use + max(asked, in_use // 8))
        repack(old, self.lists.place, self.lists.bound)
