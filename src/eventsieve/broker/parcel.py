"""Parcel: messages of one publisher on their way through the broker, already decoded to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eventsieve.broker.ledger import Mark
from eventsieve.broker.transport import EventId, Message
from eventsieve.model.events import Events


class Parcel(NamedTuple):
    """Consecutive messages of one publisher. There is one event for each message."""

    messages: Sequence[Message]
    ids: Sequence[EventId]
    events: Events
    received: float
    """When the broker took them, by its own clock."""
    mark: Mark
    """How far the publisher is done with this parcel, dead letters that came with it included."""

    @property
    def weight(self) -> int:
        """Places it takes in a queue. Without an event it still carries a position."""
        return max(1, len(self.messages))
