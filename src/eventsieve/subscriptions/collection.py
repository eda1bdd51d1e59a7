"""The Subscriptions collection: where text, model and columns meet.

Every subscription has a slot, every clause has a slot; both are dense and reused after a removal, so bitsets and
columns stay short. Clauses live in one table of flat arrays (`table`). Texts are kept as they were written and
parsed again when a person asks; nothing else is a Python object per subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from eventsieve.errors import DataError, SchemaError
from eventsieve.language import compile_filter, parse, to_text
from eventsieve.model.clause import Bound, Clause
from eventsieve.model.codes import Codes
from eventsieve.model.columns import ClauseTable, Domains
from eventsieve.model.condition import Condition, from_bounds
from eventsieve.model.growing import GrowingArray
from eventsieve.model.ids import Id, Ids, checked_id
from eventsieve.model.jsonl import Source, source_name
from eventsieve.model.report import LoadReport
from eventsieve.model.residuals import ResidualTable
from eventsieve.model.schema import Schema
from eventsieve.model.texts import Texts
from eventsieve.subscriptions.arrays import checked_columns, checked_ids, code_texts
from eventsieve.subscriptions.domains import domains_of
from eventsieve.subscriptions.loading import add_rows
from eventsieve.subscriptions.recoding import in_codes_of
from eventsieve.subscriptions.rows import jsonl_rows, read_parquet, table_rows
from eventsieve.subscriptions.runs import claim, rows_of, squeezed
from eventsieve.subscriptions.storage import restored, stored

_WASTE: Final = 1 << 16
"""Predicates of removed clauses that are left lying before the table is packed."""


class Subscriptions:
    """Subscriptions over one schema, by id.

    >>> from eventsieve.model.types import Float
    >>> subs = Subscriptions(Schema({"price": Float(0, 1000)}))
    >>> subs.add("alice", "price BETWEEN 10 AND 20")
    >>> "alice" in subs, len(subs)
    (True, 1)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.codes = Codes()
        self.residuals = ResidualTable()
        self.report = LoadReport("nothing")
        """What the bulk load that made this collection left out, and why."""
        self.unbounded: set[int] = set()
        """Clauses without any interval: no matcher sees them, every event meets them."""
        self.one_clause_each = True
        """Every clause stands at its subscription's slot, so clause slots are subscription slots."""
        self.ids_by_slot = Ids()
        self._texts = Texts()
        self._start, self._stop = _growing(np.int64), _growing(np.int64)
        self._attribute, self._low, self._high = _growing(np.int32), _growing(np.float64), _growing(np.float64)
        self._subscription_of_clause = _growing(np.int32)
        self._first_clause, self._next_clause = _growing(np.int32), _growing(np.int32)
        self._free_slots: list[int] = []
        self._free_clauses: list[int] = []
        self._dead_predicates = 0

    # -- reading -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._first_clause) - len(self._free_slots)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | str) and self._find(id) is not None

    def __repr__(self) -> str:
        return f"<{len(self)} subscriptions over {len(self.schema)} attributes>"

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of all subscriptions, by slot."""
        return self.ids_by_slot.take(self.live_slots())

    def live_slots(self) -> NDArray[np.int32]:
        """Return the slots that hold a subscription."""
        return np.flatnonzero(self._first_clause.view >= 0).astype(np.int32)

    def text(self, id: Id) -> str:
        """Return a subscription's filter as it was written, or in canonical form where it came as arrays."""
        slot = self.slot(id)
        return self._texts.get(slot) or to_text(self._condition_at(slot), self.schema)

    def condition(self, id: Id) -> Condition:
        """Return a subscription's filter as a condition tree."""
        return self._condition_at(self.slot(id))

    def slot(self, id: Id) -> int:
        """Return the slot of a subscription; raise DataError if there is none of that id."""
        slot = self._find(id)
        if slot is None:
            raise DataError(f"no subscription has the id {id!r}")
        return slot

    def slots(self, ids: Iterable[Id]) -> NDArray[np.int32]:
        """Return the slots of many subscriptions; raise DataError if one is not there or is named twice."""
        slots = np.array([self.slot(id) for id in ids], np.int32)
        if len(np.unique(slots)) < len(slots):
            raise DataError("an id is named twice among those given")
        return slots

    def clauses_of(self, slot: int) -> NDArray[np.int32]:
        """Return the clause slots of a subscription."""
        found = []
        clause = int(self._first_clause.view[slot])
        while clause >= 0:
            found.append(clause)
            clause = int(self._next_clause.view[clause])
        return np.array(found, np.int32)

    def clauses_of_many(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the clause slots of many subscriptions."""
        if self.one_clause_each:
            return slots
        return np.concatenate([np.empty(0, np.int32), *(self.clauses_of(slot) for slot in slots.tolist())])

    def table(self) -> ClauseTable:
        """Return all clauses as columns: views that hold until the next change."""
        return ClauseTable(self._start.view, self._stop.view, self._attribute.view, self._low.view, self._high.view)

    @property
    def subscription_of_clause(self) -> NDArray[np.int32]:
        """The slot of the subscription that each clause belongs to."""
        return self._subscription_of_clause.view

    @property
    def n_slots(self) -> int:
        """Slots of subscriptions, free ones included."""
        return len(self._first_clause)

    def domains(self) -> Domains:
        """Return finite ends per attribute: as declared, else as far as the finite bounds of all clauses reach."""
        return domains_of(self.schema, self.table())

    def nbytes(self) -> int:
        """Return the bytes of the clause table."""
        return sum(array.nbytes for array in self.table())

    def check(self, text: str) -> None:
        """Raise FilterError if a filter is not acceptable here; change nothing."""
        self.compile(text)

    # -- changing ----------------------------------------------------------------------------------------

    def add(self, id: Id, text: str) -> None:
        """Add a subscription under a new id; nothing changes if the filter or the id is not acceptable."""
        id = self.new_id(id)
        self.put(id, text, self.compile(text))

    def replace(self, id: Id, text: str) -> None:
        """Give an existing subscription another filter; nothing changes if the filter is not acceptable."""
        self.slot(id)
        clauses = self.compile(text)
        self.remove(id)
        self.put(checked_id(id), text, clauses)

    def remove(self, id: Id) -> None:
        """Remove a subscription; its slots will be used again."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Id]) -> None:
        """Remove many subscriptions; nothing changes if one of them is not there, or is named twice."""
        slots = self.slots(ids)
        clauses = self.clauses_of_many(slots)
        self._dead_predicates += int((self._stop.view[clauses] - self._start.view[clauses]).sum())
        self._start.view[clauses] = self._stop.view[clauses] = 0
        self._subscription_of_clause.view[clauses] = -1
        self._next_clause.view[clauses] = -1
        self._first_clause.view[slots] = -1
        if self.unbounded:
            self.unbounded.difference_update(clauses.tolist())
        if not self.residuals.empty:
            for clause in clauses.tolist():
                self.residuals.set(clause, None)
        if not self._texts.empty:
            for slot in slots.tolist():
                self._texts.set(slot, None)
        self.ids_by_slot.forget(slots.tolist())
        # Last in, first out, and in step: a subscription of one clause gets its clause at its own slot again.
        self._free_slots.extend(slots.tolist())
        self._free_clauses.extend(clauses.tolist())

    def extend(self, others: Subscriptions) -> NDArray[np.int32]:
        """Add all subscriptions of another collection over the same schema; return their new clause slots.

        Nothing changes if an id is taken already.
        """
        if others.schema != self.schema:
            raise SchemaError("only subscriptions over the same schema can be added")
        slots = others.live_slots()
        for id in others.ids_by_slot.take(slots).tolist():
            self.new_id(id)
        return self._take(others, slots)

    def select(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return a collection of the subscriptions at these slots, under the same ids and codes."""
        picked = Subscriptions(self.schema)
        picked.codes = self.codes.copy()
        picked._take(self, slots)
        return picked

    def pack(self) -> bool:
        """Squeeze out the predicates of removed clauses, if they have piled up; say whether the table moved."""
        if self._dead_predicates < max(_WASTE, len(self._attribute) // 2):
            return False
        self._squeeze()
        return True

    def share_predicates(self, clauses: NDArray[np.int32], start: NDArray[np.int64], stop: NDArray[np.int64]) -> None:
        """Let clauses take their predicates from where equal ones stand, and squeeze out those left over."""
        self._start.view[clauses], self._stop.view[clauses] = start, stop
        self._squeeze()

    def _squeeze(self) -> None:
        """Move the predicates of all clauses together. Clauses that share theirs go on sharing them."""
        source, start, stop = squeezed(self._start.view, self._stop.view)
        # New arrays, since a fork may share the old ones.
        for name in ("_attribute", "_low", "_high"):
            setattr(self, name, _gathered(getattr(self, name).view, source))
        self._start.view[:], self._stop.view[:] = start, stop
        self._dead_predicates = 0

    def fork(self) -> Subscriptions:
        """Return an independent copy that shares the large arrays until one of the two changes them."""
        other = Subscriptions.__new__(Subscriptions)
        other.__dict__.update(self.__dict__)
        other.codes, other.residuals = self.codes.copy(), self.residuals.copy()
        other.unbounded = set(self.unbounded)
        other.ids_by_slot, other._texts = self.ids_by_slot.shared(), self._texts.copy()
        other._free_slots, other._free_clauses = list(self._free_slots), list(self._free_clauses)
        # Predicates are written once, so they can be shared; the per-slot arrays change in place.
        for name in ("_attribute", "_low", "_high"):
            setattr(other, name, getattr(self, name).shared())
        for name in ("_start", "_stop", "_subscription_of_clause", "_first_clause", "_next_clause"):
            setattr(other, name, GrowingArray.copy_of(getattr(self, name).view))
        return other

    # -- bulk loading ------------------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        schema: Schema,
        start: ArrayLike,
        attribute: ArrayLike,
        low: ArrayLike,
        high: ArrayLike,
        ids: Sequence[Id] | NDArray[Any] | None = None,
        texts: Mapping[str, Sequence[str]] | None = None,
    ) -> Subscriptions:
        """Take subscriptions as flat arrays: number s owns the predicates start[s]:start[s+1].

        Predicate p asks low[p] <= value of attribute[p] <= high[p].
        Bounds are closed and in matched form (time in microseconds), -inf and inf leave a side open; those of a
        text attribute are equal positions in `texts[name]`. Without ids, the numbers 0, 1, 2, ... are the ids.
        """
        subs = cls(schema)
        offsets, columns = checked_columns(schema, start, attribute, low, high)
        code_texts(schema, columns, texts, subs.codes)
        n_subs = offsets.size - 1
        if ids is not None:
            subs.ids_by_slot = Ids.from_values(checked_ids(ids, n_subs))
        else:
            subs.ids_by_slot = Ids(n_subs)
        subs._start, subs._stop = GrowingArray(offsets[:-1].copy()), GrowingArray(offsets[1:].copy())
        subs._attribute, subs._low, subs._high = columns
        subs._subscription_of_clause = GrowingArray(np.arange(n_subs, dtype=np.int32))
        subs._first_clause = GrowingArray(np.arange(n_subs, dtype=np.int32))
        subs._next_clause = GrowingArray(np.full(n_subs, -1, np.int32))
        subs.unbounded = set(np.flatnonzero(np.diff(offsets) == 0).tolist())
        subs.report = LoadReport("arrays", n_subs)
        return subs

    @classmethod
    def from_jsonl(cls, schema: Schema, source: Source, strict: bool = False) -> Subscriptions:
        """Take subscriptions as JSON lines, `{"id": ..., "filter": "..."}`; bad lines are reported, see `report`."""
        subs = cls(schema)
        subs.report = subs.add_jsonl(source, strict)
        return subs

    @classmethod
    def from_arrow(cls, schema: Schema, table: pa.Table, strict: bool = False) -> Subscriptions:
        """Take subscriptions from a table with the columns `id` and `filter`; bad rows are reported, see `report`."""
        subs = cls(schema)
        subs.report = subs.add_arrow(table, strict)
        return subs

    @classmethod
    def from_parquet(cls, schema: Schema, path: str | PathLike[str], strict: bool = False) -> Subscriptions:
        """Take subscriptions from a Parquet file or folder with the columns `id` and `filter`."""
        return cls.from_arrow(schema, read_parquet(path), strict)

    def add_jsonl(self, source: Source, strict: bool = False) -> LoadReport:
        """Add subscriptions from JSON lines; return what was added and what was left out, and why."""
        report = LoadReport(source_name(source))
        return add_rows(self, jsonl_rows(source, report), report, strict)

    def add_arrow(self, table: pa.Table, strict: bool = False) -> LoadReport:
        """Add subscriptions from a table with the columns `id` and `filter`."""
        return add_rows(self, table_rows(table), LoadReport("the given table"), strict)

    # -- storing -----------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the collection as a little JSON and named arrays; `from_stored` reads them back."""
        return stored(self)

    @classmethod
    def from_stored(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Subscriptions:
        """Take up what `to_arrays` gave, without copying the arrays."""
        return restored(cls(Schema.from_json(meta["schema"])), meta, arrays)

    # -- inside ------------------------------------------------------------------------------------------

    def _find(self, id: Id) -> int | None:
        slot = self.ids_by_slot.slot(id)
        return slot if slot is not None and self._first_clause.view[slot] >= 0 else None

    def new_id(self, given: Any) -> Id:
        """Return an acceptable id that nobody has; raise DataError otherwise."""
        id = checked_id(given)
        if self._find(id) is not None:
            raise DataError(f"the id {id!r} is taken; replace() changes an existing subscription")
        return id

    def compile(self, text: Any) -> list[Clause]:
        """Compile a filter text in this collection's codes; raise an error that says what is wrong with it."""
        if not isinstance(text, str):
            raise DataError(f"a filter is a text, not {text!r} ({type(text).__name__})")
        return compile_filter(parse(text, self.schema), self.schema, self.codes)

    def _condition_at(self, slot: int) -> Condition:
        text = self._texts.get(slot)
        if text is not None:
            return parse(text, self.schema)
        (clause,) = self.clauses_of(slot)
        bounds = [
            Bound(int(self._attribute.view[p]), float(self._low.view[p]), float(self._high.view[p]))
            for p in range(self._start.view[clause], self._stop.view[clause])
        ]
        return from_bounds(self.schema, bounds, self.codes)

    def put(self, id: Id, text: str | None, clauses: list[Clause]) -> int:
        """Store a subscription whose id is new."""
        slot = self._free_slots.pop() if self._free_slots else self.n_slots
        self._first_clause.resize(max(self.n_slots, slot + 1), -1)
        self.ids_by_slot.set([slot], [id])
        self._texts.set(slot, text)
        for clause in reversed(clauses):
            at = self._free_clauses.pop() if self._free_clauses else len(self._start)
            for column in (self._start, self._stop, self._subscription_of_clause, self._next_clause):
                column.resize(max(len(column), at + 1))
            self._start.view[at] = len(self._attribute)
            self._stop.view[at] = len(self._attribute) + len(clause.bounds)
            self._attribute.extend(np.array([bound.attribute for bound in clause.bounds], np.int32))
            self._low.extend(np.array([bound.low for bound in clause.bounds], np.float64))
            self._high.extend(np.array([bound.high for bound in clause.bounds], np.float64))
            self._subscription_of_clause.view[at] = slot
            self._next_clause.view[at] = self._first_clause.view[slot]
            self._first_clause.view[slot] = at
            self.residuals.set(at, clause.residual)
            if not clause.bounds:
                self.unbounded.add(at)
            self.one_clause_each &= at == slot and len(clauses) == 1
        return slot

    def append_columns(self, ids: list[Id], clauses: ClauseTable, texts: pa.Array | None) -> NDArray[np.int32]:
        """Add subscriptions of one plain clause each, all at once; return their clause slots.

        The ids are new and different, the clauses have at least one predicate and are in this collection's codes.
        """
        length = clauses.stop - clauses.start
        picked = rows_of(clauses.start, length)
        # Free slots and free clauses are claimed in step, so that each clause stands at its subscription's slot.
        slots = claim(self._free_slots, self.n_slots, len(ids))
        at = claim(self._free_clauses, len(self._start), len(ids))
        n_before = self.n_slots
        self._first_clause.resize(max(self.n_slots, int(slots.max(initial=-1)) + 1), -1)
        for column in (self._start, self._stop, self._subscription_of_clause, self._next_clause):
            column.resize(max(len(column), int(at.max(initial=-1)) + 1))
        begin = len(self._attribute) + np.cumsum(length) - length
        self._start.view[at], self._stop.view[at] = begin, begin + length
        self._subscription_of_clause.view[at] = slots
        self._next_clause.view[at] = -1
        self._first_clause.view[slots] = at
        self._attribute.extend(clauses.attribute[picked])
        self._low.extend(clauses.low[picked])
        self._high.extend(clauses.high[picked])
        self.one_clause_each &= bool(np.array_equal(slots, at))
        self.ids_by_slot.set(slots, ids)
        if texts is not None:
            self._texts.set_many(slots, texts, n_before)
        return at

    def _take(self, others: Subscriptions, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Add another collection's subscriptions under ids that are new here; return their clause slots."""
        ids: list[Id] = others.ids_by_slot.take(slots).tolist()
        theirs = in_codes_of(self, others)
        if theirs is not None and others.one_clause_each and others.residuals.empty and not others.unbounded:
            texts = None if others._texts.empty else others._texts.frozen(others.n_slots).take(pa.array(slots))
            return self.append_columns(ids, theirs._replace(start=theirs.start[slots], stop=theirs.stop[slots]), texts)
        taken = []
        for id, slot in zip(ids, slots.tolist(), strict=True):
            clauses = compile_filter(others._condition_at(slot), self.schema, self.codes)
            taken.append(self.clauses_of(self.put(id, others._texts.get(slot), clauses)))
        return np.concatenate([np.empty(0, np.int32), *taken])


def _gathered(values: NDArray[Any], source: NDArray[np.int64]) -> GrowingArray:
    found = GrowingArray.of_size(source.size, values.dtype)
    # All are there; only so does the result go where it belongs without being copied.
    np.take(values, source, out=found.view, mode="clip")
    return found


def _growing(dtype: Any) -> GrowingArray:
    return GrowingArray(np.empty(0, dtype))
