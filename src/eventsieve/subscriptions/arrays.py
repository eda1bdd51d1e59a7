"""Subscriptions that come as flat arrays: checked, ordered and coded all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eventsieve.errors import DataError, SchemaError
from eventsieve.model.codes import Codes
from eventsieve.model.columns import flat
from eventsieve.model.events import check_offsets, code_positions
from eventsieve.model.growing import GrowingArray
from eventsieve.model.ids import Id, checked_id
from eventsieve.model.schema import Schema
from eventsieve.model.types import Text


def checked_columns(
    schema: Schema, start: ArrayLike, attribute: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[NDArray[np.int64], list[GrowingArray]]:
    """Return where subscriptions begin, and their predicates as attribute, low and high, by rising attribute."""
    offsets = flat(start, np.int64)
    # Copies, because they are sorted and coded in place.
    owned = [
        GrowingArray.copy_of(attribute, np.int32),
        GrowingArray.copy_of(low, np.float64),
        GrowingArray.copy_of(high, np.float64),
    ]
    columns = [each.view for each in owned]
    check_offsets(offsets, *columns)
    _sort_by_attribute(schema, offsets, columns)
    _check_bounds(schema, offsets, columns)
    return offsets, owned


def code_texts(
    schema: Schema, columns: Sequence[GrowingArray], texts: Mapping[str, Sequence[str]] | None, codes: Codes
) -> None:
    """Replace positions in `texts` by codes, in place."""
    attribute, low, high = (each.view for each in columns)
    for a, kind in enumerate(schema.types):
        if not isinstance(kind, Text):
            continue
        at = np.flatnonzero(attribute == a)
        if at.size and np.any(low[at] != high[at]):
            raise DataError(
                f"attribute {schema.names[a]!r} is text: its low and high must be the same position in texts"
            )
        if at.size:
            low[at] = high[at] = code_positions(schema, a, low[at], texts, codes)


def _sort_by_attribute(schema: Schema, start: NDArray[np.int64], columns: list[NDArray[Any]]) -> None:
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


def _check_bounds(schema: Schema, start: NDArray[np.int64], columns: list[NDArray[Any]]) -> None:
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
