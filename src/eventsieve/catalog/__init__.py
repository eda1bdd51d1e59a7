"""Where subscriptions live: durable, versioned, safe under many writers at once; no Java needed."""

from eventsieve.catalog.catalog import Catalog, HistoryEntry
from eventsieve.catalog.edit import Edit

__all__ = ["Catalog", "Edit", "HistoryEntry"]
