"""Cut a collection of subscriptions into shards of equal size, column by column where that is possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eventsieve.model.ids import Ids
from eventsieve.subscriptions import Subscriptions
from eventsieve.subscriptions.strings import restored_texts, stored_ids, stored_texts


def cut(subscriptions: Subscriptions, n_shards: int) -> list[Subscriptions]:
    """Return `n_shards` collections that together hold every subscription once."""
    if n_shards == 1:
        return [subscriptions]
    _, arrays = subscriptions.to_arrays()
    live = np.flatnonzero(arrays["first_clause"] >= 0)
    plain = subscriptions.one_clause_each and subscriptions.residuals.empty and not subscriptions.unbounded
    taken = _columns if plain else _texts
    return [taken(subscriptions, slots) for slots in np.array_split(live, n_shards)]


def _columns(subscriptions: Subscriptions, slots: NDArray[np.int64]) -> Subscriptions:
    """Pick subscriptions of one plain clause each: their clause stands at their slot."""
    meta, arrays = subscriptions.to_arrays()
    start, stop = arrays["start"][slots], arrays["stop"][slots]
    length = stop - start
    end = np.cumsum(length)
    predicate = np.repeat(start - (end - length), length) + np.arange(length.sum())
    numbers = np.arange(len(slots), dtype=np.int32)
    ids = Ids.from_values(subscriptions.ids_by_slot.take(slots.astype(np.int32)))
    picked: dict[str, NDArray[Any]] = {
        **Subscriptions(subscriptions.schema).to_arrays()[1],
        "start": end - length,
        "stop": end,
        **{name: arrays[name][predicate] for name in ("attribute", "low", "high")},
        "subscription_of_clause": numbers,
        "first_clause": numbers.copy(),
        "next_clause": np.full(len(slots), -1, np.int32),
        **stored_texts("texts", restored_texts("texts", arrays).take(pa.array(slots))),
        **stored_ids(ids),
    }
    return Subscriptions.from_stored({**meta, "dead_predicates": 0}, picked)


def _texts(subscriptions: Subscriptions, slots: NDArray[np.int64]) -> Subscriptions:
    """Compile the filters again: alternatives and residual checks do not lie in columns of one row each."""
    picked = Subscriptions(subscriptions.schema)
    for id in subscriptions.ids_by_slot.take(slots.astype(np.int32)).tolist():
        picked.add(id, subscriptions.text(id))
    return picked
