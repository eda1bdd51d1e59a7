"""An index that follows a catalog: a change is in force a moment after it is committed, and nothing stops for it.

A few changes go into the index in place, between two batches. Many of them, or new attributes, are built into a new
index beside the running one, which is then exchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from eventsieve.broker.engine import Engine, check_elastic
from eventsieve.catalog import Catalog
from eventsieve.catalog.ids import IdColumns
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.errors import EventsieveError
from eventsieve.index.index import EventsLike, Index, build
from eventsieve.model.ids import Id
from eventsieve.subscriptions import Subscriptions

_ELASTIC: Final = "spare-rein"
"""The elastic matcher that "auto" stands for: the one that gains most within a bound."""
IN_PLACE: Final = 500
"""Changes that are made in place: each takes well under a millisecond, and matching waits meanwhile."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the catalog."""


class CatalogIndex:
    """Indexes of a catalog's versions, all built alike."""

    def __init__(
        self,
        catalog: Catalog,
        matcher: str = "auto",
        elastic: ElasticSettings = OFF,
        sample: Callable[[Index], EventsLike] | None = None,
        **params: Any,
    ) -> None:
        """Build with a matcher and its parameters; `sample` gives events that skip plans are measured by."""
        self.catalog = catalog
        self._matcher, self._params, self._sample = matcher, params, sample
        if elastic.enabled:
            self._matcher = _ELASTIC if matcher == "auto" else matcher
            check_elastic(self._matcher)
            # Plans are made for the very steps that the controller takes.
            self._params = {"ladder": elastic.ladder, **params}

    def at(self, version: int) -> Index:
        """Build the index of a version."""
        index = build(self.catalog.subscriptions(version), matcher=self._matcher, **self._params)
        if self._sample is not None:
            index.learn(self._sample(index))
        return index


class Follower:
    """Brings an engine to the newest version of a catalog, again and again."""

    def __init__(self, indexes: CatalogIndex, engine: Engine, in_place: int = IN_PLACE) -> None:
        self._indexes, self._engine, self._in_place = indexes, engine, in_place
        self.failure: EventsieveError | None = None
        """Why the last look failed; None after one that did not. The version in force stays in force."""

    def step(self) -> bool:
        """Look once; say whether there was anything new."""
        catalog = self._indexes.catalog
        newest = catalog.version
        if newest == self._engine.version:
            return False
        changes = catalog.changes(self._engine.version, newest)
        if len(changes) > self._in_place or catalog.schema_at(newest) != self._engine.schema:
            self._engine.swap(self._indexes.at(newest), newest)
            return True
        kinds = changes.column("change").to_pylist()
        rows = list(zip(kinds, IdColumns.within(changes).to_list(), changes.column("filter").to_pylist(), strict=True))
        removed = [id for kind, id, _ in rows if kind != "added"]
        added = [(id, text) for kind, id, text in rows if kind != "removed"]
        self._engine.apply(removed, _compiled(self._engine, added), newest)
        return True

    def run(self, stopping: threading.Event, every: float = LOOK_EVERY) -> None:
        """Look until told to stop. A catalog that cannot be read for a while does not stop the broker."""
        while not stopping.wait(every):
            try:
                self.step()
                self.failure = None
            except EventsieveError as failure:
                self.failure = failure


def _compiled(engine: Engine, added: Sequence[tuple[Id, str]]) -> Subscriptions:
    """Compile filters before anybody has to wait for it."""
    subscriptions = Subscriptions(engine.schema)
    for id, text in added:
        subscriptions.add(id, text)
    return subscriptions
