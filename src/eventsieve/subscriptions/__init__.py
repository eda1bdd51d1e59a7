"""The Subscriptions collection: where text, model and columns meet."""

from eventsieve.subscriptions.collection import Subscriptions

__all__ = ["Subscriptions"]
