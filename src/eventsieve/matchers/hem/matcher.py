"""The HEM matcher: parameters, the contract, and growing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.bop import NullBitsets
from eventsieve.matchers.hem.coding import value_codes
from eventsieve.matchers.hem.filing import delete, file_tail
from eventsieve.matchers.hem.plan import GIVEN, MOST_ENUMERATED, NEAR_OPTIMAL, OPTIMAL, make_plans
from eventsieve.matchers.hem.search import match, new_scratch
from eventsieve.matchers.hem.seats import BLOCK_SEATS, NOBODY, Seats, no_seats, sit_evenly
from eventsieve.matchers.hem.tail import Tail, enter, leave, new_tail
from eventsieve.matchers.hem.triangle import (
    N_GROUPS,
    N_PARTS,
    OPEN,
    Columns,
    Counts,
    Grid,
    Index,
    Lists,
    count_grids,
    count_predicates,
    fill,
    lay_out,
    repack,
)
from eventsieve.matchers.transforms import check_transform, table_arrays, table_for, table_from
from eventsieve.model.columns import EventColumns, flat
from eventsieve.model.transform import TransformChoice, TransformTable

T = TypeVar("T")

MOST_ROWS: Final = 1024
_FEWEST_ROWS: Final = 8
_PER_GRID: Final = 8
"""With fewer intervals per grid an attribute has fewer rows: more would cost what they save in comparisons."""
_ORDERS: Final = {"near-optimal": NEAR_OPTIMAL, "optimal": OPTIMAL, "given": GIVEN}
_COLUMN_SHARE: Final = 0.25
"""An attribute has a column for the direct method if this share of the clauses asks for it: at most 16 bytes each."""
_REGROWTH: Final = 4
"""Rows and columns are chosen anew when there are this many times the clauses they were chosen for."""
_FEWEST_CHOSEN_FOR: Final = 1024
_SPARE_SHARE: Final = 16
"""One seat is spare for so many clauses, so that new ones need no new block at once."""
_TAIL_SHARE: Final = 32
"""The tail has a place for one clause in so many, and at most for `_LONGEST_TAIL`."""
_LONGEST_TAIL: Final = 8192
"""On `hem` with a million clauses, filing then takes 0.4 us per clause, and comparing a full tail 1.5 % of a match."""
_TAIL_INTERVALS: Final = 1 << 18
"""Intervals in the tail at most, asked for or not: with many attributes it is shorter."""


class Hem(Matcher):
    name = "hem"
    summary = "marks failed clauses from a triangle of intervals, or checks those left; chosen per event"
    capabilities = Capabilities(paper="HEM (Fan et al., Sci China Inf Sci 2016)", transforms=True)

    def __init__(
        self,
        *,
        tau: int = 80,
        order: Literal["near-optimal", "optimal", "given"] = "near-optimal",
        walk: Literal["shorter", "unmatched"] = "shorter",
        transform: TransformChoice = "linear",
    ) -> None:
        """Set the parameters.

        tau: most rows of a triangle. order: how an event's attributes are put in order and given their methods.
        walk: which area of a triangle is walked. transform: see `model.transform`.
        """
        if not 1 <= tau <= MOST_ROWS:
            raise ValueError(f"tau must be from 1 to {MOST_ROWS}, not {tau}")
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {', '.join(map(repr, _ORDERS))}, not {order!r}")
        if walk not in ("shorter", "unmatched"):
            raise ValueError(f"walk must be 'shorter' or 'unmatched', not {walk!r}")
        self.tau = int(tau)
        self.order = order
        self.walk = walk
        self.transform = check_transform(transform)

    # -- the contract ------------------------------------------------------------------------------------

    def _build(self) -> None:
        if self.order == "optimal" and self.n_attributes > MOST_ENUMERATED:
            raise MatcherError(
                f"matcher 'hem': order='optimal' tries every plan and takes at most {MOST_ENUMERATED} attributes;"
                f" the schema has {self.n_attributes}; use order='near-optimal'"
            )
        self._nulls = NullBitsets(self.n_attributes, BLOCK_SEATS)
        self._nulls.make_room(self.n_slots + self.n_slots // _SPARE_SHARE)
        predicates = np.zeros(self.n_attributes, np.int64)
        count_predicates(self.clauses, predicates)
        self._chosen_for = int(np.count_nonzero(self.clauses.stop > self.clauses.start))
        grid = self._chosen_grid(table_for(self, self.transform), predicates)
        seats = _extended_seats(no_seats(), self._nulls.n_blocks, self.n_slots)
        sit_evenly(self.clauses.start, self.clauses.stop, seats)
        self._index = Index(
            grid,
            self._new_lists(grid),
            self._chosen_columns(predicates),
            Counts(np.zeros((self.n_attributes, 2, N_PARTS + N_GROUPS), np.int32), np.zeros(1, np.int64)),
            seats,
            self._chosen_tail(),
        )
        count_grids(self.clauses, self._index)
        self._give_pool(lay_out(self._nulls.n_blocks, grid, self._index.lists))
        fill(self.clauses, self._index, self._nulls.rows)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        n_clauses = int(self._index.counts.clauses[0])
        if n_clauses + slots.size > _REGROWTH * max(self._chosen_for, _FEWEST_CHOSEN_FOR):
            self._build()
            return
        if self.n_slots > self._index.seats.seat_of_slot.size:
            self._set_seats(self._nulls.n_blocks, self.n_slots + self.n_slots // 8)
        done = 0
        while done < slots.size:
            grid, *_, seats, tail = self._index
            done = enter(self.clauses, slots, done, grid.table, tail, seats.seat_of_slot)
            if done < slots.size:
                self._file_tail()

    def _delete(self, slots: NDArray[np.int32]) -> None:
        if leave(slots, self._index.tail.alive, self._index.seats.seat_of_slot):
            delete(slots, self._index, self._nulls.rows)

    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        index = self._index
        codes = value_codes(index.grid.table, events)
        plans = make_plans(index.counts, index.columns, events, codes, _ORDERS[self.order], self.walk == "shorter")
        scratch = new_scratch(index.grid)
        return match(self.clauses, index, self._nulls.rows, events, codes, plans, first, scratch, out_count, out_slots)

    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        grid, lists, columns, counts, seats, tail = self._index
        used, n_blocks = int(lists.used[0]), self._nulls.n_blocks
        return {
            **table_arrays(grid.table),
            **self._nulls.arrays(),
            "rows": grid.rows,
            "start": lists.start[: n_blocks * self.n_attributes],
            "room": lists.room[: n_blocks * self.n_attributes],
            "head": lists.head[: n_blocks * int(grid.head_start[-1])],
            **{name: getattr(lists, name)[:used] for name in ("place", "low", "high")},
            "used": lists.used,
            "column_of_attribute": columns.column_of_attribute,
            "ends_of_seat": columns.ends[:n_blocks],
            "counts": counts.ends,
            "n_clauses": counts.clauses,
            **seats._asdict(),
            **{f"tail_{name}": array for name, array in tail._asdict().items()},
            "chosen_for": np.array([self._chosen_for], np.int64),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._nulls = NullBitsets(self.n_attributes, BLOCK_SEATS)
        self._nulls.restore(arrays)
        self._chosen_for = int(arrays["chosen_for"][0])

        def taken(group: Callable[..., T], *names: str) -> T:
            return group(*(flat(arrays[name], arrays[name].dtype) for name in names))

        self._index = Index(
            _grid(table_from(arrays), arrays["rows"]),
            taken(Lists, *Lists._fields),
            taken(Columns, "column_of_attribute", "ends_of_seat"),
            taken(Counts, "counts", "n_clauses"),
            taken(Seats, *Seats._fields),
            taken(Tail, *(f"tail_{name}" for name in Tail._fields)),
        )

    def _describe(self) -> dict[str, Any]:
        grid, lists, columns, counts, seats, tail = self._index
        entries = int(counts.ends[:, 0, :N_PARTS].sum(dtype=np.int64))
        return {
            "blocks": self._nulls.n_blocks,
            "rows": grid.rows.tolist(),
            "columns": int(columns.ends.shape[1]),
            "entries": entries,
            "stale_clauses": int(seats.n_stale.sum()),
            "tail_clauses": int(np.unpackbits(tail.alive.view(np.uint8)).sum()),
            "spare_entries": int(lists.used[0]) - entries,
        }

    # -- choosing and growing ----------------------------------------------------------------------------

    def _chosen_grid(self, table: TransformTable, predicates: NDArray[np.int64]) -> Grid:
        """Give each attribute tau rows, or fewer where a block has not even an interval per grid."""
        per_block = predicates / max(1, self._nulls.n_blocks)
        return _grid(table, np.minimum(self.tau, np.maximum(_FEWEST_ROWS, np.sqrt(per_block / _PER_GRID))))

    def _chosen_columns(self, predicates: NDArray[np.int64]) -> Columns:
        popular = (predicates > 0) & (predicates >= _COLUMN_SHARE * self._chosen_for)
        column_of_attribute = np.where(popular, np.cumsum(popular) - 1, -1).astype(np.int32)
        n_blocks = self._nulls.n_blocks
        ends = np.empty((_with_room(n_blocks), int(popular.sum()), BLOCK_SEATS), np.uint32)
        ends[:n_blocks] = OPEN
        return Columns(column_of_attribute, ends)

    def _chosen_tail(self) -> Tail:
        most = min(_LONGEST_TAIL, _TAIL_INTERVALS // max(1, self.n_attributes))
        return new_tail(min(most, max(1, self._chosen_for // _TAIL_SHARE)), self.n_attributes)

    def _new_lists(self, grid: Grid) -> Lists:
        room = _with_room(self._nulls.n_blocks)
        n_lists, n_heads = room * self.n_attributes, room * int(grid.head_start[-1])
        return Lists(
            np.zeros(n_lists, np.int64),
            np.zeros(n_lists, np.int32),
            np.zeros(n_heads, np.uint32),
            np.zeros(0, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(1, np.int64),
        )

    def _file_tail(self) -> None:
        """File the tail into the block with most free seats, or into a new one where none has them for half of it."""
        n_taken = self._index.seats.n_taken
        block = int(n_taken.argmin()) if n_taken.size else 0
        if not n_taken.size or BLOCK_SEATS - n_taken[block] < self._index.tail.slot.size // 2:
            block = self._add_block()
        while not file_tail(self._index, self._nulls.rows, block):
            self._grow_pool()

    def _add_block(self) -> int:
        """Add a block of free seats and empty lists; return its number."""
        grid, lists, columns, _, seats, _ = self._index
        block = self._nulls.n_blocks
        self._nulls.make_room((block + 1) * BLOCK_SEATS)
        self._set_seats(block + 1, seats.seat_of_slot.size)
        if block == columns.ends.shape[0]:
            room = _with_room(block + 1)
            n_lists, n_heads = room * self.n_attributes, room * int(grid.head_start[-1])
            self._index = self._index._replace(
                lists=lists._replace(
                    start=_extended(lists.start, n_lists),
                    room=_extended(lists.room, n_lists),
                    head=_extended(lists.head, n_heads),
                ),
                columns=columns._replace(ends=_extended(columns.ends, room)),
            )
        return block

    def _set_seats(self, n_blocks: int, n_slots: int) -> None:
        self._index = self._index._replace(seats=_extended_seats(self._index.seats, n_blocks, n_slots))

    def _give_pool(self, in_use: int) -> None:
        """Replace the pool by one with free pool behind what is in use, for lists that move and blocks that come."""
        # Pages that are never written to cost nothing.
        size = in_use + in_use // 2 + BLOCK_SEATS
        place, low, high = (np.empty(size, np.uint16) for _ in range(3))
        self._index = self._index._replace(lists=self._index.lists._replace(place=place, low=low, high=high))
        self._index.lists.used[0] = in_use

    def _grow_pool(self) -> None:
        """Replace the pool by a longer one, without the room that moved lists left behind."""
        old = self._index
        old = old._replace(lists=old.lists._replace(start=old.lists.start.copy()))
        self._give_pool(int(old.lists.room.sum(dtype=np.int64)))
        repack(old, self._nulls.n_blocks, self._index.lists)


def _grid(table: TransformTable, rows: NDArray[Any]) -> Grid:
    rows = np.ascontiguousarray(rows, np.int32)
    head_start = np.zeros(rows.size + 1, np.int64)
    # Row r has 2 * (tau - r) grids, and the last of all has one head behind it.
    np.cumsum(rows.astype(np.int64) * (rows + 1) + 1, out=head_start[1:])
    return Grid(table, rows, head_start)


def _with_room(n_blocks: int) -> int:
    """Return how many blocks to make room for: memory not yet written to costs nothing, and moving it later does."""
    return n_blocks + n_blocks // 2


def _extended(array: NDArray[Any], size: int, value: Any = 0) -> NDArray[Any]:
    """Return an array of `size` rows that begins with the given one."""
    # Zeros that are never written to take no memory.
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[: array.shape[0]] = array
    if value:
        grown[array.shape[0] :] = value
    return grown


def _extended_seats(seats: Seats, n_blocks: int, n_slots: int) -> Seats:
    """Return seats for so many blocks and slots that begin with the given ones; the new ones are free."""
    return seats._replace(
        seat_of_slot=_extended(seats.seat_of_slot, n_slots, NOBODY),
        slot_of_seat=_extended(seats.slot_of_seat, n_blocks * BLOCK_SEATS),
        n_taken=_extended(seats.n_taken, n_blocks),
        n_stale=_extended(seats.n_stale, n_blocks),
        shift=_extended(seats.shift, n_blocks),
        guest=_extended(seats.guest, n_blocks),
    )
