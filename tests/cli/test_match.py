"""`eventsieve match`: results on standard output, all else on standard error, exit codes for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventsieve.matchers.registry import matchers
from tests.cli.conftest import Run

MATCHED = [{"event": 1, "subscriptions": ["alice"]}, {"event": 3, "subscriptions": ["alice", 7]}]


@pytest.mark.parametrize("matcher", matchers())
def test_every_matcher_gives_the_ids_by_line(run: Run, matcher: str) -> None:
    done = run("match", "subs.jsonl", "events.jsonl", "--matcher", matcher)
    assert (done.records, done.code) == (MATCHED, 0)


@pytest.mark.parametrize("batch", ["1", "2", "3", "1000"])
def test_the_batch_size_changes_nothing(run: Run, batch: str) -> None:
    done = run("match", "subs.jsonl", "events.jsonl", "--schema", "schema.json", "--batch", batch, "--threads", "2")
    assert done.records == MATCHED


def test_pairs_and_all(run: Run) -> None:
    pairs = run("match", "subs.jsonl", "events.jsonl", "--pairs").records
    assert pairs == [
        {"event": 1, "subscription": "alice"},
        {"event": 3, "subscription": "alice"},
        {"event": 3, "subscription": 7},
    ]
    every = run("match", "subs.jsonl", "events.jsonl", "--all").records
    assert [record["event"] for record in every] == [1, 2, 3]
    assert every[1]["subscriptions"] == []


def test_inference_says_what_it_decided_and_a_schema_makes_it_silent(run: Run) -> None:
    assert "price: float (3 values)" in run("match", "subs.jsonl", "events.jsonl").stderr
    assert "inferred" not in run("match", "subs.jsonl", "events.jsonl", "--schema", "schema.json").stderr


def test_an_attribute_that_only_filters_name_is_absent_from_events_not_unknown(run: Run, folder: Path) -> None:
    (folder / "more.jsonl").write_text('{"id": "x", "filter": "volume > 5"}\n{"id": "y", "filter": "volume IS NULL"}\n')
    done = run("match", "more.jsonl", "events.jsonl")
    assert [record["subscriptions"] for record in done.records] == [["y"]] * 3
    assert "volume: float, in filters only" in done.stderr


def test_the_key_names_events_and_is_no_attribute(run: Run, folder: Path) -> None:
    (folder / "keyed.jsonl").write_text('{"order": "o-1", "price": 12}\n{"price": 13}\n{"order": 9, "price": 14}\n')
    done = run("match", "subs.jsonl", "keyed.jsonl", "--schema", "schema.json", "--key", "order")
    assert [record["event"] for record in done.records] == ["o-1", 9]
    assert "keyed.jsonl: line 2: no value for the key field 'order'" in done.stderr
    assert done.code == 1


def test_bad_rows_are_reported_by_line_counted_and_left_out(run: Run, folder: Path) -> None:
    with (folder / "subs.jsonl").open("a") as subs:
        subs.write('{"id": "bad", "filter": "prise > 3"}\n')
    (folder / "mixed.jsonl").write_text('{"price": 12}\n\nnope\n{"price": "x"}\n{"prize": 1}\n{"price": 11}\n')
    done = run("match", "subs.jsonl", "mixed.jsonl", "--schema", "schema.json", "--batch", "2")
    assert [record["event"] for record in done.records] == [1, 6]
    assert done.code == 1
    for said in (
        "subs.jsonl: line 3 ('bad'): no attribute is named 'prise'; did you mean 'price'?",
        "mixed.jsonl: line 3: malformed JSON",
        "mixed.jsonl: line 4: attribute 'price'",
        "mixed.jsonl: line 5: no attribute is named 'prize'",
        "left out: 1 subscriptions, 3 events",
    ):
        assert said in done.stderr


def test_strict_matches_nothing_when_any_row_is_bad(run: Run, folder: Path) -> None:
    (folder / "mixed.jsonl").write_text('{"price": 12}\n{"price": "x"}\n')
    done = run("match", "subs.jsonl", "mixed.jsonl", "--schema", "schema.json", "--batch", "1", "--strict")
    assert (done.stdout, done.code) == ("", 1)
    assert run("match", "subs.jsonl", "events.jsonl", "--strict").records == MATCHED


def test_unknown_attributes_can_be_passed_over(run: Run, folder: Path) -> None:
    (folder / "wide.jsonl").write_text('{"price": 12, "colour": "red"}\n')
    assert run("match", "subs.jsonl", "wide.jsonl", "--schema", "schema.json").code == 1
    done = run("match", "subs.jsonl", "wide.jsonl", "--schema", "schema.json", "--ignore-unknown")
    assert (done.records, done.code) == ([{"event": 1, "subscriptions": ["alice"]}], 0)


def test_standard_input_for_either_side_but_not_for_both(run: Run, folder: Path) -> None:
    events = (folder / "events.jsonl").read_text()
    assert run("match", "subs.jsonl", "-", stdin=events).records == MATCHED
    assert run("match", "-", "events.jsonl", stdin=(folder / "subs.jsonl").read_text()).records == MATCHED
    refused = run("match", "-", "-", stdin=events)
    assert (refused.stdout, refused.code) == ("", 2)


def test_no_events_is_no_error(run: Run) -> None:
    done = run("match", "subs.jsonl", "-", stdin="")
    assert (done.stdout, done.code) == ("", 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope.jsonl", "events.jsonl"], "cannot read nope.jsonl"),
        (["subs.jsonl", "nope.jsonl"], "cannot read nope.jsonl"),
        (["subs.jsonl", "events.jsonl", "--schema", "subs.jsonl"], "subs.jsonl is not JSON"),
        (["subs.jsonl", "events.jsonl", "--matcher", "simpel"], "did you mean 'simple'?"),
        (["subs.jsonl", "events.jsonl", "--set", "buckets=3"], "takes no parameter 'buckets'"),
        (["subs.jsonl", "events.jsonl", "--set", "buckets"], "key=value"),
    ],
)
def test_unreadable_input_and_wrong_usage_exit_with_2(run: Run, arguments: list[str], said: str) -> None:
    done = run("match", *arguments)
    assert (done.stdout, done.code) == ("", 2)
    assert said in done.stderr


def test_bytes_that_are_not_text_are_an_error_of_ours(run: Run, folder: Path) -> None:
    (folder / "binary.jsonl").write_bytes(b'{"price": 1}\n\xff\xfe\n')
    for arguments in (["subs.jsonl", "binary.jsonl"], ["binary.jsonl", "events.jsonl"]):
        done = run("match", *arguments, "--schema", "schema.json")
        assert done.code == 2
        assert "binary.jsonl: not UTF-8 text" in done.stderr
