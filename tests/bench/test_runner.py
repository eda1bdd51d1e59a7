"""The runner checks before it times, and records all that a reader needs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventsieve.bench import Entry, Plan, run, write_records
from eventsieve.bench.check import Sample
from eventsieve.index.index import Index, build
from eventsieve.matchers.base import Matcher
from eventsieve.workload import standard

PROMISED = {
    "workload", "n", "matcher", "params", "threads", "batch", "mean_ms", "p50_ms", "p95_ms", "batch_ms_per_event",
    "reference_ms", "build_s", "index_bytes", "insert_us", "delete_us", "matches_per_event", "checked", "commit", "cpu",
    "versions", "seed",
}  # fmt: skip


def plan(**changes: Any) -> Plan:
    settings: dict[str, Any] = {"events": 30, "batch": 8, "checked_events": 4, "seed": 2, **changes}
    return Plan(standard("full", n=400), (Entry("simple"),), **settings)


def test_a_record_has_every_promised_field(tmp_path: Path) -> None:
    seen: list[float] = []
    records = run(plan(repeat=2), lambda doing, share: seen.append(share))
    write_records(records, tmp_path / "out.json")
    (record,) = json.loads((tmp_path / "out.json").read_text())
    assert record.keys() >= PROMISED
    assert {name for name in PROMISED if record[name] is None} <= {"commit"}
    assert (record["workload"], record["n"], record["matcher"], record["seed"]) == ("full", 400, "simple", 2)
    assert record["checked"] is True
    assert len(record["raw"]["event_ms"]) == 2 * 30
    assert len(record["raw"]["reference_ms"]) == 2 * 30
    assert len(record["raw"]["batch_ms"]) == 2
    assert record["times_reference"] == pytest.approx(record["mean_ms"] / record["reference_ms"])
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_with_one_repeat_the_mean_is_over_the_events_each_timed_once() -> None:
    (record,) = run(plan())
    assert record.mean_ms == pytest.approx(np.mean(record.raw["event_ms"]), rel=1e-3)
    assert record.batch_ms_per_event == pytest.approx(record.raw["batch_ms"][0] / 8, rel=1e-3)


def test_matches_per_event_is_counted_over_the_timed_events() -> None:
    (record,) = run(plan())
    workload = standard("full", n=400)
    found = build(workload.subscriptions(2), matcher="simple").match_batch(workload.events(30, 2))
    assert record.matches_per_event == found.slots.size / 30


def test_json_lines_for_files_of_that_name(tmp_path: Path) -> None:
    records = run(plan())
    write_records(records * 2, tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["matcher"] for line in lines] == ["simple", "simple"]


def lose_one(event_start: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(event_start, event_start[-1] - 1), slots[:-1]


def invent_one(event_start: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    event_start[-1] += 1
    missing = np.setdiff1d(np.arange(400), slots).astype(np.int32)
    return event_start, np.append(slots, missing[:1])


def repeat_one(event_start: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    event_start[-1] += 1
    return event_start, np.append(slots, slots[-1:])


@pytest.mark.parametrize(
    ("lie", "complaint"), [(lose_one, "are lost"), (invent_one, "are false"), (repeat_one, "reported twice")]
)
def test_a_matcher_that_lies_is_found_out_and_not_timed(
    monkeypatch: pytest.MonkeyPatch, lie: Callable[..., object], complaint: str
) -> None:
    honest = Matcher._match_part
    monkeypatch.setattr(Matcher, "_match_part", lambda self, events: lie(*honest(self, events)))
    (record,) = run(plan())
    assert record.checked is False
    assert complaint in (record.problem or "")
    assert record.mean_ms is None
    assert record.raw == {}


def test_the_check_sees_matches_even_where_a_workload_has_none() -> None:
    """No event drawn for `htree` matches anything, so an index that finds nothing must still be found out."""
    workload = standard("htree", n=300)
    arrays = workload.subscription_arrays(1)
    sample = Sample(workload, arrays, 6, 1)
    assert [truth.size > 0 for truth in sample.truth] == [False, False, False, True, True, True]
    assert sample.problem(build(workload.subscriptions(1), matcher="simple"), threads=1) is None
    nothing: Index = build(standard("htree", n=300).subscriptions(9), matcher="simple")
    assert "lost" in (sample.problem(nothing, threads=1) or "")


def test_updates_leave_the_index_as_it_was() -> None:
    (record,) = run(plan())
    assert record.insert_us is not None
    assert record.insert_us > 0
    assert record.delete_us is not None
    assert record.delete_us > 0
