"""The filter language: a subset of SQL's WHERE, read to conditions, printed back, and compiled to clauses."""

from eventsieve.language.compile import compile_filter
from eventsieve.language.parse import parse
from eventsieve.language.printer import to_text

__all__ = ["compile_filter", "parse", "to_text"]
