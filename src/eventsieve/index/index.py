"""Index: subscriptions made ready for matching by one matcher.

The matcher answers which clauses an event satisfies. Around it, this class turns clauses into subscriptions: it
adds the clauses that no interval guards, runs the residual checks, reports a subscription once however many of its
clauses match, and names it by its id. When every subscription is one plain clause, none of that costs anything.
Where many clauses are equal, the matcher has each of them once (see `sharing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.elastic.plan import SkipPlan
from eventsieve.elastic.precision import check_share, shares_of_events
from eventsieve.errors import DataError, SchemaError
from eventsieve.index.automatic import build_within, read_wish
from eventsieve.index.explain import Explanation, explain_condition
from eventsieve.index.matches import Matches
from eventsieve.index.residual_check import passing
from eventsieve.index.sharing import Sharing
from eventsieve.matchers.base import Matcher
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import ClauseTable, EventColumns
from eventsieve.model.events import Events
from eventsieve.model.ids import Id
from eventsieve.model.schema import Schema
from eventsieve.planner import Plan, choose
from eventsieve.subscriptions import Subscriptions

EventsLike: TypeAlias = Events | pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]

_CANDIDATES_AT_ONCE = 1 << 22
"""Candidates beyond the matcher's own that are checked in one go, to bound memory."""


class Index:
    """What `build` returns. It owns its subscriptions: later changes of the collection it was built from do not show.

    Matching from several threads at once is fine; changing while another thread matches is not.
    """

    def __init__(self, subscriptions: Subscriptions, matcher: Matcher, sharing: Sharing | None = None) -> None:
        self.subscriptions = subscriptions
        self.matcher = matcher
        self.sharing = sharing
        """The classes of equal clauses, which are then the matcher's slots; None where every clause has its own."""
        self.plan = Plan.asked_for(matcher.name, matcher.params, 0)

    @property
    def schema(self) -> Schema:
        return self.subscriptions.schema

    def __len__(self) -> int:
        return len(self.subscriptions)

    def __repr__(self) -> str:
        return f"<index of {len(self)} subscriptions by {self.matcher.name!r}>"

    # -- matching ----------------------------------------------------------------------------------------

    def match(self, event: Mapping[str, Any]) -> list[Id]:
        """Return the ids of the subscriptions that an event satisfies, in the order they came."""
        return self.match_batch([event]).of(0)

    def match_batch(
        self,
        events: EventsLike,
        threads: int = 1,
        false_positive: float | Sequence[float] | NDArray[np.float64] = 0.0,
        verify: bool = False,
    ) -> Matches:
        """Match many events at once: an `Events`, a pyarrow table with a column per attribute, or a list of dicts.

        An elastic matcher may be allowed a share of false matches, one for all events or one for each. It never loses a
        match, and `match_mode` says which ones can be false; `verify` checks those again, so that all are true.
        """
        if not isinstance(threads, int) or threads < 1:
            raise DataError(f"threads is a whole number from 1 on, not {threads!r}")
        batch = self._batch(events)
        columns = batch.columns_for(self.subscriptions.codes)
        if not isinstance(false_positive, float) or false_positive != 0.0:
            shares = shares_of_events(false_positive, len(batch))
            if shares.any():
                return self._match_elastic(batch, columns, threads, shares, verify)
        event_start, clauses = self.matcher.match_batch(columns, threads)
        if self.sharing is not None:
            event_start, clauses = self.sharing.members(event_start, clauses)
        if not self._plain():
            event_start, clauses = self._resolve(batch, columns, event_start, clauses)
        return Matches(event_start, clauses, self.subscriptions.ids_by_slot, self.matcher.approximate)

    def skip_plan(self, false_positive: float) -> SkipPlan:
        """Prepare matching with this share of false matches and say what it skips, whom it touches and what it gains.

        For elastic matchers. The first plan for a share takes seconds for a million subscriptions; it is then kept.
        """
        plan = self.matcher.skip_plan(check_share(false_positive))
        touched, seen = plan.touched, plan.may_see
        if self.sharing is not None:
            seen = np.repeat(seen, self.sharing.counts(touched))
            _, touched = self.sharing.members(np.array([0, touched.size]), touched.astype(np.int32))
        owner = self.subscriptions.subscription_of_clause[touched]
        slots, place = np.unique(owner, return_inverse=True)
        may_see = np.zeros(slots.size)
        np.maximum.at(may_see, place, seen)
        return plan.named(tuple(self.schema), self.subscriptions.ids_by_slot.take(slots), may_see)

    def learn(self, events: EventsLike) -> None:
        """Give an elastic matcher a sample of events: skip plans made later are measured by it, not by widths."""
        self.matcher.learn(self._batch(events).columns_for(self.subscriptions.codes))

    def explain(self, id: Id, event: Mapping[str, Any]) -> Explanation:
        """Say why a subscription matches an event, or which of its predicates fail, the nearest miss first."""
        Events.from_dicts(self.schema, [event])
        return explain_condition(self.subscriptions.condition(id), self.schema, event)

    # -- changing ----------------------------------------------------------------------------------------

    def add(self, id: Id, text: str) -> None:
        """Add a subscription in place; nothing changes if the filter or the id is not acceptable."""
        self.subscriptions.add(id, text)
        self._insert(self.subscriptions.clauses_of(self.subscriptions.slot(id)))

    def replace(self, id: Id, text: str) -> None:
        """Give an existing subscription another filter, in place."""
        self.subscriptions.check(text)
        self.remove(id)
        self.add(id, text)

    def remove(self, id: Id) -> None:
        """Remove a subscription in place."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Id]) -> None:
        """Remove many subscriptions in place; nothing changes if one of them is not there."""
        ids = list(ids)
        slots = self.subscriptions.slots(ids)
        self._delete(self._bounded(self.subscriptions.clauses_of_many(slots)))
        self.subscriptions.remove_many(ids)
        if self.subscriptions.pack():
            if self.sharing is not None:
                self.sharing.repoint(self.subscriptions.table())
            self.matcher.rebind(self.indexed_table())

    def extend(self, subscriptions: Subscriptions) -> None:
        """Add many subscriptions in place; nothing changes if one of their ids is taken."""
        self._insert(self.subscriptions.extend(subscriptions))

    def adjust(self) -> bool:
        """Let the matcher rearrange itself by what it has learned; say whether it did. Not all matchers can."""
        return self.matcher.adjust()

    # -- keeping -----------------------------------------------------------------------------------------

    def why(self) -> Plan:
        """Say why this matcher: what each candidate was expected to cost when the index was built, and on what basis.

        Later changes in place do not change the choice. Print it for people; `to_dict` gives plain values.
        """
        return self.plan

    def describe(self) -> dict[str, Any]:
        """Return sizes, memory and the matcher's own facts, as plain values."""
        table = self.subscriptions.table()
        matcher_bytes = sum(array.nbytes for array in self.matcher.arrays().values())
        n_clauses = int((self.subscriptions.subscription_of_clause >= 0).sum())
        n_indexed = n_clauses - len(self.subscriptions.unbounded)
        if self.sharing is not None:
            n_indexed = len(self.sharing)
            matcher_bytes += sum(array.nbytes for array in self.sharing.arrays().values())
        return {
            **self.matcher.describe(),
            "subscriptions": len(self),
            "clauses": n_clauses,
            "indexed_clauses": n_indexed,
            "predicates": int((table.stop - table.start).sum()),
            "attributes": len(self.schema),
            "matcher_bytes": matcher_bytes,
            "table_bytes": self.subscriptions.nbytes(),
            "index_bytes": matcher_bytes + self.subscriptions.nbytes(),
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to one file, atomically; `load` opens it by memory map."""
        from eventsieve.index.storage import save_index

        save_index(self, path)

    # -- inside ------------------------------------------------------------------------------------------

    def _batch(self, events: EventsLike) -> Events:
        return read_events(self.schema, events)

    def _match_elastic(
        self, batch: Events, columns: EventColumns, threads: int, shares: NDArray[np.float64], verify: bool
    ) -> Matches:
        event_start, slots, approximate = self.matcher.match_elastic(columns, shares, threads, verify)
        if self.sharing is not None:
            approximate = np.repeat(approximate, self.sharing.counts(slots))
            event_start, slots = self.sharing.members(event_start, slots)
        if not self._plain():
            candidates = slots
            sure_start = np.concatenate([[0], np.cumsum(~approximate)])[event_start]
            event_start, slots = self._resolve(batch, columns, event_start, candidates)
            # A subscription matches exactly where one of its clauses does, whatever the others say.
            exact_start, exact = self._resolve(batch, columns, sure_start, candidates[~approximate])
            approximate = ~np.isin(self._pairs(event_start, slots), self._pairs(exact_start, exact))
        return Matches(event_start, slots, self.subscriptions.ids_by_slot, approximate)

    def _pairs(self, event_start: NDArray[np.int64], slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return one number for each pair of event and subscription."""
        event = np.repeat(np.arange(event_start.size - 1), np.diff(event_start))
        return event * self.subscriptions.n_slots + slots

    def _plain(self) -> bool:
        subs = self.subscriptions
        return subs.one_clause_each and subs.residuals.empty and not subs.unbounded

    def _bounded(self, clauses: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return those clauses that have an interval: only they are the matcher's business."""
        table = self.subscriptions.table()
        return clauses[table.stop[clauses] > table.start[clauses]]

    def indexed_table(self) -> ClauseTable:
        """Return the table that the matcher indexes."""
        table = self.subscriptions.table()
        return table if self.sharing is None else self.sharing.table(table)

    def _insert(self, clauses: NDArray[np.int32]) -> None:
        slots = self._bounded(clauses)
        if self.sharing is not None:
            slots = self.sharing.insert(slots, self.subscriptions.table())
        self.matcher.insert(slots, self.indexed_table())

    def _delete(self, clauses: NDArray[np.int32]) -> None:
        if self.sharing is None:
            self.matcher.delete(clauses)
            return
        emptied = self.sharing.remove(clauses)
        self.matcher.delete(emptied)
        self.sharing.forget(emptied, self.subscriptions.table())

    def _resolve(
        self, batch: Events, columns: EventColumns, event_start: NDArray[np.int64], clauses: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Turn candidate clauses into subscriptions, a part of the batch at a time."""
        subs = self.subscriptions
        unbounded = np.array(sorted(subs.unbounded), np.int32)
        seen_at = np.full(subs.n_slots, -1, np.int64)
        counts = np.zeros(len(batch), np.int64)
        pieces = []
        step = max(1, _CANDIDATES_AT_ONCE // max(1, unbounded.size))
        for first in range(0, len(batch), step):
            stop = min(first + step, len(batch))
            clause = clauses[event_start[first] : event_start[stop]]
            event = np.repeat(np.arange(first, stop), np.diff(event_start[first : stop + 1]))
            if unbounded.size:
                event = np.concatenate([event, np.repeat(np.arange(first, stop), unbounded.size)])
                clause = np.concatenate([clause, np.tile(unbounded, stop - first)])
                order = np.argsort(event, kind="stable")
                event, clause = event[order], clause[order]
            if not subs.residuals.empty:
                passes = passing(subs.residuals, batch, columns, event, clause)
                event, clause = event[passes], clause[passes]
            slots = np.empty(clause.shape[0], np.int32)
            used = _first_of_each(event, clause, subs.subscription_of_clause, seen_at, counts, slots)
            pieces.append(slots[:used])
        new_start = np.zeros(len(batch) + 1, np.int64)
        np.cumsum(counts, out=new_start[1:])
        return new_start, np.concatenate([np.empty(0, np.int32), *pieces])


def build(subscriptions: Subscriptions, matcher: str = "auto", share: bool | None = None, **params: Any) -> Index:
    """Index subscriptions with a matcher, one of `matchers()`, and its parameters.

    "auto" chooses by trials on a sample and `Index.why` says why. It takes other parameters: `memory` is what the index
    may take ("2GB"), `batch` the number of events matched at a time, `events` a sample of them, and `false_positive`
    asks for an elastic matcher. Equal clauses are indexed once where there are many of them; `share` says yes or no
    instead. An elastic matcher does so only when told to, since its bound counts an equal clause once.

    >>> from eventsieve import Float, Schema, Subscriptions
    >>> subs = Subscriptions(Schema({"price": Float(0, 1000)}))
    >>> subs.add("alice", "price BETWEEN 10 AND 20")
    >>> build(subs, matcher="simple").match({"price": 12.5})
    ['alice']
    """
    if matcher != "auto":
        made = _made(subscriptions.schema, matcher, params)  # a wrong name or parameter is said at once
    own = subscriptions.fork()
    if share is None and (made.capabilities.elastic if matcher != "auto" else params.get("false_positive")):
        # A bound on false matches counts what is reported, and a clause of many members is reported many times.
        share = False
    sharing = None if share is False else Sharing.of(own, share)
    if matcher != "auto":
        return _built(own, sharing, made)
    table = own.table() if sharing is None else sharing.table(own.table())
    wish = read_wish(params, lambda events: read_events(own.schema, events).columns_for(own.codes))
    plan = choose(table, own.domains(), wish, table_bytes=own.nbytes())
    index, plan = build_within(plan, lambda name, chosen: _built(own, sharing, make_matcher(name, **chosen)))
    index.plan = plan
    return index


def read_events(schema: Schema, events: EventsLike) -> Events:
    """Return events of any accepted form as a batch over a schema."""
    if isinstance(events, Events):
        if events.schema != schema:
            raise SchemaError("the events have another schema than the index; make them with index.schema")
        return events
    if isinstance(events, pa.Table | pa.RecordBatch):
        return Events.from_arrow(schema, events, strict=True)
    return Events.from_dicts(schema, events)


def _made(schema: Schema, matcher: str, params: Mapping[str, Any]) -> Matcher:
    if "exact" in params:
        # Matchers know attributes by number; people name the ones that must never be skipped.
        params = {**params, "exact": _numbers(schema, params["exact"])}
    return make_matcher(matcher, **params)


def _built(subscriptions: Subscriptions, sharing: Sharing | None, matcher: Matcher) -> Index:
    index = Index(subscriptions, matcher, sharing)
    matcher.build(index.indexed_table(), subscriptions.domains())
    n_clauses = len(sharing) if sharing is not None else int((subscriptions.table().stop > 0).sum())
    index.plan = Plan.asked_for(matcher.name, matcher.params, n_clauses)
    return index


def _numbers(schema: Schema, attributes: str | Iterable[str | int]) -> tuple[int, ...]:
    """Return the numbers of attributes that are given by name or number; one text may hold several names."""
    named = attributes.split() if isinstance(attributes, str) else attributes
    return tuple(schema.position(each) if isinstance(each, str) else each for each in named)


@kernel
def _first_of_each(
    event: NDArray[np.int64],
    clause: NDArray[np.int32],
    subscription_of_clause: NDArray[np.int32],
    seen_at: NDArray[np.int64],
    out_count: NDArray[np.int64],
    out_slots: NDArray[np.int32],
) -> int:
    """Keep the first of an event's clauses that belong to one subscription. Events come in rising order."""
    used = 0
    for i in range(clause.shape[0]):
        s = subscription_of_clause[clause[i]]
        if seen_at[s] != event[i]:
            seen_at[s] = event[i]
            out_slots[used] = s
            out_count[event[i]] += 1
            used += 1
    return used
