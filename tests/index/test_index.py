"""The index around a matcher: what it owns, refuses, describes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import eventsieve as es

SCHEMA = es.Schema({"x": es.Float(0, 1), "n": es.Int(), "t": es.Text()})


def index_of(**texts: str) -> es.Index:
    subs = es.Subscriptions(SCHEMA)
    for id, text in texts.items():
        subs.add(id, text)
    return es.build(subs, matcher="simple")


def test_an_index_owns_its_subscriptions() -> None:
    """Changes of the collection do not reach an index that was built from it, nor the other way round."""
    subs = es.Subscriptions(SCHEMA)
    subs.add("a", "x > 0.5")
    index = es.build(subs)
    subs.remove("a")
    subs.add("b", "x > 0.1")
    assert index.match({"x": 0.75}) == ["a"]
    index.add("c", "n = 1")
    assert "c" not in subs


def test_a_change_that_fails_changes_nothing() -> None:
    """Bad filters, taken and unknown ids leave the index as it was."""
    index = index_of(a="x > 0.5", b="x > 0.1")
    for act in (
        lambda: index.add("a", "x > 0.2"),
        lambda: index.add("c", "nonsense >"),
        lambda: index.replace("a", "y = 1"),
        lambda: index.replace("z", "x > 0.1"),
        lambda: index.remove("z"),
        lambda: index.remove_many(["a", "z"]),
        lambda: index.match({"y": 1}),
        lambda: index.match({"x": "much"}),
    ):
        with pytest.raises(es.EventsieveError):
            act()
    assert index.match({"x": 0.75}) == ["a", "b"]
    assert len(index) == 2


def test_events_in_every_form_give_the_same_matches() -> None:
    """Dicts, a table, a record batch, Events."""
    index = index_of(a="x > 0.5", b="t = 'A' OR n = 2", c="TRUE")
    rows = [{"x": 0.75, "t": "A"}, {"n": 2}, {"x": 0.1, "t": "Z"}]
    expected = [["a", "b", "c"], ["b", "c"], ["c"]]
    table = pa.Table.from_pylist(rows, schema=pa.schema({"x": pa.float64(), "t": pa.string(), "n": pa.int64()}))
    for given in (rows, table, table.to_batches()[0], es.Events.from_dicts(SCHEMA, rows)):
        assert list(index.match_batch(given)) == expected
    with pytest.raises(es.SchemaError, match="another schema"):
        index.match_batch(es.Events.from_dicts(es.Schema({"x": es.Float()}), []))
    with pytest.raises(es.DataError, match="threads"):
        index.match_batch(rows, threads=0)


def test_matches_as_arrow() -> None:
    """Pairs with typed ids."""
    found = index_of(a="x > 0.5", b="x > 0.1").match_batch([{"x": 0.75}, {"x": 0.2}]).to_arrow()
    assert sorted(map(tuple, found.select(["event", "subscription_id"]).to_pandas().to_numpy().tolist())) == [
        (0, "a"),
        (0, "b"),
        (1, "b"),
    ]
    assert set(found["match_mode"].to_pylist()) == {"exact"}


def test_many_unbounded_clauses_and_many_events() -> None:
    """Candidates beyond the matcher's own are worked through in parts; the parts join without a seam."""
    subs = es.Subscriptions(SCHEMA)
    for number in range(60):
        subs.add(number, "x IS NULL" if number % 2 else "TRUE")
    index = es.build(subs)
    events = [{"x": 0.5} if e % 3 else {} for e in range(200)]
    from eventsieve.index import index as module

    before, module._CANDIDATES_AT_ONCE = module._CANDIDATES_AT_ONCE, 600
    try:
        found = index.match_batch(events)
    finally:
        module._CANDIDATES_AT_ONCE = before
    assert [len(found.of(e)) for e in range(200)] == [30 if e % 3 else 60 for e in range(200)]


def test_unknown_matchers_and_parameters_are_named() -> None:
    """With what there is instead."""
    subs = es.Subscriptions(SCHEMA)
    with pytest.raises(es.MatcherError, match="no matcher is named 'simpel'; did you mean 'simple'"):
        es.build(subs, matcher="simpel")
    with pytest.raises(es.MatcherError, match="takes no parameter 'buckets'"):
        es.build(subs, matcher="simple", buckets=5)


def test_description_counts_what_there_is() -> None:
    """Subscriptions, clauses, predicates and bytes."""
    facts = index_of(a="x > 0.5", b="t = 'A' OR n = 2").describe()
    assert (facts["subscriptions"], facts["clauses"], facts["predicates"]) == (2, 3, 3)
    assert facts["index_bytes"] == facts["matcher_bytes"] + facts["table_bytes"] > 0


def test_the_table_is_packed_under_a_live_matcher() -> None:
    """Most of a large index is removed: what is left still matches exactly."""
    n = 60_000
    x = np.linspace(0, 1, n)
    subs = es.Subscriptions.from_arrays(
        SCHEMA, np.arange(0, 2 * n + 1, 2), np.tile([0, 1], n), np.repeat(x, 2), np.full(2 * n, np.inf)
    )
    index = es.build(subs)
    index.remove_many(range(50_000))
    assert index.subscriptions.table().low.shape[0] == 20_000
    assert index.match_batch([{"x": float(x[50_010]), "n": 5}]).of(0) == list(range(50_000, 50_011))


def test_the_core_imports_without_spark() -> None:
    """Neither Spark nor Delta nor the command line is loaded with the library."""
    script = (
        "import sys, eventsieve; print([m for m in ('pyspark', 'deltalake', 'typer', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
