"""Market ticks: a synthetic stream with the shape of a stock trace, and subscriptions to it.

EEM's trace is not public. This keeps what is said of it: 50 attributes, a rate that follows the trading day, most
values under half of their domain. The rest is plausible rather than true: some symbols are far more popular than
others, every symbol has a price level, and the price-like attributes stay near the price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError
from eventsieve.model.columns import EventColumns
from eventsieve.model.schema import Schema
from eventsieve.model.types import AttributeType, Float, Int, Text, Time
from eventsieve.workload.draws import distinct_attributes, zipf_ranks
from eventsieve.workload.spec import SubscriptionArrays, Workload

_PRICES: Final = (
    "price", "bid", "ask", "vwap", "day_open", "day_high", "day_low", "previous_close", "year_high", "year_low",
    "average_5", "average_10", "average_20", "average_50", "average_100", "average_200", "band_upper", "band_lower",
)  # fmt: skip
"""Attributes that stay near the price; all share its domain."""
_COUNTS: Final = {
    "volume": 1_000_000, "bid_size": 10_000, "ask_size": 10_000, "trades": 50_000, "open_interest": 1_000_000,
    "turnover": 100_000_000, "average_volume": 1_000_000, "short_interest": 10_000_000,
}  # fmt: skip
"""Whole attributes, with the high end of their domain."""
_RATIOS: Final = {
    "spread": 5.0, "change_percent": 20.0, "volatility_5": 1.0, "volatility_20": 1.0, "volatility_60": 1.0, "beta": 3.0,
    "strength_7": 100.0, "strength_14": 100.0, "momentum": 50.0, "money_flow": 100.0, "true_range": 50.0,
    "dividend_yield": 12.0, "earnings_ratio": 120.0, "earnings": 40.0, "implied_volatility": 2.0, "put_call_ratio": 3.0,
    "imbalance": 1.0, "depth_1": 1.0, "depth_2": 1.0, "depth_3": 1.0, "sentiment": 1.0,
}  # fmt: skip
"""Real attributes, with the high end of their domain."""
_EXCHANGES: Final = ("NORTH", "SOUTH", "EAST", "WEST", "CENTRAL")
_TOP_PRICE: Final = 1000.0

_DAY: Final = datetime(2024, 3, 1, tzinfo=UTC)
_OPEN, _CLOSE = 9.5 * 3600, 16.0 * 3600
_SECONDS = 24 * 3600
_FLOATS: Final[dict[str, AttributeType]] = {
    **{name: Float(0.0, top) for name, top in _RATIOS.items()},
    **{name: Float(0.0, _TOP_PRICE) for name in _PRICES},
}
_INTS: Final[dict[str, AttributeType]] = {name: Int(0, top) for name, top in _COUNTS.items()}
_ATTRIBUTES: Final[dict[str, AttributeType]] = {
    "symbol": Text(),
    "price": _FLOATS["price"],
    "volume": _INTS["volume"],
    **_FLOATS,
    **_INTS,
    "exchange": Text(),
    "traded_at": Time(_DAY, _DAY.replace(day=2)),
}
"""The schema in order of popularity: what traders ask for most comes first."""
_POSITION: Final = {name: position for position, name in enumerate(_ATTRIBUTES)}
_MEANINGLESS: Final = (
    "event_attribute_skew", "values", "event_values", "value_skew", "cardinality", "decimals", "single", "match_rate",
    "bounds",
)  # fmt: skip
"""Parameters of plain workloads that say nothing about ticks."""
_PRICE_LEVEL_SEED = 7
"""Price levels belong to the market, not to one draw from it: subscriptions and events share them."""


def trading_rate(second: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the relative rate of ticks at a second of the day: 1 at the open, a lull at noon, little at night.

    >>> trading_rate([9.6 * 3600, 12.5 * 3600, 3 * 3600]).round(2).tolist()
    [0.93, 0.29, 0.01]
    """
    moment = np.asarray(second, np.float64)
    from_open = (moment - _OPEN) / (_CLOSE - _OPEN)
    # A burst at the open, a smaller one before the close, over a base: the usual U of a trading day.
    busy = 0.25 + 0.75 * np.exp(-from_open / 0.15) + 0.55 * np.exp((from_open - 1) / 0.1)
    return np.where((from_open >= 0) & (from_open <= 1), busy, 0.01)


@dataclass(frozen=True)
class Ticks(Workload):
    """The `ticks` workload. Attribute popularity falls in schema order, from the symbol on."""

    name: str = "ticks"
    n: int = 1_000_000
    d: int = 50
    k: int = 5
    m: int = 50
    width: float | str = "0.02..0.3"
    attribute_skew: float = 1.5
    symbols: int = 500
    """Number of different symbols."""
    symbol_skew: float = 0.8
    """Zipf exponent of their popularity, in subscriptions and in events."""
    one_sided: float = 0.3
    """Share of the numeric predicates that have a low end only, as in `volume >= 5000`."""
    matcher_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        if self.d != len(_ATTRIBUTES):
            raise DataError(f"d = {self.d} cannot be: a tick has {len(_ATTRIBUTES)} attributes; change m instead")
        super().__post_init__()

    def parameters(self) -> dict[str, Any]:
        """Return what defines the workload; the parameters of plain workloads that mean nothing here are left out."""
        return {name: value for name, value in super().parameters().items() if name not in _MEANINGLESS}

    def schema(self) -> Schema:
        """Return the attributes of a tick."""
        return Schema(_ATTRIBUTES)

    def texts(self) -> dict[str, list[str]]:
        """Return the symbols, the most popular first, and the exchanges."""
        return {"symbol": [_symbol(rank) for rank in range(self.symbols)], "exchange": list(_EXCHANGES)}

    def subscription_arrays(self, seed: int = 1) -> SubscriptionArrays:
        """Draw subscriptions: each has a symbol in mind, whether it asks for it or not, and prices near that one's."""
        rng = np.random.default_rng([seed, 1])
        attribute = distinct_attributes(rng, self.n, self.k, self.d, self.attribute_skew).ravel()
        symbol = np.repeat(zipf_ranks(rng, self.n, self.symbols, self.symbol_skew), self.k)
        low, high = self._ranges(rng, attribute, self._price_levels()[symbol])
        low, high = _whole(attribute, low, high)
        for name, code in (("symbol", symbol), ("exchange", rng.integers(0, len(_EXCHANGES), attribute.size))):
            asked = attribute == _POSITION[name]
            low[asked] = high[asked] = code[asked]
        return SubscriptionArrays(np.arange(self.n + 1, dtype=np.int64) * self.k, attribute, low, high)

    def event_arrays(self, count: int, seed: int = 1) -> EventColumns:
        """Draw the ticks of one day in order of time; with m < d each lacks some attributes, never the symbol."""
        rng = np.random.default_rng([seed, 2])
        symbol = zipf_ranks(rng, count, self.symbols, self.symbol_skew)
        price = _cents(self._price_levels()[symbol] * rng.lognormal(0, 0.03, count))
        table = np.empty((count, self.d))
        for column, (name, kind) in enumerate(_ATTRIBUTES.items()):
            table[:, column] = _tick_column(rng, name, kind, price)
        table[:, _POSITION["symbol"]] = symbol
        table[:, _POSITION["exchange"]] = rng.integers(0, len(_EXCHANGES), count)
        table[:, _POSITION["traded_at"]] = self.timestamps(count, seed)
        attribute = distinct_attributes(rng, count, self.m, self.d, 0.0)
        if self.m:
            attribute[:, 0] = 0
        value = np.take_along_axis(table, attribute.astype(np.int64), axis=1)
        return EventColumns(np.arange(count + 1, dtype=np.int64) * self.m, attribute.ravel(), value.ravel())

    def timestamps(self, count: int, seed: int = 1) -> NDArray[np.float64]:
        """Return `count` rising moments of one day, in microseconds since 1970, as dense as `trading_rate` says."""
        seconds = np.arange(_SECONDS + 1, dtype=np.float64)
        so_far = np.concatenate([[0.0], np.cumsum(trading_rate(seconds[:-1] + 0.5))])
        chance = np.sort(np.random.default_rng([seed, 3]).random(count))
        second = np.interp(chance * so_far[-1], so_far, seconds)
        return np.asarray(np.floor((_DAY.timestamp() + second) * 1e6))

    def _price_levels(self) -> NDArray[np.float64]:
        """Return each symbol's price level; nine in ten lie under a fifth of the domain."""
        rng = np.random.default_rng(_PRICE_LEVEL_SEED)
        return np.clip(rng.lognormal(np.log(60), 0.9, self.symbols), 1.0, 0.9 * _TOP_PRICE)

    def _ranges(
        self, rng: np.random.Generator, attribute: NDArray[np.int32], price: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw numeric ranges: prices as a band around the symbol's level, others in the lower part of the domain."""
        domains = [_domain(kind) for kind in _ATTRIBUTES.values()]
        bottom, top = (np.array(ends)[attribute] for ends in zip(*domains, strict=True))
        start, share = self.effective_width.draw(rng, rng.beta(1.5, 4.0, attribute.size))
        low = bottom + start * (top - bottom)
        high = low + share * (top - bottom)
        is_price = np.array([name in _PRICES for name in _ATTRIBUTES])[attribute]
        low[is_price] = (price * (1 - share))[is_price]
        high[is_price] = (price * (1 + share))[is_price]
        high[rng.random(attribute.size) < self.one_sided] = np.inf
        return np.round(low, 2), np.round(high, 2)


def _tick_column(
    rng: np.random.Generator, name: str, kind: AttributeType, price: NDArray[np.float64]
) -> NDArray[np.float64]:
    if name in _PRICES:
        near = price if name == "price" else price * rng.normal(1.0, 0.02, price.size)
        return _cents(near)
    bottom, top = _domain(kind)
    drawn: NDArray[np.float64] = bottom + rng.beta(2.0, 5.0, price.size) * (top - bottom)
    return np.round(drawn, 0 if kind.discrete else 4)


def _cents(price: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.round(np.clip(price, 0.01, _TOP_PRICE), 2), np.float64)


def _whole(
    attribute: NDArray[np.int32], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Move the bounds of whole attributes to whole numbers."""
    whole = np.array([kind.discrete for kind in _ATTRIBUTES.values()])[attribute]
    return np.where(whole, np.floor(low), low), np.where(whole, np.ceil(high), high)


def _domain(kind: AttributeType) -> tuple[float, float]:
    bottom, top = kind.domain()
    return (bottom or 0.0, 1.0 if top is None else top)


def _symbol(rank: int) -> str:
    """Return the symbol of a rank, A to ZZZ: the more popular, the shorter."""
    letters = ""
    rank += 1
    while rank:
        rank, letter = divmod(rank - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters
