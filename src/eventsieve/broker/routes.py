"""Routes: which subscriber a subscription belongs to, by slot, so that a batch is sorted out with array operations."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.ids import Id
from eventsieve.subscriptions import Subscriptions

NOBODY = 0
"""The route of a subscription that no subscriber has asked for."""


class Routes:
    """Numbers of subscribers, from 1 on, by subscription. A route may be given before its subscription is there."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._route_of_id: dict[Id, int] = {}
        self._of_slot = np.zeros(0, np.int32)
        self.rebind(subscriptions)

    def __bool__(self) -> bool:
        return bool(self._route_of_id)

    def set(self, ids: Iterable[Id], route: int) -> None:
        """Give subscriptions to a subscriber."""
        self._grow()
        for id in ids:
            self._route_of_id[id] = route
            self._place(id)

    def remove(self, id: Id) -> None:
        """Forget a subscription; call before its slot is free for another."""
        if self._route_of_id.pop(id, None) is not None and (slot := self._slot(id)) is not None:
            self._of_slot[slot] = NOBODY

    def vacate(self, ids: Iterable[Id]) -> None:
        """Free the slots of subscriptions that leave the index; should they come back, their routes still stand."""
        for id in ids:
            if id in self._route_of_id and (slot := self._slot(id)) is not None:
                self._of_slot[slot] = NOBODY

    def arrived(self, ids: Iterable[Id]) -> None:
        """Give subscriptions that are new in the index the routes they were promised."""
        self._grow()
        for id in ids:
            if id in self._route_of_id:
                self._place(id)

    def drop(self, route: int) -> None:
        """Take everything from a subscriber."""
        self._route_of_id = {id: other for id, other in self._route_of_id.items() if other != route}
        self._of_slot[self._of_slot == route] = NOBODY

    def rebind(self, subscriptions: Subscriptions) -> None:
        """Turn to another collection, whose slots are others."""
        self._subscriptions = subscriptions
        self._of_slot = np.zeros(subscriptions.n_slots, np.int32)
        for id in self._route_of_id:
            self._place(id)

    def of(self, slots: NDArray[np.int32]) -> NDArray[np.int32] | None:
        """Return the route of each slot, None where nobody has any."""
        if not self._route_of_id:
            return None
        found: NDArray[np.int32] = self._of_slot[slots]
        return found

    def _place(self, id: Id) -> None:
        slot = self._slot(id)
        if slot is not None:
            self._of_slot[slot] = self._route_of_id[id]

    def _slot(self, id: Id) -> int | None:
        return self._subscriptions.slot(id) if id in self._subscriptions else None

    def _grow(self) -> None:
        missing = self._subscriptions.n_slots - self._of_slot.size
        if missing > 0:
            # Half as much again, so that subscriptions that come one by one are not copied one by one.
            spare = missing + self._of_slot.size // 2
            self._of_slot = np.concatenate([self._of_slot, np.zeros(spare, np.int32)])
