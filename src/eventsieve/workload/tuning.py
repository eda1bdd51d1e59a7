"""Find the width that gives a workload its match rate, and measure the rate it really has."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from eventsieve.errors import DataError
from eventsieve.workload.draws import distinct_attributes
from eventsieve.workload.widths import Width

if TYPE_CHECKING:
    from eventsieve.workload.spec import Workload

_SEED = 20_240_229
"""Tuning has a seed of its own: the width is a property of the workload, not of one draw from it."""
_SAMPLE = 50_000
"""Predicates and values that the chance of holding is taken from."""
_STEPS = 16
"""Halvings of the width: more than the sample can tell apart."""


def tuned_width(workload: Workload) -> float:
    """Return the fixed width at which an event matches the wanted share of the subscriptions.

    Attributes are independent, so the rate is the chance that an event carries all k attributes times the
    k-th power of the chance that one predicate holds; that one is found by halving, on one fixed sample.
    """
    return _tuned_width(replace(workload, n=0))  # the width does not depend on n, and parts of a workload are drawn too


@lru_cache(maxsize=64)
def _tuned_width(workload: Workload) -> float:
    wanted = workload.match_rate or 0.0
    present = _presence(workload)
    chance = (wanted / present) ** (1 / workload.k) if present else np.inf
    lowest, highest = _chance(workload, 0.0), _chance(workload, 1.0)
    if not lowest <= chance <= highest:
        raise DataError(
            f"no width gives workload {workload.name!r} a match rate of {wanted}: it lies between "
            f"{present * lowest**workload.k:.2g} and {present * highest**workload.k:.2g}; "
            "change match_rate, k, m or single"
        )
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(workload, middle) < chance else (low, middle)
    return (low + high) / 2


def measured_match_rate(workload: Workload, seed: int = 1, subscriptions: int = 20_000, events: int = 200) -> float:
    """Return the share of subscription-event pairs that match, on a sample drawn like the workload."""
    sample = replace(workload, n=min(workload.n, subscriptions))
    start, attribute, low, high = sample.subscription_arrays(seed)
    if not sample.n:
        return 0.0
    batch = workload.event_arrays(events, seed)
    hits = 0
    for e in range(events):
        row = np.full(workload.d, np.nan)  # no comparison with NaN holds, which is what absence means
        carried = slice(batch.start[e], batch.start[e + 1])
        row[batch.attribute[carried]] = batch.value[carried]
        value = row[attribute]
        hits += int(np.logical_and.reduceat((low <= value) & (value <= high), start[:-1]).sum())
    return hits / (sample.n * events)


def _presence(workload: Workload) -> float:
    """Return the chance that an event carries all attributes of a subscription."""
    if workload.m == workload.d:
        return 1.0
    rng = np.random.default_rng(_SEED)
    rows = max(1, min(20_000, _SAMPLE // workload.k))
    asked = distinct_attributes(rng, rows, workload.k, workload.d, workload.attribute_skew)
    if not workload.event_attribute_skew:
        # Every set of m attributes is equally likely: no need to draw it.
        steps = np.arange(workload.k)
        return float(np.prod(np.clip((workload.m - steps) / (workload.d - steps), 0, 1)))
    carried = np.zeros((rows, workload.d), np.bool_)
    drawn = distinct_attributes(rng, rows, workload.m, workload.d, workload.event_attribute_skew)
    np.put_along_axis(carried, drawn.astype(np.int64), True, axis=1)
    return float(np.take_along_axis(carried, asked.astype(np.int64), axis=1).all(axis=1).mean())


def _chance(workload: Workload, share: float) -> float:
    """Return the chance that a predicate of this width holds."""
    # Apart, since the number of single values that a sample happens to have would be most of its noise.
    wide = _chance_of_kind(replace(workload, single=0.0), share) if workload.single < 1 else 0.0
    single = _chance_of_kind(replace(workload, single=1.0), 0.0) if workload.single > 0 else 0.0
    return (1 - workload.single) * wide + workload.single * single


def _chance_of_kind(workload: Workload, share: float) -> float:
    rng = np.random.default_rng(_SEED)  # the same draws for every width, so that the chance rises with it
    value = np.sort(workload.event_value(rng, _SAMPLE))
    low, high = workload.predicates(rng, _SAMPLE, Width("fixed", share, share))
    # Every predicate meets every value, which is far less noisy than pairs.
    inside = np.searchsorted(value, high, side="right") - np.searchsorted(value, low, side="left")
    return float(inside.mean()) / _SAMPLE
