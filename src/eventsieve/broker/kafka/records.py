"""What a delivery is in Kafka: records with a key, a JSON value, and headers that name the match.

A match that is delivered twice has the same event, subscription and version in its headers, so that whoever reads can
leave the second one out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from eventsieve.broker.transport import Delivery
from eventsieve.broker.wire import Output, records, to_json
from eventsieve.errors import DataError
from eventsieve.kafka import (
    BOUND_HEADER,
    EVENT_HEADER,
    MODE_HEADER,
    NOBODY,
    SUBSCRIPTION_HEADER,
    VERSION_HEADER,
    KafkaPlace,
    topic_part,
)
from eventsieve.model.ids import Id

IDS_IN_RECORD: Final = 20_000
"""Subscriptions in one record: an event that more of them want is told in several, or no topic would take it."""

OwnerOf: TypeAlias = Callable[[Id, int], str | None]
"""Returns the owner of a subscription at a version of the catalog."""


class Record(NamedTuple):
    """What a producer is given."""

    topic: str
    key: bytes | str | None
    value: bytes
    headers: list[tuple[str, bytes | str]]


class RecordForm:
    """How deliveries become records: into one topic, or each match into that of its subscription or its owner."""

    def __init__(
        self, place: KafkaPlace, output: Output = "arrays", with_event: bool = False, owner_of: OwnerOf | None = None
    ) -> None:
        if len(place.topics) > 1:
            raise DataError(f"a sink is one topic, or a pattern such as matches-{{subscription}}, not {place.topic!r}")
        self.by = place.placeholder
        if self.by not in (None, "subscription", "owner"):
            raise DataError(f"a topic can be named by {{subscription}} or {{owner}}, not by {{{self.by}}}")
        if self.by is not None and output != "pairs":
            raise DataError("a topic per subscription or owner needs a record per match: output pairs")
        if self.by == "owner" and owner_of is None:
            raise DataError("only subscriptions of a catalog have owners; name topics by {subscription}")
        self._topic, self._output, self._with_event, self._owner_of = place.topic, output, with_event, owner_of

    def records(self, delivery: Delivery) -> Iterator[Record]:
        """Yield the records of a delivery."""
        message = delivery.message
        key = str(delivery.event_id) if message.key is None else message.key
        for part in _parts(delivery, self._output):
            for fields in records(part, self._output, self._with_event):
                headers = [*message.headers, (EVENT_HEADER, str(part.event_id))]
                if "subscription_id" in fields:
                    headers.append((SUBSCRIPTION_HEADER, str(fields["subscription_id"])))
                headers += [(VERSION_HEADER, str(part.version)), (MODE_HEADER, fields["match_mode"])]
                if "false_positive_bound" in fields:
                    headers.append((BOUND_HEADER, repr(fields["false_positive_bound"])))
                yield Record(self._topic_of(fields.get("subscription_id"), part.version), key, to_json(fields), headers)

    def _topic_of(self, id: Id | None, version: int) -> str:
        if self.by is None or id is None:
            return self._topic
        name = str(id)
        if self.by == "owner" and self._owner_of is not None:
            name = self._owner_of(id, version) or NOBODY
        return self._topic.replace(f"{{{self.by}}}", topic_part(name))


def _parts(delivery: Delivery, output: Output) -> Iterator[Delivery]:
    """Yield a delivery, in parts where one record would have too many subscriptions."""
    if output == "pairs" or len(delivery.subscriptions) <= IDS_IN_RECORD:
        yield delivery
        return
    for first in range(0, len(delivery.subscriptions), IDS_IN_RECORD):
        part = slice(first, first + IDS_IN_RECORD)
        approximate = None if delivery.approximate is None else delivery.approximate[part]
        yield delivery._replace(subscriptions=delivery.subscriptions[part], approximate=approximate)
