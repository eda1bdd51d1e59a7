"""From messages to columns: what can be matched becomes events, the rest dead letters with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from eventsieve.broker.transport import ColumnMessages, DeadLetter, EventId, Message
from eventsieve.errors import DataError, EventsieveError
from eventsieve.model.codes import Codes
from eventsieve.model.events import Events, Unknown, encode_event
from eventsieve.model.jsonl import parse_object
from eventsieve.model.schema import Schema

LARGEST_MESSAGE: Final = 1 << 20
"""Bytes of a message that is read at all: an event is attribute values, not a document."""


class Decoded(NamedTuple):
    """The good messages with their events and ids, one for one, and the others."""

    messages: Sequence[Message]
    ids: Sequence[EventId]
    events: Events
    letters: list[DeadLetter]


class Decoder:
    """Reads messages by a schema. `key` is the field that names an event, where the message itself does not."""

    def __init__(
        self, key: str | None = None, unknown: Unknown = "refuse", largest_message: int = LARGEST_MESSAGE
    ) -> None:
        self.key = key
        self._unknown: Unknown = unknown
        self._largest = largest_message

    def decode(self, schema: Schema, messages: Sequence[Message]) -> Decoded:
        """Return the events of messages. Columns pass through as they are."""
        if isinstance(messages, ColumnMessages):
            return Decoded(messages, _column_ids(messages), messages.events, [])
        good: list[Message] = []
        ids: list[EventId] = []
        rows: list[Mapping[str, Any]] = []
        letters: list[DeadLetter] = []
        for message in messages:
            try:
                row = self._row(message)
                ids.append(self._id(message, row))
            except EventsieveError as problem:
                letters.append(DeadLetter(message, str(problem)))
                continue
            good.append(message)
            rows.append(row if self.key is None or self.key in schema else _without(row, self.key))
        try:
            events = Events.from_dicts(schema, rows, unknown=self._unknown)
        except DataError:
            kept = self._encodable(schema, good, rows, letters)
            events = Events.from_dicts(schema, [rows[at] for at in kept], unknown=self._unknown)
            good, ids = [good[at] for at in kept], [ids[at] for at in kept]
        return Decoded(good, ids, events, letters)

    def _encodable(
        self, schema: Schema, messages: Sequence[Message], rows: Sequence[Mapping[str, Any]], letters: list[DeadLetter]
    ) -> list[int]:
        """Return which rows can be encoded; this second look is taken only where one cannot."""
        kept: list[int] = []
        for at, (message, row) in enumerate(zip(messages, rows, strict=True)):
            try:
                encode_event(schema, row, Codes(), self._unknown)
            except EventsieveError as problem:
                letters.append(DeadLetter(message, str(problem)))
            else:
                kept.append(at)
        return kept

    def _row(self, message: Message) -> Mapping[str, Any]:
        value = message.value
        if isinstance(value, Mapping):
            return value
        if len(value) > self._largest:
            raise DataError(f"the message has {len(value):,} bytes; the largest that is read has {self._largest:,}")
        return parse_object(value)

    def _id(self, message: Message, row: Mapping[str, Any]) -> EventId:
        if message.id is not None:
            return message.id
        if self.key is None:
            return default_id(message.publisher, message.position)
        found = row.get(self.key)
        if isinstance(found, str | int) and not isinstance(found, bool):
            return found
        if found is None:
            raise DataError(f"no value for the key field {self.key!r}")
        raise DataError(f"the key field {self.key!r} is a text or a whole number, not {found!r}")


def default_id(publisher: str, position: int) -> EventId:
    """Return what an event is called that has no name: by where it came from."""
    return f"{publisher}:{position}" if publisher else position


def _column_ids(messages: ColumnMessages) -> Sequence[EventId]:
    if messages.ids is not None:
        return messages.ids
    first = messages.first_position
    if not messages.publisher:
        return range(first, first + len(messages))
    return [default_id(messages.publisher, position) for position in range(first, first + len(messages))]


def _without(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}
