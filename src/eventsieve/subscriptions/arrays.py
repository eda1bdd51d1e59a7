"""Checks on subscriptions that come as flat arrays, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError, SchemaError
from eventsieve.model.ids import Id, checked_id
from eventsieve.model.schema import Schema


def sort_by_attribute(schema: Schema, start: NDArray[np.int64], columns: list[NDArray[Any]]) -> None:
    """Order each subscription's predicates by attribute, in place, and refuse an attribute that stands there twice."""
    attribute = columns[0]
    if attribute.size and not (attribute.min() >= 0 and attribute.max() < len(schema)):
        wrong = attribute[(attribute < 0) | (attribute >= len(schema))][0]
        raise SchemaError(f"attributes are numbered from 0 to {len(schema) - 1} in this schema, not {wrong}")
    rises = np.diff(attribute) > 0
    inner = np.ones(max(attribute.size - 1, 0), bool)
    cuts = start[1:-1]
    inner[cuts[(cuts > 0) & (cuts < attribute.size)] - 1] = False
    if np.all(rises | ~inner):
        return
    owner = np.repeat(np.arange(start.shape[0] - 1), np.diff(start))
    key = owner * len(schema) + attribute
    order = np.argsort(key, kind="stable")
    for column in columns:
        column[:] = column[order]
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        p = int(twice[0])
        raise DataError(
            f"subscription number {owner[order][p]}: attribute {schema.names[attribute[p]]!r} is constrained twice; "
            "give one interval per attribute"
        )


def check_bounds(schema: Schema, start: NDArray[np.int64], columns: list[NDArray[Any]]) -> None:
    attribute, low, high = columns
    bad = np.flatnonzero(~((low <= high) & (low < np.inf) & (high > -np.inf)))
    if bad.size:
        p = int(bad[0])
        s = int(np.searchsorted(start, p, side="right")) - 1
        what = "NaN is not a bound" if np.isnan(low[p]) or np.isnan(high[p]) else "the interval is empty"
        raise DataError(
            f"subscription number {s}, attribute {schema.names[attribute[p]]!r}: {what}, [{low[p]}, {high[p]}]; "
            f"{bad.size} predicates in all are like that"
        )
    low += 0.0  # -0.0 becomes 0.0
    high += 0.0


def checked_ids(ids: Sequence[Id] | NDArray[Any], count: int) -> NDArray[Any]:
    given = np.asarray(ids)
    if len(given) != count:
        raise DataError(f"there are {count} subscriptions but {len(given)} ids")
    if given.dtype.kind in "iu":
        if given.dtype.kind == "u" and given.size and given.max() >= 2**63:
            raise DataError(f"an integer id fits into 64 bits, unlike {given.max()}; give it as text")
        found = given.astype(np.int64)
    else:
        found = np.empty(count, object)
        found[:] = [checked_id(id) for id in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]
    if len(set(found.tolist())) < count:
        ordered = np.sort(found) if found.dtype != object else np.array(sorted(found, key=repr), object)
        twice = ordered[1:][ordered[1:] == ordered[:-1]].tolist()
        raise DataError(f"the id {twice[0]!r} is given twice ({len(twice)} ids in all are); ids must differ")
    return found
