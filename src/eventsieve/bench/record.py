"""The record of one matcher in one run: everything needed to read the numbers later, raw times included."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    """One matcher on one workload. Times are None where the check failed: a wrong answer has no speed."""

    workload: str
    n: int
    matcher: str
    params: dict[str, Any]
    """The matcher's parameters in force."""
    threads: int
    batch: int
    events: int
    seed: int
    build_s: float
    index_bytes: int
    checked: bool
    """Every event of the check sample gave the answer of brute force (or more, for a matcher told to approximate)."""
    commit: str | None
    cpu: str
    versions: dict[str, str]
    workload_params: dict[str, Any]
    width: str
    """The width in force, with its tuned value where it was tuned."""
    started: str
    """When the run began, in UTC."""
    repeat: int = 1
    mean_ms: float | None = None
    """`match_batch` of one event, ids delivered: the mean over the events, each timed once."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    batch_ms_per_event: float | None = None
    """One `match_batch` of `batch` events, ids delivered, divided by their number."""
    reference_ms: float | None = None
    """The reference scan's mean over the same events, timed in between."""
    times_reference: float | None = None
    """mean_ms / reference_ms."""
    batch_times_reference: float | None = None
    """batch_ms_per_event / reference_ms."""
    processor_ms: float | None = None
    """Like mean_ms, but the time the processor spent on it: the better number on a machine with other load."""
    reference_processor_ms: float | None = None
    """The same of the reference scan."""
    matches_per_event: float | None = None
    false_positive_share: float | None = None
    """Share of the reported matches of the check sample that are false; None for an exact matcher."""
    insert_us: float | None = None
    """`extend` by 1,000 subscriptions in place, per subscription."""
    delete_us: float | None = None
    """`remove_many` of the same, per subscription."""
    problem: str | None = None
    """What the check found, where it found something."""
    raw: dict[str, list[float]] = field(default_factory=dict)
    """Every time as it was taken, repeat after repeat."""

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return asdict(self)


def write_records(records: Sequence[Record], path: str | Path) -> None:
    """Write records to a file: a JSON array, a record per line; JSON lines if the name ends in .jsonl."""
    lines = [json.dumps(record.as_dict(), ensure_ascii=False) for record in records]
    text = "\n".join(lines) if str(path).endswith(".jsonl") else "[\n" + ",\n".join(lines) + "\n]"
    Path(path).write_text(text + "\n", encoding="utf-8")
