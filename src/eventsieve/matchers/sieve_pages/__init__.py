"""Sieve-pages: rows of bits for events that match much. See `matcher.py`."""

from __future__ import annotations

from eventsieve.matchers.sieve_pages.matcher import SievePages

__all__ = ["SievePages"]
