"""Add, replace, remove, match, save and load in any order, against the definition."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import eventsieve as es
from tests.conformance.conftest import Setting
from tests.conformance.definition import Absent, Alternative, OneOf, Range, filter_text, matches

SCHEMA = es.Schema({"x": es.Float(0, 1), "y": es.Float(), "n": es.Int(0, 10), "t": es.Text(), "b": es.Bool()})

floats = st.sampled_from([-1.0, -0.0, 0.0, 5e-324, 0.25, 0.5, 0.75, 1.0, 2.0, 1e300])
whole = st.sampled_from([-3, 0, 1, 2, 5, 9, 10, 11, 2**53])
texts = st.sampled_from(["A", "B", "C", "it's", ""])


def ranges(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Range]:
    """Intervals that some value satisfies: open ends only where there is room between them."""

    def ordered(low: Any, high: Any, low_open: bool, high_open: bool) -> Range:
        if low is not None and high is not None and low > high:
            low, high = high, low
        room = low is None or high is None or high - low > 1
        return Range(low, high, low_open and room, high_open and room)

    maybe = st.none() | values
    return st.builds(ordered, maybe, maybe, st.booleans(), st.booleans())


tests: dict[str, st.SearchStrategy[Range | OneOf | Absent]] = {
    "x": ranges(floats) | st.just(Absent()),
    "y": ranges(floats),
    "n": ranges(whole)
    | st.builds(OneOf, st.lists(whole, min_size=1, max_size=4, unique=True).map(tuple), st.booleans()),
    "t": st.builds(
        OneOf,
        st.lists(texts.filter(lambda text: "'" not in text), min_size=1, max_size=3, unique=True).map(tuple),
        st.booleans(),
    ),
}
alternatives = st.lists(st.fixed_dictionaries({}, optional=tests), min_size=1, max_size=3)
events = st.fixed_dictionaries({}, optional={"x": floats, "y": floats, "n": whole, "t": texts, "b": st.booleans()})
ids = st.integers(0, 12) | st.sampled_from(["alice", "bob", "5"])


class AnyOrder(RuleBasedStateMachine):
    setting: Setting

    def __init__(self) -> None:
        super().__init__()
        self.truth: dict[int | str, list[Alternative]] = {}

    @initialize(first=st.dictionaries(ids, alternatives, max_size=6))
    def build(self, first: dict[int | str, list[Alternative]]) -> None:
        subscriptions = es.Subscriptions(SCHEMA)
        for id, given in first.items():
            subscriptions.add(id, filter_text(given))
        self.truth.update(first)
        self.index = self.setting.build(subscriptions)

    @rule(id=ids, given=alternatives)
    def add(self, id: int | str, given: list[Alternative]) -> None:
        if id in self.truth:
            with pytest.raises(es.DataError, match="is taken"):
                self.index.add(id, filter_text(given))
        else:
            self.index.add(id, filter_text(given))
            self.truth[id] = given

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), given=alternatives)
    def replace(self, data: st.DataObject, given: list[Alternative]) -> None:
        id = data.draw(st.sampled_from(sorted(self.truth, key=str)))
        self.index.replace(id, filter_text(given))
        self.truth[id] = given

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.truth, key=str)))
        self.index.remove(id)
        del self.truth[id]

    @rule(batch=st.lists(events, max_size=5))
    def match(self, batch: list[dict[str, Any]]) -> None:
        found = self.index.match_batch(batch)
        for e, event in enumerate(batch):
            expected = {id for id, given in self.truth.items() if matches(given, event)}
            assert len(found.of(e)) == len(expected)
            assert set(found.of(e)) == expected

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(f"{folder}/snapshot")
            self.index = es.load(f"{folder}/snapshot")

    @invariant()
    def size_is_right(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.truth)


def test_any_order(setting: Setting) -> None:
    """Whatever the order, the index answers as the definition does."""

    class Machine(AnyOrder):
        pass

    Machine.setting = setting
    # A tenth of a profile's examples: each is a whole history, and this runs for every matcher and setting.
    fewer = settings(settings(), max_examples=max(8, settings().max_examples // 10), stateful_step_count=25)
    run_state_machine_as_test(Machine, settings=fewer)  # type: ignore[no-untyped-call]  # Hypothesis has no type for it
