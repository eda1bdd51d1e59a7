"""Equal subscriptions share one matcher slot, and nobody can tell: any history, over every matcher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import eventsieve as es
from tests.conformance.conftest import Setting
from tests.conformance.definition import Absent, Alternative, OneOf, Range
from tests.conformance.test_any_order import AnyOrder, ids
from tests.conformance.test_arrays import Workload, pairs, schema

FEW: list[list[Alternative]] = [
    [{"x": Range(0.25, 0.75)}],
    [{"x": Range(0.25, 0.75), "n": Range(0, 5)}],
    [{"x": Range(0.25, 0.75)}, {"n": Range(1, 2)}],  # two clauses that others have alone
    [{"n": Range(1, 2)}],
    [{"n": Range(1, 2), "x": Absent()}],  # the same interval, and a residual check
    [{"t": OneOf(("A", "B"))}],
    [{"x": Absent()}],
    [{}],
]
"""Few filters, so that most subscriptions are repetitions."""

filters = st.sampled_from(FEW)


class Shared(Setting):
    def build(self, subscriptions: es.Subscriptions) -> es.Index:
        return es.build(subscriptions, matcher=self.name, share=True)


class WithRepetitions(AnyOrder):
    @initialize(first=st.dictionaries(ids, filters, max_size=10))
    def build(self, first: dict[int | str, list[Alternative]]) -> None:
        super().build(first)

    @rule(id=ids, given=filters)
    def add(self, id: int | str, given: list[Alternative]) -> None:
        super().add(id, given)

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), given=filters)
    def replace(self, data: st.DataObject, given: list[Alternative]) -> None:
        super().replace(data, given)


@pytest.mark.parametrize("matcher", es.matchers())
def test_any_order_with_repetitions(matcher: str) -> None:
    """Whatever the order, an index of shared slots answers as the definition does."""

    class Machine(WithRepetitions):
        setting = Shared(matcher, ())

    fewer = settings(settings(), max_examples=max(3, settings().max_examples // 30), stateful_step_count=15)
    run_state_machine_as_test(Machine, settings=fewer)  # type: ignore[no-untyped-call]  # Hypothesis has no type for it


class Repeated:
    """Subscriptions drawn from a few, some often, some once."""

    def __init__(self, n: int, n_distinct: int, seed: int) -> None:
        self.few = Workload(n_distinct, 40, seed)
        self.original = (np.random.default_rng(seed).random(n) ** 3 * n_distinct).astype(np.int64)
        self.truth = self.few.truth()

    def part(self, ids: np.ndarray) -> es.Subscriptions:
        few, picked = self.few, self.original[ids]
        length = np.diff(few.start)[picked]
        start = np.concatenate([[0], np.cumsum(length)])
        rows = np.repeat(few.start[picked] - start[:-1], length) + np.arange(start[-1])
        return es.Subscriptions.from_arrays(
            schema(), start, few.attribute[rows], few.low[rows], few.high[rows], ids=ids
        )

    def expected(self, ids: np.ndarray) -> set[tuple[int, int]]:
        owners: dict[int, list[int]] = {}
        for id in ids.tolist():
            owners.setdefault(int(self.original[id]), []).append(id)
        return {(e, id) for e, s in self.truth for id in owners.get(s, [])}


@pytest.mark.parametrize("matcher", es.matchers())
def test_changes_in_bulk_with_repetitions(matcher: str, tmp_path: Path) -> None:
    """Members come and go, classes empty and come back, slots are reused, and a snapshot keeps it all."""
    workload = Repeated(3000, 90, seed=5)
    events = workload.few.events()
    rng = np.random.default_rng(6)
    held = np.arange(1500)
    index = es.build(workload.part(held), matcher=matcher, share=True)
    assert index.describe()["indexed_clauses"] <= 90
    for step in range(6):
        gone = held[workload.original[held] % 6 == step] if step % 2 else rng.permutation(held)[: held.size // 2]
        index.remove_many(gone.tolist())
        held = np.setdiff1d(held, gone)
        coming = np.setdiff1d(rng.permutation(3000)[:700], held)
        index.extend(workload.part(coming))
        held = np.union1d(held, coming)
        if step == 3:
            index.save(tmp_path / "snapshot")
            index = es.load(tmp_path / "snapshot")
        assert pairs(index.match_batch(events)) == workload.expected(held)
    assert index.describe()["indexed_clauses"] == np.unique(workload.original[held]).size
    index.remove_many(held.tolist())
    assert index.describe()["indexed_clauses"] == 0
    assert index.match_batch(events).slots.size == 0


def test_sharing_is_chosen_by_itself_where_it_pays() -> None:
    """Many repetitions are shared without being asked for, few are not, and `share` decides either way."""
    many, few = Repeated(3000, 90, seed=1).part(np.arange(3000)), Workload(3000, 1, seed=1).subscriptions()
    assert es.build(many, matcher="simple").describe()["indexed_clauses"] <= 90
    assert es.build(many, matcher="simple", share=False).describe()["indexed_clauses"] == 3000
    assert es.build(few, matcher="simple").sharing is None
    assert es.build(few, matcher="simple", share=True).sharing is not None


def test_shared_predicates_are_stored_once() -> None:
    subs = Repeated(3000, 90, seed=1).part(np.arange(3000))
    shared, plain = (es.build(subs, matcher="simple", share=share).describe() for share in (True, False))
    assert shared["predicates"] == plain["predicates"]
    assert shared["table_bytes"] < plain["table_bytes"] / 2
    assert subs.nbytes() == plain["table_bytes"], "the collection it was built from stays as it was"


def test_elastic_matching_names_every_member() -> None:
    """Within a bound on false positives no member loses a match, and a skip plan names all it touches."""
    workload = Repeated(3000, 90, seed=2)
    index = es.build(workload.part(np.arange(3000)), matcher="ada-rein", share=True)
    events = workload.few.events()
    found = pairs(index.match_batch(events, false_positive=0.2))
    assert workload.expected(np.arange(3000)) <= found
    touched = set(index.skip_plan(0.2).touched.tolist())
    classes = {workload.original[id] for id in touched}
    assert touched == {id for id in range(3000) if workload.original[id] in classes}
    assert pairs(index.match_batch(events, false_positive=0.2, verify=True)) == workload.expected(np.arange(3000))


def test_explanations_are_of_each_subscription_itself() -> None:
    subs = es.Subscriptions(es.Schema({"x": es.Float(0, 1)}))
    subs.add("alice", "x > 0.5")
    subs.add("bob", "NOT x <= 0.5")
    index = es.build(subs, share=True)
    assert index.match({"x": 0.75}) == ["alice", "bob"]
    assert [report.predicate for report in index.explain("bob", {"x": 0.25}).failed] == ["NOT x <= 0.5"]
    index.remove("alice")
    assert index.match({"x": 0.75}) == ["bob"]
