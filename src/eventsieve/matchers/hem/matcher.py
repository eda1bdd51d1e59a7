"""The HEM matcher: parameters, the contract, and growing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Capabilities, Matcher
from eventsieve.matchers.bop import NullBitsets
from eventsieve.matchers.hem.changing import STALE_SHARE, delete, insert, repack, sweep_all
from eventsieve.matchers.hem.plan import GIVEN, MOST_ENUMERATED, NEAR_OPTIMAL, OPTIMAL, make_plans
from eventsieve.matchers.hem.search import match, new_scratch
from eventsieve.matchers.hem.seats import BLOCK_SEATS, NOBODY, Seats, no_seats, offer, sit_evenly
from eventsieve.matchers.hem.triangle import (
    HOLE,
    N_GROUPS,
    N_PARTS,
    OPEN,
    Columns,
    Counts,
    Grid,
    Index,
    RowLists,
    count_grids,
    count_predicates,
    fill,
    lay_out,
    value_codes,
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
        self._nulls.make_room(self.n_slots + self.n_slots // STALE_SHARE)
        predicates = np.zeros(self.n_attributes, np.int64)
        count_predicates(self.clauses, predicates)
        self._chosen_for = int(np.count_nonzero(self.clauses.stop > self.clauses.start))
        grid = self._chosen_grid(table_for(self, self.transform), predicates)
        seats = _extended_seats(no_seats(), self._nulls.n_blocks, self.n_slots)
        sit_evenly(self.clauses.start, self.clauses.stop, seats)
        self._index = Index(grid, self._new_lists(grid), self._chosen_columns(predicates), self._new_counts(), seats)
        count_grids(self.clauses, self._index)
        self._give_pool(lay_out(grid, self._index.lists))
        fill(self.clauses, self._index, self._nulls.rows)

    def _insert(self, slots: NDArray[np.int32]) -> None:
        n_clauses = int(self._index.counts.clauses[0])
        if n_clauses + slots.size > _REGROWTH * max(self._chosen_for, _FEWEST_CHOSEN_FOR):
            self._build()
            return
        self._make_room(slots.size)
        progress = np.zeros(2, np.int64)
        while not insert(self.clauses, slots, self._index, self._nulls.rows, progress):
            self._grow_pool()

    def _delete(self, slots: NDArray[np.int32]) -> None:
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
        grid, lists, columns, counts, seats = self._index
        used = int(lists.used[0])
        return {
            **table_arrays(grid.table),
            **self._nulls.arrays(),
            "rows": grid.rows,
            **{name: getattr(lists, name) for name in ("start", "size", "head", "filled", "used")},
            **{name: getattr(lists, name)[:used] for name in ("place", "low", "high")},
            "column_of_attribute": columns.column_of_attribute,
            "ends_of_seat": columns.ends,
            "counts": counts.ends,
            "n_clauses": counts.clauses,
            **seats._asdict(),
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
            taken(RowLists, *RowLists._fields),
            taken(Columns, "column_of_attribute", "ends_of_seat"),
            taken(Counts, "counts", "n_clauses"),
            taken(Seats, *Seats._fields),
        )

    def _describe(self) -> dict[str, Any]:
        grid, lists, columns, counts, seats = self._index
        entries = int(counts.ends[:, 0, :N_PARTS].sum(dtype=np.int64))
        return {
            "blocks": self._nulls.n_blocks,
            "rows": grid.rows.tolist(),
            "columns": int(columns.ends.shape[1]),
            "entries": entries,
            "stale_clauses": int(seats.n_stale.sum()),
            "spare_entries": int(lists.place.size) - entries,
        }

    # -- choosing and growing ----------------------------------------------------------------------------

    def _chosen_grid(self, table: TransformTable, predicates: NDArray[np.int64]) -> Grid:
        """Give each attribute tau rows, or fewer where a block has not even an interval per grid."""
        per_block = predicates / max(1, self._nulls.n_blocks)
        return _grid(table, np.minimum(self.tau, np.maximum(_FEWEST_ROWS, np.sqrt(per_block / _PER_GRID))))

    def _chosen_columns(self, predicates: NDArray[np.int64]) -> Columns:
        popular = (predicates > 0) & (predicates >= _COLUMN_SHARE * self._chosen_for)
        column_of_attribute = np.where(popular, np.cumsum(popular) - 1, -1).astype(np.int32)
        shape = (self._nulls.n_blocks, int(popular.sum()), BLOCK_SEATS)
        return Columns(column_of_attribute, np.full(shape, OPEN, np.uint32))

    def _new_lists(self, grid: Grid) -> RowLists:
        n_lists, n_heads = (int(starts[-1]) * self._nulls.n_blocks for starts in (grid.row_start, grid.head_start))
        return RowLists(
            np.zeros(n_lists, np.int64),
            np.zeros(n_lists, np.int32),
            np.zeros(n_heads, np.uint32),
            np.zeros(n_heads, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(0, np.uint16),
            np.zeros(1, np.int64),
        )

    def _new_counts(self) -> Counts:
        return Counts(np.zeros((self.n_attributes, 2, N_PARTS + N_GROUPS), np.int32), np.zeros(1, np.int64))

    def _make_room(self, n_clauses: int) -> None:
        """Have seats for so many more clauses; blocks that are added get empty lists and open columns."""
        grid, lists, columns, _, seats = self._index
        blocks = self._nulls.n_blocks
        if seats.free[1] < n_clauses:
            sweep_all(self._index, self._nulls.rows)
        more = -(-max(0, n_clauses - int(seats.free[1])) // BLOCK_SEATS)
        self._nulls.make_room((blocks + more) * BLOCK_SEATS)
        if more or self.n_slots > seats.seat_of_slot.size:
            seats = _extended_seats(seats, blocks + more, self.n_slots + self.n_slots // 8)
            offer(blocks * BLOCK_SEATS, (blocks + more) * BLOCK_SEATS, seats)
            self._index = self._index._replace(seats=seats)
        if blocks + more > columns.ends.shape[0]:
            n_blocks = blocks + more + (blocks + more) // 8
            n_lists, n_heads = n_blocks * int(grid.row_start[-1]), n_blocks * int(grid.head_start[-1])
            self._index = self._index._replace(
                lists=lists._replace(
                    start=_extended(lists.start, n_lists, 0),
                    size=_extended(lists.size, n_lists, 0),
                    head=_extended(lists.head, n_heads, 0),
                    filled=_extended(lists.filled, n_heads, 0),
                ),
                columns=columns._replace(ends=_extended(columns.ends, n_blocks, OPEN)),
            )

    def _give_pool(self, in_use: int) -> None:
        """Replace the pool by one of holes, with free pool behind them for lists that move."""
        # Any one list must be able to move. Pages that are never written to cost nothing.
        size = in_use + max(in_use // 2, 4 * int(self._index.lists.size.max(initial=0)) + 4 * self.tau + 1024)
        place, ends = np.empty(size, np.uint16), np.empty((2, size), np.uint16)
        place[:in_use] = HOLE
        ends[:, :in_use] = 0
        self._index = self._index._replace(lists=self._index.lists._replace(place=place, low=ends[0], high=ends[1]))
        self._index.lists.used[0] = in_use

    def _grow_pool(self) -> None:
        """Replace the pool by one without the room that moved lists left behind."""
        old = self._index.lists
        old = old._replace(start=old.start.copy())
        self._give_pool(int(old.size.sum(dtype=np.int64)))
        repack(old, self._index.lists)


def _grid(table: TransformTable, rows: NDArray[Any]) -> Grid:
    rows = np.ascontiguousarray(rows, np.int32)
    row_start, head_start = np.zeros(rows.size + 1, np.int64), np.zeros(rows.size + 1, np.int64)
    np.cumsum(rows, out=row_start[1:])
    # Row r has 2 * (tau - r) columns, and one head more.
    np.cumsum(rows.astype(np.int64) * (rows + 2), out=head_start[1:])
    return Grid(table, rows, row_start, head_start)


def _extended(array: NDArray[Any], size: int, value: Any) -> NDArray[Any]:
    """Return an array of `size` rows that begins with the given one."""
    grown = np.full((size, *array.shape[1:]), value, array.dtype)
    grown[: array.shape[0]] = array
    return grown


def _extended_seats(seats: Seats, n_blocks: int, n_slots: int) -> Seats:
    """Return seats for so many blocks and at least so many slots that begin with the given ones; none is free yet."""
    return seats._replace(
        seat_of_slot=_extended(seats.seat_of_slot, max(n_slots, seats.seat_of_slot.size), NOBODY),
        slot_of_seat=_extended(seats.slot_of_seat, n_blocks * BLOCK_SEATS, NOBODY),
        stale=_extended(seats.stale, n_blocks, 0),
        n_taken=_extended(seats.n_taken, n_blocks, 0),
        n_stale=_extended(seats.n_stale, n_blocks, 0),
        shift=_extended(seats.shift, n_blocks, 0),
        guest=_extended(seats.guest, n_blocks, 0),
    )
