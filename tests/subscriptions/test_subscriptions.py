"""The collection: by text, by arrays, in bulk; changes that fail change nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventsieve as es

SCHEMA = es.Schema({"x": es.Float(0, 1), "n": es.Int(), "t": es.Text()})


def collection(**texts: str) -> es.Subscriptions:
    subs = es.Subscriptions(SCHEMA)
    for id, text in texts.items():
        subs.add(id, text)
    return subs


def test_texts_are_kept_as_they_were_written() -> None:
    """Spelling and all; arrays print in canonical form."""
    assert collection(a="x  >  0.5 and t = 'A'").text("a") == "x  >  0.5 and t = 'A'"
    subs = es.Subscriptions.from_arrays(
        SCHEMA, [0, 2, 3], [1, 0, 2], [3, -np.inf, 0], [5, 0.5, 0], texts={"t": ["it's"]}
    )
    assert subs.text(0) == "x <= 0.5 AND n BETWEEN 3 AND 5"
    assert subs.text(1) == "t = 'it''s'"


def test_what_fails_changes_nothing() -> None:
    """Taken ids, unknown ids, bad ids and bad filters leave the collection as it was."""
    subs = collection(a="x > 0.5", b="n = 1")
    for act, expected in [
        (lambda: subs.add("a", "x > 0.1"), "the id 'a' is taken"),
        (lambda: subs.add("c", "x >"), "x >"),
        (lambda: subs.add("", "x > 0.1"), "an id is an integer or a non-empty text"),
        (lambda: subs.add(True, "x > 0.1"), "an id is an integer"),
        (lambda: subs.add(2**64, "x > 0.1"), "fits into 64 bits"),
        (lambda: subs.add("c", None), "a filter is a text, not None"),  # type: ignore[arg-type]  # None is meant
        (lambda: subs.replace("z", "x > 0.1"), "no subscription has the id 'z'"),
        (lambda: subs.replace("a", "y > 0.1"), "no attribute"),
        (lambda: subs.remove("z"), "no subscription has the id 'z'"),
        (lambda: subs.remove_many(["a", "a"]), "named twice"),
        (lambda: subs.remove_many(["a", "z"]), "'z'"),
    ]:
        with pytest.raises(es.EventsieveError, match=expected):
            act()
    assert subs.ids.tolist() == ["a", "b"]
    assert [subs.text(id) for id in ("a", "b")] == ["x > 0.5", "n = 1"]


def test_slots_are_used_again_and_ids_find_their_way() -> None:
    """Integer ids, their removal and others in their place: no id comes back from the dead."""
    subs = es.Subscriptions.from_arrays(SCHEMA, np.arange(11), np.zeros(10), np.zeros(10), np.linspace(0.1, 1, 10))
    subs.remove(6)
    subs.remove(5)
    subs.add(6, "x > 0.9")
    subs.add("bob", "n = 1")
    assert subs.n_slots == 10
    assert sorted(map(str, subs.ids.tolist())) == sorted(map(str, [0, 1, 2, 3, 4, 7, 8, 9, 6, "bob"]))
    assert subs.text(6) == "x > 0.9"
    assert 5 not in subs
    subs.remove(6)
    assert 6 not in subs
    assert len(subs) == 9


def test_a_fork_is_independent() -> None:
    """Changes on either side do not show on the other."""
    subs = collection(a="x > 0.5", b="n = 1 OR t = 'A'")
    fork = subs.fork()
    subs.remove("a")
    subs.add("c", "t = 'B'")
    fork.add("d", "t = 'C' AND x < 0.1")
    assert sorted(subs.ids.tolist()) == ["b", "c"]
    assert sorted(fork.ids.tolist()) == ["a", "b", "d"]
    assert fork.text("a") == "x > 0.5"
    assert subs.text("c") == "t = 'B'"


def test_packing_keeps_every_clause() -> None:
    """After many removals the table is squeezed, and each remaining clause is what it was."""
    n = 50_000
    subs = es.Subscriptions.from_arrays(
        SCHEMA, np.arange(0, 2 * n + 1, 2), np.tile([0, 1], n), np.zeros(2 * n), np.repeat(np.arange(n), 2) + 1.0
    )
    subs.remove_many(range(40_000))
    assert subs.pack()
    assert subs.table().attribute.shape[0] == 20_000
    assert subs.text(45_000) == "x BETWEEN 0.0 AND 45001.0 AND n BETWEEN 0 AND 45001"
    assert not subs.pack()


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        (([0, 1], [0], [0.5], [0.4]), "subscription number 0, attribute 'x': the interval is empty"),
        (([0, 1], [0], [np.nan], [0.4]), "NaN is not a bound"),
        (([0, 1], [0], [np.inf], [np.inf]), "the interval is empty"),
        (([0, 2], [0, 0], [0.1, 0.2], [0.4, 0.4]), "subscription number 0: attribute 'x' is constrained twice"),
        (([0, 1], [3], [0.1], [0.4]), "numbered from 0 to 2"),
        (([0, 2], [0], [0.1], [0.4]), "start must rise"),
        (([0, 1], [2], [0], [0]), "is text; give its values"),
        (([0, 1], [2], [0], [1]), "same position in texts"),
    ],
)
def test_arrays_are_checked(arrays: Any, expected: str) -> None:
    """What is wrong, and where."""
    with pytest.raises(es.EventsieveError, match=expected):
        es.Subscriptions.from_arrays(SCHEMA, *arrays)


def test_ids_of_arrays_are_checked() -> None:
    """As many as subscriptions, and all different."""
    arrays = ([0, 1, 2], [0, 0], [0.1, 0.1], [0.4, 0.4])
    with pytest.raises(es.DataError, match="2 subscriptions but 1 ids"):
        es.Subscriptions.from_arrays(SCHEMA, *arrays, ids=[1])
    with pytest.raises(es.DataError, match="'a' is given twice"):
        es.Subscriptions.from_arrays(SCHEMA, *arrays, ids=["a", "a"])
    with pytest.raises(es.DataError, match="7 is given twice"):
        es.Subscriptions.from_arrays(SCHEMA, *arrays, ids=np.array([7, 7]))
    assert es.Subscriptions.from_arrays(SCHEMA, *arrays, ids=["a", 5]).ids.tolist() == ["a", 5]


LINES = """{"id": "a", "filter": "x > 0.5"}
{"id": "b", "filter": "x > 0.5 AND x < 0.4"}
not json
{"id": "a", "filter": "n = 2"}
{"id": "c", "filter": "y = 2"}
{"filter": "n = 2"}
{"id": "d", "filtr": "n = 2"}
{"id": 5, "filter": "t LIKE 'A%'"}
"""


def test_json_lines_keep_the_good_and_report_the_bad(tmp_path: Path) -> None:
    """By line, with the reason; strict refuses all and changes nothing."""
    path = tmp_path / "subs.jsonl"
    path.write_text(LINES)
    with pytest.warns(es.LoadWarning):
        subs = es.Subscriptions.from_jsonl(SCHEMA, path)
    assert subs.ids.tolist() == ["a", 5]
    assert [problem.line for problem in subs.report.problems] == [2, 3, 4, 5, 6, 7]
    assert "already on line 1" in subs.report.problems[2].reason
    assert "did you mean 'filter'" in subs.report.problems[5].reason
    kept = collection(z="x = 1")
    with pytest.raises(es.DataError, match="nothing was loaded"):
        kept.add_jsonl(io.StringIO(LINES), strict=True)
    assert kept.ids.tolist() == ["z"]


def test_arrow_and_parquet(tmp_path: Path) -> None:
    """Columns id and filter; anything else is named."""
    table = pa.table({"id": [3, 1, 2], "filter": ["x > 0.5", None, "n = 1"]})
    with pytest.warns(es.LoadWarning, match=r"line 2 \(1\): a filter is a text"):
        subs = es.Subscriptions.from_arrow(SCHEMA, table)
    assert subs.ids.tolist() == [3, 2]
    pq.write_table(table.slice(0, 1), tmp_path / "subs.parquet")
    assert es.Subscriptions.from_parquet(SCHEMA, tmp_path / "subs.parquet").ids.tolist() == [3]
    with pytest.raises(es.SchemaError, match="no column 'filter'"):
        es.Subscriptions.from_arrow(SCHEMA, table.select(["id"]))
    with pytest.raises(es.DataError, match="cannot read subscriptions"):
        es.Subscriptions.from_parquet(SCHEMA, tmp_path / "nowhere.parquet")


def test_extending_translates_codes() -> None:
    """Two collections gave the same texts different codes; together they still mean the same."""
    one = collection(a="t = 'A'", b="t = 'B'")
    two = es.Subscriptions(SCHEMA)
    two.add("c", "t IN ('B', 'C') OR n = 3")
    two.add("d", "t != 'B'")
    one.extend(two)
    index = es.build(one, matcher="simple")
    assert index.match({"t": "B"}) == ["b", "c"]
    assert index.match({"t": "A"}) == ["a", "d"]
    assert index.match({"n": 3}) == ["c"]
    with pytest.raises(es.DataError, match="'c' is taken"):
        one.extend(two)


@pytest.mark.parametrize(
    "text", ["t = 'C'", "t != 'B'", "t = 'C' AND n = 9007199254740993", "n < 3 AND t = 'A'", "n > 5"]
)
def test_extending_means_the_same_as_adding(text: str) -> None:
    """Whichever way a subscription comes in, it answers alike, whatever codes it had before."""
    first = ["t = 'A'", "n = 9007199254740995", "t = 'B'"]
    added, extended, other = es.Subscriptions(SCHEMA), es.Subscriptions(SCHEMA), es.Subscriptions(SCHEMA)
    for number, each in enumerate(first):
        added.add(number, each)
        extended.add(number, each)
    added.add("new", text)
    other.add("unused", "t = 'Z'")
    other.add("new", text)
    other.remove("unused")
    extended.extend(other)
    events = [{"t": t, "n": n} for t in ("A", "B", "C", "Q") for n in (1, 7, 9007199254740993, 9007199254740997)]
    assert list(es.build(added).match_batch(events)) == list(es.build(extended).match_batch(events))


def test_a_selection_keeps_ids_texts_and_meaning() -> None:
    """Plain clauses go in columns, others by their text; both answer as before."""
    subs = collection(a="x > 0.5", b="t = 'B'", c="t != 'A' OR n = 3", d="x < 0.25 AND t = 'C'")
    for ids in (["a", "d"], ["b", "c", "d"]):
        picked = subs.select(subs.slots(ids))
        assert picked.ids.tolist() == ids
        assert [picked.text(id) for id in ids] == [subs.text(id) for id in ids]
        events = [{"x": 0.75}, {"t": "B"}, {"t": "A", "n": 3}, {"x": 0.1, "t": "C"}]
        whole = es.build(subs).match_batch(events)
        assert list(es.build(picked).match_batch(events)) == [[id for id in found if id in ids] for found in whole]
