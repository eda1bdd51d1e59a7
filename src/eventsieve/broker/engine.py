"""The engine: one index, its version and its routes, changed only between batches.

An index must not change while it is matched. Workers hold the gate for the length of a batch; a change waits for those
under way, takes milliseconds and lets the next ones in. So each batch is matched with one exact version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.broker.gate import Gate
from eventsieve.broker.routes import Routes
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.errors import BrokerError, MatcherError
from eventsieve.index.index import Index
from eventsieve.matchers.registry import elastic_matchers, matcher_class
from eventsieve.model.events import Events
from eventsieve.model.ids import Id
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions

_NOTHING: Final = np.zeros(1, np.int64)


class Matched(NamedTuple):
    """The matches of a batch: event e has ids[event_start[e]:event_start[e+1]]."""

    event_start: NDArray[np.int64]
    ids: NDArray[Any]
    approximate: NDArray[np.bool_] | None
    """For each match whether it may be false; None: all are exact."""
    routes: NDArray[np.int32] | None
    """For each match whose it is; None where no subscriber has subscriptions of its own."""
    version: int
    false_positive: float


class Engine:
    """The index in force."""

    def __init__(self, index: Index, version: int = 0, elastic: ElasticSettings = OFF) -> None:
        if elastic.enabled:
            check_elastic(index.matcher.name)
        self.gate = Gate()
        self.index = index
        self.version = version
        self.routes = Routes(index.subscriptions)
        self.followed = False
        """The subscriptions are a catalog's, which alone changes them."""
        self._elastic = elastic
        prepare_plans(index, elastic)

    @property
    def schema(self) -> Schema:
        return self.index.schema

    def match(self, parts: Sequence[Events], false_positive: float) -> Matched:
        """Match a batch that came in parts. The caller is inside the gate."""
        index = self.index
        parts = [part for part in parts if len(part)]
        if not parts:
            return Matched(_NOTHING, np.empty(0, np.int64), None, None, self.version, 0.0)
        found = index.match_batch(Events.joined(index.schema, parts), false_positive=false_positive)
        # Ids are made here: outside the gate a slot may belong to another subscription already.
        return Matched(
            found.event_start,
            found.ids,
            found.may_be_false if found.approximate else None,
            self.routes.of(found.slots),
            self.version,
            false_positive,
        )

    def warm_up(self) -> None:
        """Load the compiled code, so that the first event need not wait for it."""
        nothing = Events.from_dicts(self.schema, [{}])
        with self.gate.reading():
            for share in {0.0, self._elastic.maximum}:
                self.match([nothing], share)

    # -- changing ------------------------------------------------------------------------------------------

    def add(self, id: Id, filter: str, route: int) -> None:
        """Add a subscription between two batches, as one new version."""
        self._check_own()
        one = Subscriptions(self.schema)
        one.add(id, filter)  # a filter that is not acceptable must not stop anybody
        with self.gate.alone():
            self.index.extend(one)
            self.version += 1
            self.routes.set([id], route)

    def remove(self, id: Id) -> None:
        """Remove a subscription between two batches, as one new version."""
        self._check_own()
        with self.gate.alone():
            self.routes.vacate([id])
            self.index.remove(id)
            self.routes.remove(id)
            self.version += 1

    def _check_own(self) -> None:
        if self.followed:
            raise BrokerError(
                "the subscriptions are those of a catalog: change it there, and attach with subscriptions=[...] to get "
                "their matches"
            )

    def apply(self, removed: Sequence[Id], added: Subscriptions, version: int) -> None:
        """Bring the index to another version in place."""
        with self.gate.alone():
            self.routes.vacate(removed)
            self.index.remove_many(removed)
            self.index.extend(added)
            self.routes.arrived(added.ids.tolist())
            self.version = version
        with self.gate.reading():
            prepare_plans(self.index, self._elastic)  # a removal may have taken what a plan stood on

    def swap(self, index: Index, version: int) -> None:
        """Put another index in place of the one in force."""
        prepare_plans(index, self._elastic)
        with self.gate.alone():
            self.index = index
            self.routes.rebind(index.subscriptions)
            self.version = version

    def give(self, ids: Iterable[Id], route: int) -> None:
        """Make subscriptions, present or future, a subscriber's."""
        with self.gate.alone():
            self.routes.set(ids, route)

    def take_from(self, route: int) -> None:
        """Let no subscription belong to a subscriber any more."""
        with self.gate.alone():
            self.routes.drop(route)


def prepare_plans(index: Index, elastic: ElasticSettings) -> None:
    """Make the plans for every F that the controller can ask for: under load there is no time for it."""
    for rung in (0.0, *elastic.ladder) if elastic.enabled else ():
        index.matcher.skip_plan(rung)


def check_elastic(matcher: str) -> None:
    """Raise MatcherError if a matcher cannot give way under load."""
    if not matcher_class(matcher).capabilities.elastic:
        raise MatcherError(
            f"matcher {matcher!r} is exact and cannot give way under load; choose one of "
            f"{', '.join(elastic_matchers())}, or leave elastic matching off"
        )
