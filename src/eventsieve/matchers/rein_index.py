"""What REIN and its variants keep: two bucket lists per attribute, and the null bitsets.

The arrays and everything that runs over them are in `_kernels.buckets` and `_kernels.bop`; here they are made, given
room, changed and stored. The variants differ only in how they walk the lists.
"""

from __future__ import annotations

from abc import abstractmethod
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
from eventsieve._kernels.positions import CODE_BITS
from eventsieve.matchers.base import Matcher
from eventsieve.matchers.bop import NullBitsets
from eventsieve.matchers.transforms import check_transform, table_arrays, table_for, table_from
from eventsieve.model.columns import flat
from eventsieve.model.transform import TransformChoice, TransformTable

MOST_BUCKETS = 1 << CODE_BITS


class ReinIndex(Matcher):
    """Base of REIN and its variants. Subclasses say which open ends need an entry, and match."""

    buckets: int
    transform: TransformChoice
    _rule: BucketRule
    _lists: BucketLists
    _nulls: NullBitsets

    @abstractmethod
    def _open_ends(self) -> tuple[bool, bool]:
        """Return whether low ends at -inf, and high ends at inf, need an entry."""

    def _set_cells(self, buckets: int, transform: TransformChoice) -> None:
        if not 1 <= buckets <= MOST_BUCKETS:
            raise ValueError(f"buckets must be from 1 to {MOST_BUCKETS}, not {buckets}")
        self.buckets = int(buckets)
        self.transform = check_transform(transform)

    def _build(self) -> None:
        self._take_rule(table_for(self, self.transform))
        self._nulls = NullBitsets(self.n_attributes)
        self._nulls.insert(self.clauses, np.arange(self.n_slots, dtype=np.int32))
        self._build_lists()

    def _insert(self, slots: NDArray[np.int32]) -> None:
        self._nulls.insert(self.clauses, slots)
        self._insert_ends(slots)

    def _delete(self, slots: NDArray[np.int32]) -> None:
        self._nulls.delete(self.clauses, slots)
        self._delete_ends(slots)

    def _build_lists(self) -> None:
        self._lists = _empty_lists(self.buckets)
        self._add_lists()
        count_ends(self._rule, self.clauses, self.n_attributes, self._lists)
        self._give_pool(lay_out(self._lists))
        fill_ends(self._rule, self.clauses, self.n_attributes, self._lists)
        self._lists.used[0] = self._lists.place.size

    def _insert_ends(self, slots: NDArray[np.int32]) -> None:
        self._add_lists()
        ends = sorted_ends(ends_of(self._rule, self.clauses, self.n_attributes, slots))
        missing = missing_room(ends, self._lists)
        if missing:
            self._grow_pool(missing)
        insert_ends(ends, self._lists)

    def _delete_ends(self, slots: NDArray[np.int32]) -> None:
        ends = ends_of(self._rule, self.clauses, self.n_attributes, slots)
        at = find_ends(ends, self._lists)
        order = np.lexsort((at, ends.key))
        delete_ends(ends.key[order], at[order], self._lists)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        return {**self._lists._asdict(), **self._nulls.arrays(), **table_arrays(self._rule.table)}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._take_rule(table_from(arrays))
        self._nulls = NullBitsets(self.n_attributes)
        self._nulls.restore(arrays)
        self._lists = lists_from(arrays)

    def _describe(self) -> dict[str, Any]:
        entries = int(self._lists.cell_start[:, -1].sum(dtype=np.int64))
        return {"blocks": self._nulls.n_blocks, "entries": entries, "spare_entries": self._lists.place.size - entries}

    def _take_rule(self, table: TransformTable) -> None:
        self._rule = BucketRule(table, self.buckets, *self._open_ends())

    def _add_lists(self) -> None:
        """Give every block its lists, empty."""
        more = 2 * self.n_attributes * self._nulls.n_blocks - self._lists.start.size
        if more > 0:
            lists = self._lists
            self._lists = lists._replace(
                start=np.concatenate([lists.start, np.zeros(more, np.int64)]),
                room=np.concatenate([lists.room, np.zeros(more, np.int32)]),
                cell_start=np.concatenate([lists.cell_start, np.zeros((more, self.buckets + 1), np.uint16)]),
            )

    def _give_pool(self, size: int) -> None:
        self._lists = self._lists._replace(place=np.zeros(size, np.uint16), bound=np.zeros(size, np.float64))

    def _grow_pool(self, missing: int) -> None:
        """Replace the pool by a larger one, without the room that moved lists left behind."""
        old = self._lists
        in_use = int(old.room.sum(dtype=np.int64))
        asked = missing + old.place.size - int(old.used[0])
        self._give_pool(in_use + max(asked, in_use // 8))
        repack(old, self._lists.place, self._lists.bound)


def lists_from(arrays: Mapping[str, NDArray[Any]]) -> BucketLists:
    """Take up bucket lists that were stored."""
    return BucketLists(
        flat(arrays["start"], np.int64),
        flat(arrays["room"], np.int32),
        flat(arrays["cell_start"], np.uint16),
        flat(arrays["place"], np.uint16),
        flat(arrays["bound"], np.float64),
        flat(arrays["used"], np.int64),
    )


def _empty_lists(buckets: int) -> BucketLists:
    return BucketLists(
        np.zeros(0, np.int64),
        np.zeros(0, np.int32),
        np.zeros((0, buckets + 1), np.uint16),
        np.zeros(0, np.uint16),
        np.zeros(0, np.float64),
        np.zeros(1, np.int64),
    )
