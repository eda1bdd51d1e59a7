"""`eventsieve explain`: the verdict agrees with `match`, and says by how much."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_one_event_as_text(run: Run) -> None:
    done = run("explain", "subs.jsonl", "--id", "alice", "--event", '{"price": 25}')
    (record,) = done.records
    assert done.code == 0
    assert (record["subscription"], record["event"], record["matches"]) == ("alice", 1, False)
    assert record["filter"] == "price BETWEEN 10 AND 20"
    assert record["predicates"][0]["distance"] == 5


def test_an_attribute_the_event_lacks_is_unknown_and_not_an_error(run: Run) -> None:
    (record,) = run("explain", "subs.jsonl", "--id", "7", "--event", '{"price": 25}').records
    assert record["matches"] is False
    assert {each["attribute"]: each["holds"] for each in record["predicates"]} == {"price": True, "symbol": None}


def test_verdicts_agree_with_match(run: Run) -> None:
    explained = run("explain", "subs.jsonl", "events.jsonl").records
    assert len(explained) == 6
    matched = {
        (record["event"], record["subscription"])
        for record in run("match", "subs.jsonl", "events.jsonl", "--pairs").records
    }
    assert {(each["event"], each["subscription"]) for each in explained if each["matches"]} == matched


def test_one_line_of_a_file_and_several_ids(run: Run) -> None:
    records = run("explain", "subs.jsonl", "events.jsonl", "--line", "3", "--id", "7", "--id", "alice").records
    assert [(each["event"], each["subscription"]) for each in records] == [(3, 7), (3, "alice")]


def test_for_people_it_is_text_on_standard_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventsieve.cli.explain.for_people", lambda json_asked: not json_asked)
    done = run("explain", "subs.jsonl", "--id", "alice", "--event", '{"price": 25}')
    assert done.stdout == ""
    assert "'alice' does not match event 1: price BETWEEN 10 AND 20" in done.stderr
    assert "off by 5" in done.stderr
    assert run("explain", "subs.jsonl", "--id", "alice", "--event", '{"price": 25}', "--json").records


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["subs.jsonl"], "--event"),
        (["subs.jsonl", "events.jsonl", "--event", "{}"], "one of the two"),
        (["subs.jsonl", "events.jsonl", "--id", "nobody"], "'nobody'"),
        (["subs.jsonl", "events.jsonl", "--line", "9"], "line 9"),
    ],
)
def test_wrong_usage(run: Run, arguments: list[str], said: str) -> None:
    done = run("explain", *arguments)
    assert (done.stdout, done.code) == ("", 2)
    assert said in done.stderr


def test_a_bad_event_is_reported(run: Run, folder: Path) -> None:
    done = run("explain", "subs.jsonl", "--event", "{price: 1}")
    assert (done.stdout, done.code) == ("", 1)
    assert "--event: line 1: malformed JSON" in done.stderr
