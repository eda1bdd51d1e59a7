"""A collection as a little JSON and named flat arrays, and back without copying them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.model.growing import GrowingArray
from eventsieve.model.report import LoadReport
from eventsieve.model.residuals import Pattern, ResidualTable
from eventsieve.model.texts import Texts
from eventsieve.subscriptions.strings import restored_ids, restored_texts, stored_ids, stored_texts

if TYPE_CHECKING:
    from eventsieve.subscriptions.collection import Subscriptions

_COLUMNS: Final = (
    "start",
    "stop",
    "attribute",
    "low",
    "high",
    "subscription_of_clause",
    "first_clause",
    "next_clause",
)
"""The growing arrays of a collection, by name."""


def stored(subs: Subscriptions) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Take a collection apart."""
    meta = {
        "schema": subs.schema.to_json(),
        "codes": {str(a): subs.codes.values(a) for a in subs.codes.attributes()},
        "patterns": [list(pattern) for pattern in subs.residuals.patterns],
        "one_clause_each": subs.one_clause_each,
        "dead_predicates": subs._dead_predicates,
    }
    arrays = {name: getattr(subs, "_" + name).view for name in _COLUMNS}
    arrays["free_slots"] = np.array(subs._free_slots, np.int64)
    arrays["free_clauses"] = np.array(subs._free_clauses, np.int64)
    arrays["unbounded"] = np.array(sorted(subs.unbounded), np.int64)
    arrays |= {f"residuals/{name}": array for name, array in subs.residuals.arrays().items()}
    arrays |= stored_texts("texts", subs._texts.frozen(subs.n_slots))
    arrays |= stored_ids(subs.ids_by_slot)
    return meta, arrays


def restored(empty: Subscriptions, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Subscriptions:
    """Fill an empty collection with what `stored` took apart."""
    subs = empty
    for name in _COLUMNS:
        setattr(subs, "_" + name, GrowingArray(arrays[name]))
    for a, values in meta["codes"].items():
        subs.codes.assign_all(int(a), values)
    patterns = [Pattern(*pattern) for pattern in meta["patterns"]]
    prefix = "residuals/"
    programs = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
    subs.residuals = ResidualTable.from_arrays(programs, patterns)
    subs.one_clause_each, subs._dead_predicates = meta["one_clause_each"], meta["dead_predicates"]
    subs._free_slots, subs._free_clauses = arrays["free_slots"].tolist(), arrays["free_clauses"].tolist()
    subs.unbounded = set(arrays["unbounded"].tolist())
    subs._texts = Texts(restored_texts("texts", arrays))
    subs.ids_by_slot = restored_ids(arrays, subs.n_slots)
    subs.ids_by_slot.forget(subs._free_slots)
    subs.report = LoadReport("a snapshot", len(subs))
    return subs
