"""A grouped edit: changes collected one by one, checked where they are made, committed all together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from eventsieve.catalog.ids import IdColumns
from eventsieve.catalog.log import ADD, LABELS, OPERATIONS, PAUSE, REMOVE, REPLACE, RESUME, SCHEMA
from eventsieve.catalog.schemas import schema_to_text
from eventsieve.catalog.state import ABSENT, ACTIVE, PAUSED
from eventsieve.errors import CatalogError, DataError
from eventsieve.model.ids import Id, checked_id
from eventsieve.model.schema import Schema
from eventsieve.model.types import AttributeType
from eventsieve.subscriptions import Subscriptions

_STATUS_AFTER: Final = {ADD: ACTIVE, REMOVE: ABSENT, PAUSE: PAUSED, RESUME: ACTIVE}
_WORDS: Final = {ABSENT: "is not in the catalog", ACTIVE: "is active", PAUSED: "is paused"}


@dataclass(frozen=True)
class Change:
    """One operation on one id; an owner or labels of None leave what a replaced subscription has."""

    operation: int
    id: Id | None
    filter: str | None = None
    owner: str | None = None
    labels: dict[str, str] | None = None
    attributes: Mapping[str, AttributeType] | None = None


class Edit:
    """Collects changes for one commit; comes from `Catalog.edit`."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.changes: list[Change] = []
        self.version: int | None = None
        """The version the changes were committed as, once they are."""

    def add(self, id: Id, filter: str, owner: str | None = None, labels: Mapping[str, str] | None = None) -> None:
        """Add a subscription under a new id."""
        self._write(ADD, id, filter, owner, labels)

    def replace(self, id: Id, filter: str, owner: str | None = None, labels: Mapping[str, str] | None = None) -> None:
        """Give an id another filter; the owner and labels stay unless they are given (`""` and `{}` take them away)."""
        self._write(REPLACE, id, filter, owner, labels)

    def remove(self, id: Id) -> None:
        """Take a subscription out; its history stays."""
        self.changes.append(Change(REMOVE, checked_id(id)))

    def pause(self, id: Id) -> None:
        """Keep a subscription but stop matching it."""
        self.changes.append(Change(PAUSE, checked_id(id)))

    def resume(self, id: Id) -> None:
        """Match a paused subscription again."""
        self.changes.append(Change(RESUME, checked_id(id)))

    def grow_schema(self, attributes: Mapping[str, AttributeType]) -> None:
        """Add attributes behind the present ones; filters later in this edit may use them."""
        self._schema = self._schema.extended(attributes)
        self.changes.append(Change(SCHEMA, None, attributes=dict(attributes)))

    def _write(self, operation: int, id: Id, filter: str, owner: str | None, labels: Mapping[str, str] | None) -> None:
        checked = checked_id(id)
        check_filter(self._schema, filter)
        self.changes.append(Change(operation, checked, filter, check_owner(owner), check_labels(labels)))

    def check_against(self, status_of: dict[Id, int]) -> None:
        """Play the changes on the ids' statuses; raise CatalogError at the first one that does not fit."""
        for change in self.changes:
            if change.id is None:
                continue
            status = status_of[change.id]
            if not _fits(change.operation, status):
                asked = f"{OPERATIONS[change.operation]} {change.id!r}"
                raise CatalogError(f"cannot {asked}: it {_WORDS[status]}{_remedy(change.operation, status)}")
            status_of[change.id] = _STATUS_AFTER.get(change.operation, status)

    def to_rows(self, schema: Schema) -> pa.Table:
        """Return the changes as log rows without version, sequence, time and author, on top of the schema in force."""
        ids = [change.id for change in self.changes]
        return pa.table(
            {
                "operation": pa.array([OPERATIONS[change.operation] for change in self.changes], pa.string()),
                "id_number": pa.array([id if isinstance(id, int) else None for id in ids], pa.int64()),
                "id_text": pa.array([id if isinstance(id, str) else None for id in ids], pa.string()),
                "filter": pa.array([change.filter for change in self.changes], pa.string()),
                "owner": pa.array([change.owner for change in self.changes], pa.string()),
                "labels": pa.array([_pairs(change.labels) for change in self.changes], LABELS),
                "schema": pa.array(self._schema_texts(schema), pa.string()),
            }
        )

    def _schema_texts(self, schema: Schema) -> list[str | None]:
        # Made at the commit: another writer may have added attributes since this edit began.
        texts: list[str | None] = []
        for change in self.changes:
            if change.attributes is not None:
                schema = schema.extended(change.attributes)
            texts.append(None if change.attributes is None else schema_to_text(schema))
        return texts

    def ids(self) -> IdColumns:
        """Return every id that is touched, once."""
        return IdColumns.of(list(dict.fromkeys(change.id for change in self.changes if change.id is not None)))


def check_filter(schema: Schema, text: object) -> None:
    """Raise FilterError or DataError unless the text is a filter over the schema."""
    if not isinstance(text, str):
        raise DataError(f"a filter is a text, not {text!r} ({type(text).__name__})")
    Subscriptions(schema).add(0, text)


def check_owner(owner: object) -> str | None:
    """Return the owner if it is a text or None."""
    if owner is not None and not isinstance(owner, str):
        raise DataError(f"an owner is a text, not {owner!r} ({type(owner).__name__})")
    return owner


def check_labels(labels: object) -> dict[str, str] | None:
    """Return the labels as a dict if they map texts to texts, or None."""
    if labels is None:
        return None
    if not isinstance(labels, Mapping):
        raise DataError(f'labels are a mapping of texts to texts such as {{"team": "risk"}}, not {labels!r}')
    for name, value in labels.items():
        if not isinstance(name, str) or not name or not isinstance(value, str):
            raise DataError(f"a label is a non-empty name and a text, not {name!r}: {value!r}")
    return dict(labels)


def _fits(operation: int, status: int) -> bool:
    if operation == ADD:
        return status == ABSENT
    if operation == PAUSE:
        return status == ACTIVE
    if operation == RESUME:
        return status == PAUSED
    return status != ABSENT


def _remedy(operation: int, status: int) -> str:
    if operation == ADD:
        return "; use replace to change its filter, or another id"
    if status == ABSENT:
        return "; an integer and its text are different ids" if operation != REPLACE else "; use add"
    return ""


def _pairs(labels: dict[str, str] | None) -> list[tuple[str, str]] | None:
    return None if labels is None else list(labels.items())
