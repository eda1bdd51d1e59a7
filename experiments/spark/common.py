"""What the Spark experiments share: facts about the machine, a result file, a session on two cores."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark

from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.spark import session

RESULTS = Path(__file__).parent / "results"
SCRATCH = Path(tempfile.gettempdir()) / "eventsieve-experiments"
"""Indexes that the experiments build; safe to delete."""


@dataclass
class Clock:
    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Time a block."""
    clock, began = Clock(), time.perf_counter()
    try:
        yield clock
    finally:
        clock.seconds = time.perf_counter() - began


def two_cores() -> Any:
    """Return an embedded session with two tasks at a time and room for a million subscriptions in the joins."""
    return session(**{"spark.master": "local[2,4]", "spark.driver.memory": "6g", "spark.driver.maxResultSize": "4g"})


def record(name: str, **facts: Any) -> None:
    """Write a result with the machine it was measured on, and print it."""
    result = {
        "experiment": name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "commit": commit(),
            **versions(),
            "pyspark": pyspark.__version__,
        },
        **facts,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(facts, indent=2))
