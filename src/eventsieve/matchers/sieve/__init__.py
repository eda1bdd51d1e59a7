"""Sieve: our own matcher. See `matcher.py`."""

from __future__ import annotations

from eventsieve.matchers.sieve.matcher import Sieve

__all__ = ["Sieve"]
