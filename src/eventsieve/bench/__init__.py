"""The bench: build, check against brute force, time beside a frozen reference, record."""

from eventsieve.bench.record import Record, write_records
from eventsieve.bench.runner import Entry, Plan, run

__all__ = ["Entry", "Plan", "Record", "run", "write_records"]
