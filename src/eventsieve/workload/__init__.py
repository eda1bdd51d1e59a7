"""Workloads: subscriptions and events drawn by seed, with the parameters of the five papers, as arrays."""

from eventsieve.workload.rows import event_rows, filter_texts
from eventsieve.workload.spec import SubscriptionArrays, Workload
from eventsieve.workload.standard import standard, workload_names
from eventsieve.workload.ticks import Ticks
from eventsieve.workload.tuning import measured_match_rate

__all__ = [
    "SubscriptionArrays",
    "Ticks",
    "Workload",
    "event_rows",
    "filter_texts",
    "measured_match_rate",
    "standard",
    "workload_names",
]
