"""REIN and REIN-F: find the clauses that do *not* match, and report the rest.

Paper: Qian et al., "REIN: A Fast Event Matching Approach for Content-based Publish/Subscribe Systems" (INFOCOM 2014),
as the BOP paper describes it, sections III-C and V-A. Per attribute there are two lists of buckets, one for the low
ends of the predicates and one for the high ends. For a value, every bucket of low ends above the value's own and
every bucket of high ends below it holds only unsatisfied predicates: their clauses are marked in a bitset. In the
value's own bucket the ends are compared. What is unmarked in the end matches. REIN-F is the same with the bits
inverted: it starts from ones and marks by clearing.

Differences from the paper:

* The paper assumes events that carry every attribute, and where one is absent it walks all buckets of that attribute
  (`absent="walk"`). By default (`absent="bitset"`) one bitset per attribute says who does not ask for it, and an
  absent attribute costs one AND.
* Slots are cut into blocks of 32,768 and an event is matched block by block: entries take two bytes, and the bits being
  marked stay in the first-level cache. On `bop` that takes a quarter off the time of marking.
* Buckets are not separate vectors: all buckets of a list lie one behind the other, and a sweep crosses no border.
* Open ends (-inf, inf) can never be unsatisfied and have no entry. Dead slots are kept out by a bitset of their own.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.bits import WORD_BITS
from eventsieve._kernels.bitset import extract_bits, invert_row
from eventsieve._kernels.bop import BlockRows, absent_attributes, start_block
from eventsieve._kernels.buckets import (
    BucketLists,
    BucketRule,
    cell_borders,
    cell_of_value,
    clear_places,
    clear_places_within,
    has_ends,
    look_ahead,
    set_places,
    set_places_within,
)
from eventsieve._kernels.compiler import kernel
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.rein_index import ReinIndex
from eventsieve.model.columns import EventColumns
from eventsieve.model.transform import TransformChoice


class Rein(ReinIndex):
    name = "rein"
    summary = "marks the clauses that fail, from two bucket lists per attribute"
    capabilities = Capabilities(
        paper="REIN (Qian et al., INFOCOM 2014), as the BOP paper describes it", transforms=True
    )

    marks_by_setting: ClassVar[bool] = True
    """Set bits are failed clauses; in REIN-F they are the clauses that may still match."""

    def __init__(self, *, buckets: int = 1000, absent: str = "bitset", transform: TransformChoice = "linear") -> None:
        if absent not in ("bitset", "walk"):
            raise ValueError(f"absent must be 'bitset' or 'walk', not {absent!r}")
        self._set_cells(buckets, transform)
        self.absent = absent

    def _open_ends(self) -> tuple[bool, bool]:
        # A walk over an absent attribute must meet each of its predicates: the low list then has them all.
        return self.absent == "walk", False

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        return _match(
            self._rule,
            self._lists,
            self._nulls.rows,
            events,
            self.n_slots,
            self.absent == "walk",
            self.marks_by_setting,
            first,
            out_count,
            out_slots,
        )


class ReinF(Rein):
    name = "rein-f"
    summary = "REIN with the bits inverted: starts from all clauses and clears the failed ones"
    capabilities = Capabilities(paper="BOP (Liang et al., SEKE 2023), section V-A", transforms=True)
    marks_by_setting = False


@kernel
def _match(
    rule: BucketRule,
    lists: BucketLists,
    rows: BlockRows,
    events: EventColumns,
    n_slots: int,
    walk: bool,
    setting: bool,
    first: int,
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    n_attributes = rows.null.shape[1]
    words = rows.alive.shape[1]
    marks = np.empty(words, np.uint64)
    absent = np.empty(n_attributes, np.int32)
    cell = np.empty(n_attributes, np.int32)
    position = 0
    e = first
    while e < events.start.shape[0] - 1 and position + n_slots <= out_slots.shape[0]:
        begin = position
        n_absent = absent_attributes(events, e, n_attributes, absent)
        for i in range(events.start[e], events.start[e + 1]):
            cell[events.attribute[i]] = cell_of_value(rule, events.attribute[i], events.value[i])
        for block in range(rows.alive.shape[0]):
            start_block(rows, block, absent, 0 if walk else n_absent, marks)
            if setting:
                invert_row(marks)
            if walk:
                for j in range(n_absent):
                    _mark_all(lists, 2 * (block * n_attributes + absent[j]), setting, marks)
            for i in range(events.start[e], events.start[e + 1]):
                a = events.attribute[i]
                low_list = 2 * (block * n_attributes + a)
                look_ahead(lists, low_list, cell[a], n_attributes)
                if has_ends(lists, low_list):
                    mark_unsatisfied(lists, low_list, cell[a], events.value[i], setting, marks)
            if setting:
                invert_row(marks)
            position = extract_bits(marks, block * words * WORD_BITS, position, out_slots)
        out_count[e] = position - begin
        e += 1
    return e


@kernel
def _mark_all(lists: BucketLists, i: int, setting: bool, out_marks: NDArray[np.uint64]) -> None:
    """Mark every entry of a list: the paper's way with an attribute that the event lacks."""
    first, _, _, stop = cell_borders(lists, i, 0)
    if setting:
        set_places(lists.place, first, stop, out_marks)
    else:
        clear_places(lists.place, first, stop, out_marks)


@kernel
def mark_unsatisfied(
    lists: BucketLists, low_list: int, c: int, value: float, setting: bool, out_marks: NDArray[np.uint64]
) -> None:
    """Mark the clauses of a block whose predicate on one attribute the value does not satisfy."""
    _, low_own, low_above, low_stop = cell_borders(lists, low_list, c)
    high_first, high_own, high_above, _ = cell_borders(lists, low_list + 1, c)
    more, less = np.nextafter(value, np.inf), np.nextafter(value, -np.inf)
    if setting:
        set_places(lists.place, low_above, low_stop, out_marks)
        set_places(lists.place, high_first, high_own, out_marks)
        set_places_within(lists, low_own, low_above, more, np.inf, out_marks)
        set_places_within(lists, high_own, high_above, -np.inf, less, out_marks)
    else:
        clear_places(lists.place, low_above, low_stop, out_marks)
        clear_places(lists.place, high_first, high_own, out_marks)
        clear_places_within(lists, low_own, low_above, more, np.inf, out_marks)
        clear_places_within(lists, high_own, high_above, -np.inf, less, out_marks)
