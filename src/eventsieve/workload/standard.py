"""The standard workloads by name, with their papers' parameters for every matcher.

A paper sets its rivals' parameters too, and differently from the next paper, so each workload carries its own
table. A matcher that a table leaves out runs with its defaults, which are the values of its own paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eventsieve.errors import DataError, suggestion
from eventsieve.workload.spec import Workload
from eventsieve.workload.ticks import Ticks

_QIAN: Final[Mapping[str, Mapping[str, Any]]] = {
    # BOP names neither REIN's buckets nor TAMA's levels. EEM and H-Tree, by the same group, do.
    "rein": {"buckets": 1000},
    "rein-f": {"buckets": 1000},
    "rein-o": {"buckets": 1000},
    "ada-rein": {"buckets": 1000},
    "wpa-rein": {"buckets": 1000, "classes": 5},
    "tama": {"levels": 13},
    "tama-o": {"levels": 13},
    "h-tree": {"cells": 8, "attributes": 8},
}
_GEM: Final[Mapping[str, Mapping[str, Any]]] = {
    "gem-tree": {"cells": 8},
    "tama": {"levels": 13},
    "tama-o": {"levels": 13},
    "op-index": {"signature_bits": 31},
}
_HEM: Final[Mapping[str, Mapping[str, Any]]] = {
    "hem": {"tau": 80},
    "h-tree": {"cells": 4, "attributes": 6},
    "tama": {"levels": 12},
    "tama-o": {"levels": 12},
    "rein": {"buckets": 3000},
    "rein-f": {"buckets": 3000},
    "rein-o": {"buckets": 3000},
}

_STANDARD: Final = {
    workload.name: workload
    for workload in (
        Workload("bop", n=1_000_000, d=50, k=6, m=20, width=0.4, matcher_params=_QIAN),
        Workload("full", n=1_000_000, d=20, k=5, m=20, width=0.5, matcher_params=_QIAN),
        Workload(
            "gem", n=1_000_000, d=50, k=7, m=50, cardinality=32, single=0.3, width="tuned", match_rate=0.01,
            matcher_params=_GEM,
        ),
        Workload("hem", n=900_000, d=10, k=10, m=10, width="ends:0.5", bounds="mixed", decimals=6, matcher_params=_HEM),
        Workload("htree", n=1_000_000, d=50, k=20, m=50, width=0.1, matcher_params=_QIAN),
        Workload(
            "eem", n=1_000_000, d=500, k=5, m=500, width="0..1", attribute_skew=0.8, decimals=6, matcher_params=_QIAN
        ),
        Ticks(),
    )
}  # fmt: skip


def workload_names() -> tuple[str, ...]:
    """Return the names of the standard workloads."""
    return tuple(_STANDARD)


def standard(name: str, **settings: Any) -> Workload:
    """Return a standard workload, with some parameters replaced.

    >>> standard("bop", n=1000).width
    0.4
    """
    if name not in _STANDARD:
        raise DataError(f"no workload is named {name!r}{suggestion(name, _STANDARD)}")
    return _STANDARD[name].with_settings(settings)
