"""Owners of subscriptions at a version of a catalog."""

from __future__ import annotations

from eventsieve.catalog import Catalog
from eventsieve.catalog.ids import IdColumns
from eventsieve.model.ids import Id


class Owners:
    """Looks owners up. Those of one version are kept: deliveries come in the order of their versions."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._version: int | None = None
        self._owner_of_id: dict[Id, str] = {}

    def __call__(self, id: Id, version: int) -> str | None:
        """Return the owner of a subscription, None if it has none."""
        if version != self._version:
            rows = self._catalog.rows(version)
            owners = zip(IdColumns.within(rows).to_list(), rows.column("owner").to_pylist(), strict=True)
            self._owner_of_id = {each: owner for each, owner in owners if owner is not None}
            self._version = version
        return self._owner_of_id.get(id)
