"""The schema: which attributes there are, in which order, of which type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from eventsieve.errors import SchemaError, suggestion
from eventsieve.model.types import TYPES, AttributeType


class Schema(Mapping[str, AttributeType]):
    """An ordered, immutable mapping of attribute names to types; an attribute's position is its number.

    >>> from eventsieve.model.types import Float, Text
    >>> schema = Schema({"price": Float(0, 1000), "symbol": Text()})
    >>> schema.position("symbol")
    1
    """

    def __init__(self, attributes: Mapping[str, AttributeType], decisions: tuple[str, ...] = ()) -> None:
        for name, kind in attributes.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(f"an attribute's name is a non-empty text, not {name!r}")
            if type(kind) not in TYPES.values():
                raise SchemaError(
                    f"attribute {name!r} has the type {kind!r}; "
                    "use es.Float(), es.Int(), es.Bool(), es.Time() or es.Text()"
                )
        self._types = dict(attributes)
        self._positions = {name: position for position, name in enumerate(self._types)}
        self.names = tuple(self._types)
        self.types = tuple(self._types.values())
        self.decisions = decisions
        """What inference decided and why, one line per attribute; empty for a declared schema."""
        self._last_equal: object = self

    def __getitem__(self, name: str) -> AttributeType:
        return self._types[name]

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __eq__(self, other: object) -> bool:
        # Almost always it is the very same one or the one before, and the check is made for every batch.
        if other is self or other is self._last_equal:
            return True
        if isinstance(other, Schema) and self.names == other.names and self.types == other.types:
            self._last_equal = other
            return True
        return False

    def __hash__(self) -> int:
        return hash(tuple(self._types.items()))

    def __repr__(self) -> str:
        return f"Schema({self._types!r})"

    def position(self, name: str) -> int:
        """Return the attribute's number; raise SchemaError with the nearest name if there is none."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise SchemaError(f"no attribute is named {name!r}{suggestion(str(name), self.names)}") from None

    def extended(self, attributes: Mapping[str, AttributeType]) -> Schema:
        """Return a schema with more attributes behind the present ones, whose numbers stay."""
        for name, kind in attributes.items():
            if self._types.get(name, kind) != kind:
                raise SchemaError(f"attribute {name!r} is {self._types[name]!r} and cannot become {kind!r}")
        return Schema({**self._types, **attributes})

    @staticmethod
    def infer(data: Any) -> Schema:
        """Return a schema that fits the given dicts or Arrow table; its `decisions` say what was decided, and why."""
        from eventsieve.model.inference import infer_schema

        return infer_schema(data)

    def to_json(self) -> list[dict[str, Any]]:
        """Return a list of plain dicts, one per attribute, that `from_json` reads back."""
        return [{"name": name, "type": kind.kind, **_declared(kind)} for name, kind in self.items()]

    @classmethod
    def from_json(cls, rows: Any) -> Schema:
        """Read what `to_json` wrote: a list of `{"name", "type", "low", "high"}`, or `{"price": "float", ...}`."""
        if isinstance(rows, Mapping):
            rows = [
                {"name": name, **(dict(kind) if isinstance(kind, Mapping) else {"type": kind})}
                for name, kind in rows.items()
            ]
        if not isinstance(rows, list):
            raise SchemaError(
                f"a schema is a list of attributes or a mapping of names to types, not {type(rows).__name__}"
            )
        attributes: dict[str, AttributeType] = {}
        for row in rows:
            if not isinstance(row, Mapping) or "name" not in row or "type" not in row:
                raise SchemaError(f'an attribute of a schema is {{"name": ..., "type": ...}}, not {row!r}')
            name, kind = row["name"], row["type"]
            if kind not in TYPES:
                raise SchemaError(f"attribute {name!r} has the type {kind!r}{suggestion(str(kind), TYPES)}")
            if name in attributes:
                raise SchemaError(f"attribute {name!r} is declared twice; keep one of them")
            options = {key: value for key, value in row.items() if key not in ("name", "type")}
            try:
                attributes[name] = TYPES[kind](**options)
            except (TypeError, ValueError) as cause:
                raise SchemaError(f"attribute {name!r}: {cause}") from cause
        return cls(attributes)


def _declared(kind: AttributeType) -> dict[str, Any]:
    """Return the options of a type that differ from its defaults, as JSON values."""
    shown: dict[str, Any] = {}
    for option in fields(kind):
        value = getattr(kind, option.name)
        if value != option.default:
            shown[option.name] = value
    return shown
