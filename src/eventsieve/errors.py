"""The errors eventsieve raises: one base, and one child per kind of thing that can be wrong.

A message says what was asked, what is the case, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class EventsieveError(Exception):
    """Base of everything this package raises on purpose."""


class SchemaError(EventsieveError):
    """An attribute, its type or its domain is not what was expected."""


class DataError(EventsieveError):
    """A value, an event, a subscription row or an id is not acceptable."""


class FilterError(EventsieveError):
    """A filter text cannot be parsed, is not supported, or can never match.

    `position` is the zero-based offset in the text the message points at, where there is one.
    """

    def __init__(self, message: str, text: str | None = None, position: int | None = None) -> None:
        self.reason = message
        self.text = text
        self.position = position
        super().__init__(_with_pointer(message, text, position))


class MatcherError(EventsieveError):
    """No such matcher, a parameter it does not take, or something it cannot do."""


class SnapshotError(EventsieveError):
    """A snapshot file is missing, foreign, damaged or from another format version."""


class CatalogError(EventsieveError):
    """A catalog is missing, foreign, damaged or from a newer format, or a change does not fit its state."""


class SparkError(EventsieveError):
    """Spark, or the Java it runs on, is missing, does not suit or does not start."""


class BrokerError(EventsieveError):
    """A broker cannot start, take or deliver what it was asked to, or has been stopped."""


class QueueFullError(BrokerError):
    """A broker has no room for a publication and the time to wait for some is over. Nothing was taken."""


class GivenUpError(BrokerError):
    """A sink will not take what it was given, however often it is asked."""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'price'?`` for a near miss, and the known names otherwise.

    >>> suggestion("prise", ["price", "volume"])
    "; did you mean 'price'?"
    """
    names = list(known)
    close = get_close_matches(wrong, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; the names are {shown}" if names else "; there are none"


def _with_pointer(message: str, text: str | None, position: int | None) -> str:
    if text is None or position is None:
        return message
    # A long filter is shown around the place, so that the caret stays on one terminal line.
    first = max(0, position - 50)
    shown = text[first : position + 50].replace("\n", " ")
    return f"{message}\n  {shown}\n  {' ' * (position - first)}^"
