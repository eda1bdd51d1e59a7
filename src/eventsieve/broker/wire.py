"""Messages and deliveries as JSON: for journals and spilled backlogs, and the records that sinks write."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import numpy as np

from eventsieve.broker.transport import DeadLetter, Delivery, Message

Output: TypeAlias = Literal["arrays", "pairs"]
"""One record per event with all its subscriptions, or one per match."""


def records(delivery: Delivery, output: Output, with_event: bool = False) -> Iterator[dict[str, Any]]:
    """Yield what a sink writes for a delivery, under the names that the Spark pipeline uses."""
    event = {"event": delivery.event} if with_event else {}
    rest = {"catalog_version": delivery.version, **event}
    if output == "pairs":
        for id, mode in zip(delivery.ids, delivery.match_modes, strict=True):
            bound = {} if mode == "exact" else {"false_positive_bound": delivery.false_positive}
            yield {
                "event_id": delivery.event_id, "subscription_id": id, "match_mode": mode, **bound, **rest,
            }  # fmt: skip
        return
    maybe = {} if delivery.approximate is None else {"match_modes": delivery.match_modes}
    bound = {"false_positive_bound": delivery.false_positive} if maybe else {}
    yield {
        "event_id": delivery.event_id, "subscription_ids": delivery.ids,
        "match_mode": "approximate" if maybe else "exact", **maybe, **bound, **rest,
    }  # fmt: skip


def letter_record(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as one JSON object: the message as it came, and the reason."""
    message = letter.message
    return {
        "reason": letter.reason,
        "publisher": message.publisher,
        "position": message.position,
        "event": _readable(message.value),
    }


def to_json(record: Mapping[str, Any]) -> bytes:
    """Return a record as one line of JSON, without its end."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()


def pack_message(message: Message) -> bytes:
    """Return a message as bytes that `unpack_message` reads."""
    return to_json(_message_record(message))


def unpack_message(data: bytes) -> Message:
    """Return the message that `pack_message` wrote; times, which JSON does not know, come back as texts."""
    return _message(json.loads(data))


def pack_delivery(delivery: Delivery) -> bytes:
    """Return a delivery as bytes that `unpack_delivery` reads."""
    approximate = None if delivery.approximate is None else np.flatnonzero(delivery.approximate).tolist()
    record = {
        "message": _message_record(delivery.message),
        "event_id": delivery.event_id,
        "ids": delivery.ids,
        "approximate": approximate,
        "version": delivery.version,
        "bound": delivery.false_positive,
        "received": delivery.received,
    }
    return to_json(record)


def unpack_delivery(data: bytes) -> Delivery:
    """Return the delivery that `pack_delivery` wrote."""
    record = json.loads(data)
    ids = np.array(record["ids"], object if any(isinstance(id, str) for id in record["ids"]) else np.int64)
    approximate = None
    if record["approximate"] is not None:
        approximate = np.zeros(ids.size, np.bool_)
        approximate[record["approximate"]] = True
    message, event_id = _message(record["message"]), record["event_id"]
    return Delivery(message, event_id, ids, approximate, record["version"], record["bound"], record["received"])


def _message_record(message: Message) -> dict[str, Any]:
    record = {name: value for name, value in message._asdict().items() if value is not None and value != ()}
    record["value"] = _wrapped(message.value)
    if message.key is not None:
        record["key"] = _wrapped(message.key)
    if message.headers:
        record["headers"] = [(name, _wrapped(value)) for name, value in message.headers]
    return record


def _message(record: dict[str, Any]) -> Message:
    fields = {**record, "value": _unwrapped(record["value"])}
    if "key" in fields:
        fields["key"] = _unwrapped(fields["key"])
    fields["headers"] = tuple((name, _unwrapped(value)) for name, value in fields.get("headers", ()))
    return Message(**fields)


def _wrapped(value: Any) -> Any:
    """Return a value in a form that keeps bytes, texts and objects apart."""
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode("ascii")}
    return {"text": value} if isinstance(value, str) else {"object": value}


def _unwrapped(value: dict[str, Any]) -> Any:
    [(kind, held)] = value.items()
    return b64decode(held) if kind == "bytes" else held


def _readable(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
