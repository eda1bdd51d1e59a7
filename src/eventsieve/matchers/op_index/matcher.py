"""The OP-Index matcher: parameters, the contract, and growing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.op_index.counting import match, new_scratch
from eventsieve.matchers.op_index.layout import (
    BLOCK_CLAUSES,
    BLOCK_FIELDS,
    BLOCKS,
    ENTRIES,
    FIRST,
    LENGTH,
    LIST_FIELDS,
    LISTS,
    LIVE,
    N_OPERATORS,
    N_USED,
    PIVOT,
    PLACES,
    ROOM,
    WASTED,
    OpLists,
)
from eventsieve.matchers.op_index.lists import (
    capacity_for,
    choose_pivots,
    compact,
    count_entries,
    count_frequencies,
    delete,
    fill_entries,
    insert,
    lay_out_lists,
    new_block,
    place_clauses,
)
from eventsieve.model.columns import EventColumns

Count = Literal["fewer", "satisfied"]
_MOST_BITS: Final = 62
"""A signature is a signed number of 64 bits."""


class OpIndex(Matcher):
    name = "op-index"
    summary = "rarest attribute, then operators in sorted lists; counters"
    capabilities = Capabilities(paper="OpIndex (Zhang, Chan and Tan, PVLDB 2014)")

    def __init__(self, *, signature_bits: int = 31, count: Count = "fewer") -> None:
        """Set the parameters.

        signature_bits: segments that the attributes of a block are divided into. count: "satisfied" always counts
        the predicates that hold, as the paper does; "fewer" counts those that fail where they are fewer.
        """
        if not 1 <= signature_bits <= _MOST_BITS:
            raise ValueError(f"signature_bits is 1 to {_MOST_BITS}, not {signature_bits}")
        if count not in get_args(Count):
            raise ValueError(f"count is one of {', '.join(get_args(Count))}, not {count!r}")
        self.signature_bits = signature_bits
        self.count = count

    # -- the contract ------------------------------------------------------------------------------------

    def _build(self) -> None:
        slots = np.flatnonzero(self.clauses.stop > self.clauses.start).astype(np.int32)
        frequency = np.zeros(self.n_attributes, np.int64)
        count_frequencies(self.clauses, slots, frequency)
        pivot = np.empty(slots.size, np.int32)
        choose_pivots(self.clauses, slots, frequency, pivot)
        clauses_of_pivot = np.bincount(pivot, minlength=self.n_attributes)
        blocks_of_pivot = -(-clauses_of_pivot // BLOCK_CLAUSES)
        first_block = np.concatenate([[0], np.cumsum(blocks_of_pivot)]).astype(np.int64)
        n_blocks = int(first_block[-1])
        self._index = _made_index(n_blocks, self.n_attributes, slots.size, self.n_slots, frequency)
        index = self._index
        for a in np.flatnonzero(blocks_of_pivot):
            rest = int(clauses_of_pivot[a])
            for _ in range(int(blocks_of_pivot[a])):
                b = new_block(index, int(a))
                index.block[b, [FIRST, ROOM]] = index.used[PLACES], min(rest, BLOCK_CLAUSES)
                index.used[PLACES] += min(rest, BLOCK_CLAUSES)
                rest -= BLOCK_CLAUSES
        place_clauses(self.clauses, slots, pivot, first_block[:-1], index)
        count_entries(self.clauses, slots, index)
        n_lists = int(index.used[LISTS])
        n_entries = lay_out_lists(index)
        self._index = index._replace(
            lists=index.lists[:n_lists].copy(), value=np.empty(n_entries), place=np.empty(n_entries, np.uint16)
        )
        fill_entries(self.clauses, slots, self.signature_bits, self._index)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        slots = slots[self.clauses.stop[slots] > self.clauses.start[slots]]
        self._index = self._index._replace(
            block_of_slot=_grown(self._index.block_of_slot, self.n_slots),
            place_of_slot=_grown(self._index.place_of_slot, self.n_slots),
        )
        need = np.zeros(4, np.int64)
        done = 0
        while True:
            done = insert(self.clauses, slots, done, self.signature_bits, self._index, need)
            if done == slots.size:
                return
            self._make_room(*(int(n) for n in need))

    def _delete(self, slots: NDArray[np.int32]) -> None:
        delete(self.clauses, slots, self.signature_bits, self._index)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        scratch = new_scratch(self.n_attributes, self.signature_bits)
        fewer = self.count == "fewer"
        return match(
            self.clauses, self._index, self.signature_bits, fewer, events, first, scratch, out_count, out_slots
        )

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        blocks, places, lists, entries = (int(n) for n in self._index.used[[BLOCKS, PLACES, LISTS, ENTRIES]])
        ends = {
            **dict.fromkeys(("block", "first_list"), blocks),
            **dict.fromkeys(("slot_of_place", "predicates", "points"), places),
            "lists": lists,
            **dict.fromkeys(("value", "place"), entries),
            **dict.fromkeys(("block_of_slot", "place_of_slot"), self.n_slots),
        }
        return {name: array[: ends.get(name)] for name, array in self._index._asdict().items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._index = OpLists(**{name: arrays[name] for name in OpLists._fields})

    def _describe(self) -> dict[str, Any]:
        index = self._index
        blocks = index.block[: index.used[BLOCKS]]
        lengths = index.lists[: index.used[LISTS], LENGTH]
        return {
            "clauses": int(blocks[:, LIVE].sum()),
            "pivots": int(np.unique(blocks[blocks[:, LIVE] > 0, PIVOT]).size),
            "blocks": len(blocks),
            "largest_block": int(blocks[:, LIVE].max(initial=0)),
            "lists": int(np.count_nonzero(lengths)),
            "longest_list": int(lengths.max(initial=0)),
            "entries": int(lengths.sum()),
        }

    # -- growing -----------------------------------------------------------------------------------------

    def _make_room(self, blocks: int, places: int, lists: int, entries: int) -> None:
        index = self._index
        if entries > index.value.size and index.used[WASTED] * 2 > index.used[ENTRIES]:
            self._compact()
            return
        self._index = index._replace(
            block=_grown(index.block, blocks),
            first_list=_grown(index.first_list, blocks),
            slot_of_place=_grown(index.slot_of_place, places),
            predicates=_grown(index.predicates, places),
            points=_grown(index.points, places),
            lists=_grown(index.lists, lists),
            value=_grown(index.value, entries),
            place=_grown(index.place, entries),
        )

    def _compact(self) -> None:
        """Lay the lists out anew, without what moved lists left behind."""
        lengths = self._index.lists[: self._index.used[LISTS], LENGTH]
        room = sum(capacity_for(int(length)) for length in lengths)
        value, place = np.empty(room), np.empty(room, np.uint16)
        compact(self._index, value, place)
        self._index = self._index._replace(value=value, place=place)


def _made_index(
    n_blocks: int, n_attributes: int, n_places: int, n_slots: int, frequency: NDArray[np.int64]
) -> OpLists:  # fmt: skip
    """Return an index without entries, with room for every list that its blocks can have."""
    return OpLists(
        np.zeros((n_blocks, BLOCK_FIELDS), np.int64),
        np.full((n_blocks, n_attributes), -1, np.int32),
        np.zeros((n_blocks * n_attributes * N_OPERATORS, LIST_FIELDS), np.int64),
        np.empty(0),
        np.empty(0, np.uint16),
        np.zeros(n_places, np.uint32),
        np.zeros(n_places, np.uint8),
        np.zeros(n_places, np.uint8),
        np.full(n_slots, -1, np.int32),
        np.zeros(n_slots, np.uint16),
        frequency,
        np.full(n_attributes, -1, np.int32),
        np.zeros(N_USED, np.int64),
    )


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array with at least this size; what is new holds -1 where numbers have a sign."""
    present = array.shape[0]
    if present >= size:
        return array
    grown = np.zeros((max(size, present * 3 // 2 + 16), *array.shape[1:]), array.dtype)
    grown[:present] = array
    if array.dtype == np.int32:
        grown[present:] = -1
    return grown
