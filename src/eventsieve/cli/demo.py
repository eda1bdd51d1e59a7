"""`eventsieve demo`: a small market in one process, from subscriptions to matches to an explanation."""

from __future__ import annotations

from typing import Final

from eventsieve.cli._io import emit, say

_SUBSCRIPTIONS: Final = {
    "dip-buyer": "symbol IN ('ACME', 'INIT') AND price < 95",
    "block-watch": "volume >= 50000",
    "range-trader": "symbol = 'ACME' AND price BETWEEN 99 AND 101 AND NOT halted",
    "halts": "halted OR note LIKE '%suspended%'",
    "penny-stocks": "price < 1 AND volume > 1000",
}

_EVENTS: Final = (
    {"symbol": "ACME", "price": 100.25, "volume": 1200, "halted": False},
    {"symbol": "INIT", "price": 93.1, "volume": 64000, "halted": False},
    {"symbol": "ZETA", "price": 0.42, "volume": 900, "halted": False},
    {"symbol": "ACME", "price": 101.5, "volume": 300, "halted": True, "note": "trading suspended"},
)


def demo() -> None:
    """Match a few market ticks against a few subscriptions, change one while it runs, and explain a miss.

    Examples:

      eventsieve demo
      eventsieve demo 2>/dev/null
    """
    import eventsieve as es

    schema = es.Schema(
        {"symbol": es.Text(), "price": es.Float(0, 1000), "volume": es.Int(0), "halted": es.Bool(), "note": es.Text()}
    )
    subscriptions = es.Subscriptions(schema)
    for name, text in _SUBSCRIPTIONS.items():
        subscriptions.add(name, text)
        say(f"{name:>13}: {text}")

    index = es.build(subscriptions, matcher="simple")
    say(f"\nevery tick, and the subscriptions it satisfies ({index!r}):")
    for event, ids in zip(_EVENTS, index.match_batch(list(_EVENTS)), strict=True):
        emit({"event": event, "subscriptions": ids})

    index.replace("penny-stocks", "price < 1 AND volume > 500")
    say("\nafter penny-stocks asks for less volume, the third tick:")
    emit({"event": _EVENTS[2], "subscriptions": index.match(_EVENTS[2])})

    say("\nwhy range-trader does not see the last tick, the nearest miss first:")
    say(str(index.explain("range-trader", _EVENTS[3])))
