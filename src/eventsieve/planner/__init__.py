"""The automatic choice of a matcher and its parameters, within a memory budget, with its reasons."""

from eventsieve.planner.choose import choose
from eventsieve.planner.plan import Plan, Wish

__all__ = ["Plan", "Wish", "choose"]
