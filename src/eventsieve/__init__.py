"""eventsieve: match a stream of events against millions of standing subscriptions.

>>> import eventsieve as es
>>> schema = es.Schema({"price": es.Float(0, 1000), "symbol": es.Text()})
>>> subs = es.Subscriptions(schema)
>>> subs.add("alice", "price BETWEEN 10 AND 20 AND symbol IN ('A', 'B')")
>>> index = es.build(subs)
>>> index.match({"price": 12.5, "symbol": "A"})
['alice']
"""

from eventsieve.errors import DataError, EventsieveError, FilterError, MatcherError, SchemaError, SnapshotError
from eventsieve.index.index import Index, build
from eventsieve.index.matches import Matches
from eventsieve.index.storage import load
from eventsieve.matchers.registry import matchers
from eventsieve.model.events import Events
from eventsieve.model.report import LoadReport, LoadWarning, Problem
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Float, Int, Text, Time
from eventsieve.subscriptions import Subscriptions

__version__ = "0.1.0"

__all__ = [
    "Bool",
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
    "Schema",
    "SchemaError",
    "SnapshotError",
    "Subscriptions",
    "Text",
    "Time",
    "build",
    "load",
    "matchers",
]
