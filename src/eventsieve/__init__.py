"""eventsieve: match a stream of events against millions of standing subscriptions.

>>> import eventsieve as es
>>> schema = es.Schema({"price": es.Float(0, 1000), "symbol": es.Text()})
>>> subs = es.Subscriptions(schema)
>>> subs.add("alice", "price BETWEEN 10 AND 20 AND symbol IN ('A', 'B')")
>>> index = es.build(subs)
>>> index.match({"price": 12.5, "symbol": "A"})
['alice']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazily: `eventsieve.matchers` is a folder too, and would take the name when one of its files is imported.
from eventsieve.matchers.registry import matchers

if TYPE_CHECKING:
    from eventsieve.errors import (
        BrokerError,
        CatalogError,
        DataError,
        EventsieveError,
        FilterError,
        MatcherError,
        QueueFullError,
        SchemaError,
        SnapshotError,
        SparkError,
    )
    from eventsieve.index.index import Index, build
    from eventsieve.index.matches import Matches
    from eventsieve.index.storage import load
    from eventsieve.model.events import Events
    from eventsieve.model.report import LoadReport, LoadWarning, Problem
    from eventsieve.model.schema import Schema
    from eventsieve.model.types import Bool, Float, Int, Text, Time
    from eventsieve.subscriptions import Subscriptions

__version__ = "0.1.0"

__all__ = [
    "Bool",
    "BrokerError",
    "CatalogError",
    "DataError",
    "Events",
    "EventsieveError",
    "FilterError",
    "Float",
    "Index",
    "Int",
    "LoadReport",
    "LoadWarning",
    "MatcherError",
    "Matches",
    "Problem",
    "QueueFullError",
    "Schema",
    "SchemaError",
    "SnapshotError",
    "SparkError",
    "Subscriptions",
    "Text",
    "Time",
    "build",
    "load",
    "matchers",
]

_HOME = {
    "eventsieve.errors": [name for name in __all__ if name.endswith("Error")],
    "eventsieve.index.index": ["Index", "build"],
    "eventsieve.index.matches": ["Matches"],
    "eventsieve.index.storage": ["load"],
    "eventsieve.model.events": ["Events"],
    "eventsieve.model.report": ["LoadReport", "LoadWarning", "Problem"],
    "eventsieve.model.schema": ["Schema"],
    "eventsieve.model.types": ["Bool", "Float", "Int", "Text", "Time"],
    "eventsieve.subscriptions": ["Subscriptions"],
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: `eventsieve --help` needs no compiler."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eventsieve' has no attribute {name!r}")
    found = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
