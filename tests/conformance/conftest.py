"""Every test here runs once per registered matcher, and once per setting that shakes a matcher's corners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import eventsieve as es
from eventsieve.matchers.registry import default_params

CORNERS: dict[str, list[dict[str, Any]]] = {
    "ada-rein": [{"buckets": 3}],
    "rein": [{"buckets": 3}, {"absent": "walk"}],
    "rein-f": [{"buckets": 3}],
    "rein-o": [{"buckets": 3}],
    "sieve": [{"cells": 1}, {"cells": 3, "rare": 2}, {"cells": 5, "transform": "quantiles"}],
    "hem": [
        {"tau": 1},
        {"tau": 2, "walk": "unmatched", "order": "given"},
        {"order": "optimal", "transform": "quantiles"},
    ],
    "spare-rein": [{"buckets": 3}],
    "wpa-rein": [{"buckets": 3, "classes": 1}],
    "tama": [{"levels": 2}],
    "tama-o": [{"levels": 2}],
    "gem-tree": [
        {"cells": 2, "bucket": 2, "minimum": 1},
        {"cells": 3, "bucket": 1, "minimum": 2, "order": "rank", "transform": "quantiles"},
    ],
    "be-tree": [{"capacity": 2, "smallest": 1}],
    "op-index": [{"signature_bits": 2}, {"count": "satisfied"}],
    "h-tree": [
        {"cells": 3, "attributes": 2},
        {"cells": 5, "attributes": 6, "bucket": 1, "copies": 16, "transform": "quantiles"},
    ],
}
"""Settings under which many subscriptions share few cells, or a second way of matching is taken."""


@dataclass(frozen=True)
class Setting:
    name: str
    params: tuple[tuple[str, Any], ...]

    def build(self, subscriptions: es.Subscriptions) -> es.Index:
        return es.build(subscriptions, matcher=self.name, **dict(self.params))

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.params)])


def _settings() -> list[Setting]:
    found = []
    for name in es.matchers():
        known = default_params(name)
        for params in [{}, *CORNERS.get(name, [])]:
            unknown = set(params) - set(known)
            assert not unknown, f"the corner {params} of {name} names parameters it does not take: {unknown}"
            found.append(Setting(name, tuple(params.items())))
    return found


@pytest.fixture(params=_settings(), ids=str)
def setting(request: pytest.FixtureRequest) -> Setting:
    """A matcher with parameters."""
    found: Setting = request.param
    return found
