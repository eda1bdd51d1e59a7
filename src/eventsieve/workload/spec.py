"""A workload: the parameters that define subscriptions and events, and the arrays drawn from them by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError, suggestion
from eventsieve.model.columns import EventColumns
from eventsieve.model.events import Events
from eventsieve.model.schema import Schema
from eventsieve.model.types import Float, Int
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload.draws import DISTRIBUTIONS, distinct_attributes, positions
from eventsieve.workload.tuning import tuned_width
from eventsieve.workload.widths import Width

_SUBSCRIPTIONS, _EVENTS = 1, 2
"""Streams of random numbers under one seed: changing the number of events leaves the subscriptions as they are."""


class SubscriptionArrays(NamedTuple):
    """Subscription s owns the predicates start[s]:start[s+1], by rising attribute; bounds are closed."""

    start: NDArray[np.int64]  # (n + 1,)
    attribute: NDArray[np.int32]  # (n_predicates,)
    low: NDArray[np.float64]  # (n_predicates,)
    high: NDArray[np.float64]  # (n_predicates,)


@dataclass(frozen=True)
class Workload:
    """What to draw. Values lie in [0, 1], or are the integers under `cardinality` where that is given.

    >>> small = Workload("small", n=1000, d=10, k=3, m=5, width=0.4)
    >>> start, attribute, low, high = small.subscription_arrays(seed=1)
    >>> len(start) - 1, len(low)
    (1000, 3000)
    """

    name: str
    n: int
    """Subscriptions."""
    d: int
    """Attributes in the schema."""
    k: int
    """Predicates per subscription, each on another attribute."""
    m: int
    """Attributes per event."""
    width: float | str = "random"
    """Widths of predicates; see `Width` for the forms."""
    attribute_skew: float = 0.0
    """Zipf exponent of the choice of a subscription's attributes; 0 is uniform."""
    event_attribute_skew: float = 0.0
    """The same for the attributes an event carries, where m < d."""
    values: str = "uniform"
    """Where predicates lie: one of `DISTRIBUTIONS`."""
    event_values: str = "uniform"
    """Where event values lie: one of `DISTRIBUTIONS`."""
    value_skew: float = 0.8
    """Zipf exponent of values that follow "zipf"."""
    cardinality: int | None = None
    """Number of integer values; None for real values."""
    decimals: int | None = None
    """Decimal places of real values and bounds; None for full precision."""
    single: float = 0.0
    """Share of predicates that ask for one single value."""
    match_rate: float | None = None
    """Share of the subscriptions that an event should match, for `width="tuned"`."""
    bounds: str = "closed"
    """"closed", or "mixed" for equal shares of (a, b), (a, b], [a, b) and [a, b]."""
    matcher_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, hash=False)
    """The paper's parameters by matcher; a matcher that is not named runs with its own defaults."""

    def __post_init__(self) -> None:
        for name, smallest in (("n", 0), ("d", 1), ("k", 1), ("m", 0)):
            if getattr(self, name) < smallest:
                raise DataError(f"{name} = {getattr(self, name)} makes no workload; it is at least {smallest}")
        for name in ("k", "m"):
            if getattr(self, name) > self.d:
                raise DataError(f"{name} = {getattr(self, name)} is more than the d = {self.d} attributes there are")
        for name in ("values", "event_values"):
            _check_choice(name, getattr(self, name), DISTRIBUTIONS)
        _check_choice("bounds", self.bounds, ("closed", "mixed"))
        if not 0 <= self.single <= 1:
            raise DataError(f"single = {self.single} is no share; it lies between 0 and 1")
        if (Width.parse(self.width).form == "tuned") != (self.match_rate is not None):
            raise DataError("width=tuned and a match rate belong together: give both or neither")

    def with_settings(self, settings: Mapping[str, Any]) -> Workload:
        """Return the workload with some parameters replaced; texts are read as the parameter's type.

        A width replaces a match rate and the other way round.
        """
        known = {parameter.name: parameter for parameter in fields(self) if parameter.name in self.parameters()}
        for name in settings:
            if name not in known:
                raise DataError(f"workload {self.name!r} has no parameter {name!r}{suggestion(name, known)}")
        changes = {name: _read(known[name], value) for name, value in settings.items()}
        if changes.get("match_rate") is not None:
            changes.setdefault("width", "tuned")
        elif "width" in changes:
            changes.setdefault("match_rate", None)
        return replace(self, **changes)

    def parameters(self) -> dict[str, Any]:
        """Return what defines the workload, as plain values for a record."""
        left_out = ("name", "matcher_params")
        return {p.name: getattr(self, p.name) for p in fields(self) if p.name not in left_out}

    def schema(self) -> Schema:
        """Return the attributes a0, a1, ... with their domains."""
        kind = Float(0.0, 1.0) if self.cardinality is None else Int(0, self.cardinality - 1)
        return Schema({f"a{a}": kind for a in range(self.d)})

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of each text attribute; bounds and values of such an attribute are positions in its list."""
        return {}

    @cached_property
    def effective_width(self) -> Width:
        """The width in force: the tuned one where a match rate is asked for."""
        width = Width.parse(self.width)
        if width.form != "tuned":
            return width
        share = tuned_width(self)
        return Width("fixed", share, share)

    def subscription_arrays(self, seed: int = 1) -> SubscriptionArrays:
        """Draw the subscriptions, as closed intervals."""
        rng = np.random.default_rng([seed, _SUBSCRIPTIONS])
        attribute = distinct_attributes(rng, self.n, self.k, self.d, self.attribute_skew).ravel()
        low, high = self.predicates(rng, attribute.size, self.effective_width)
        start = np.arange(self.n + 1, dtype=np.int64) * self.k
        return SubscriptionArrays(start, attribute, low, high)

    def event_arrays(self, count: int, seed: int = 1) -> EventColumns:
        """Draw `count` events."""
        rng = np.random.default_rng([seed, _EVENTS])
        attribute = distinct_attributes(rng, count, self.m, self.d, self.event_attribute_skew).ravel()
        value = self.event_value(rng, attribute.size)
        return EventColumns(np.arange(count + 1, dtype=np.int64) * self.m, attribute, value)

    def predicates(
        self, rng: np.random.Generator, size: int, width: Width
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw the closed bounds of `size` predicates of a given width."""
        place = positions(rng, size, self.values, self.value_skew, self.cardinality)
        low, share = width.draw(rng, place)
        is_single = rng.random(size) < self.single if self.single else np.zeros(size, np.bool_)
        if self.cardinality is None:
            low, high = self._rounded(low), self._rounded(low + share)
            low[is_single] = high[is_single] = self._rounded(place[is_single])
        else:
            low, high = _integer_bounds(rng, place, np.where(is_single, 0.0, share), self.cardinality)
        return (low, high) if self.bounds == "closed" else _mixed_bounds(rng, low, high, self.cardinality is not None)

    def event_value(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        """Draw `size` event values."""
        place = positions(rng, size, self.event_values, self.value_skew, self.cardinality)
        return self._rounded(place) if self.cardinality is None else np.floor(place * self.cardinality)

    def subscriptions(self, seed: int = 1) -> Subscriptions:
        """Draw the subscriptions as a collection; ids are 0 to n - 1."""
        return Subscriptions.from_arrays(self.schema(), *self.subscription_arrays(seed), texts=self.texts() or None)

    def events(self, count: int, seed: int = 1) -> Events:
        """Draw `count` events as a batch."""
        return Events.from_arrays(self.schema(), *self.event_arrays(count, seed), texts=self.texts() or None)

    def _rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values if self.decimals is None else np.round(values, self.decimals)


def _integer_bounds(
    rng: np.random.Generator, place: NDArray[np.float64], share: NDArray[np.float64], cardinality: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return whole bounds that cover `share` of the values on average, and at least one value."""
    # 23.3 of 32 values is 23 or 24, by chance, so that a tuned width is met on average.
    count = np.clip(np.floor(share * cardinality + rng.random(place.size)), 1, cardinality)
    low = np.floor(place * (cardinality - count + 1))
    return low, low + count - 1


def _mixed_bounds(
    rng: np.random.Generator, low: NDArray[np.float64], high: NDArray[np.float64], whole: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Open a quarter of the intervals on both sides, a quarter on each side, and close what was open."""
    kind = rng.integers(0, 4, low.size)
    after = low + 1 if whole else np.nextafter(low, np.inf)
    before = high - 1 if whole else np.nextafter(high, -np.inf)
    new_low = np.where(kind & 1, after, low)
    new_high = np.where(kind & 2, before, high)
    # An interval of one value cannot be open.
    empty = new_low > new_high
    return np.where(empty, low, new_low), np.where(empty, high, new_high)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DataError(f"{name} = {value!r} is not known; the choices are {', '.join(choices)}")


def _read(parameter: Field[Any], value: Any) -> Any:
    """Return a setting as the type that the parameter is declared with."""
    declared = str(parameter.type)
    if "str" in declared or (value is None and "None" in declared):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"{parameter.name} = {value!r} is not a number") from None
    if not declared.startswith("int"):
        return number
    if not number.is_integer():
        raise DataError(f"{parameter.name} = {value!r} is not a whole number")
    return int(number)
