"""An index to a snapshot and back."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eventsieve.errors import EventsieveError, SnapshotError
from eventsieve.index.sharing import Sharing
from eventsieve.index.snapshot import read_snapshot, write_snapshot
from eventsieve.matchers.registry import make_matcher
from eventsieve.model.columns import Domains
from eventsieve.planner import Plan
from eventsieve.subscriptions import Subscriptions

if TYPE_CHECKING:
    from eventsieve.index.index import Index

_SHARED: Final = "index of equal clauses"
"""A kind of its own: code that knows nothing of shared slots must refuse such a file, not misread it."""


def save_index(index: Index, path: str | PathLike[str]) -> None:
    """Write an index to one file, atomically."""
    meta, arrays = index.subscriptions.to_arrays()
    kind = "index" if index.sharing is None else _SHARED
    matcher = index.matcher
    meta = {"kind": kind, "matcher": matcher.name, "params": matcher.params, "subscriptions": meta}
    meta["plan"] = index.plan.to_dict()
    stored = {f"subscriptions/{name}": array for name, array in arrays.items()}
    stored |= {f"domains/{name}": array for name, array in index.matcher.domains._asdict().items()}
    stored |= {f"matcher/{name}": array for name, array in index.matcher.arrays().items()}
    if index.sharing is not None:
        stored |= {f"sharing/{name}": array for name, array in index.sharing.arrays().items()}
    write_snapshot(path, meta, stored)


def load(path: str | PathLike[str], verify: bool = True) -> Index:
    """Open an index that `Index.save` wrote, by memory map; changes stay in this process.

    `verify=False` passes over the checksums of the arrays, for a file that was verified before.
    """
    from eventsieve.index.index import Index

    meta, arrays = read_snapshot(path, verify)
    if meta.get("kind") not in ("index", _SHARED):
        raise SnapshotError(f"{path} holds {meta.get('kind')!r}, not an index")
    try:
        subs = Subscriptions.from_stored(meta["subscriptions"], _part(arrays, "subscriptions"))
        matcher = make_matcher(meta["matcher"], **meta["params"])
        sharing = Sharing(_part(arrays, "sharing")) if meta["kind"] == _SHARED else None
        index = Index(subs, matcher, sharing)
        if "plan" in meta:
            index.plan = Plan.from_dict(meta["plan"])
        matcher.restore(_part(arrays, "matcher"), index.indexed_table(), Domains(**_part(arrays, "domains")))
    except (KeyError, EventsieveError) as cause:
        raise SnapshotError(
            f"{path} cannot be opened by this version of eventsieve: {cause}; build the index again"
        ) from cause
    return index


def _part(arrays: dict[str, np.ndarray[Any, Any]], prefix: str) -> dict[str, np.ndarray[Any, Any]]:
    return {name[len(prefix) + 1 :]: array for name, array in arrays.items() if name.startswith(prefix + "/")}
