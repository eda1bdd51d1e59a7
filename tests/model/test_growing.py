"""Arrays that grow: what they hold, that they seldom move, and that two owners never write over each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.model.growing import GrowingArray
from eventsieve.workload import standard


@given(st.lists(st.one_of(st.integers(0, 40), st.lists(st.integers(0, 99), max_size=30)), max_size=20))
def test_it_holds_what_a_list_would(steps: list[int | list[int]]) -> None:
    array, expected = GrowingArray.copy_of([7, 8, 9], np.int32), [7, 8, 9]
    for step in steps:
        if isinstance(step, int):
            array.resize(step, fill=-1)
            expected = (expected + [-1] * step)[:step]
        else:
            array.extend(np.array(step, np.int32))
            expected += step
        assert array.view.tolist() == expected
        assert len(array) == len(expected)


def test_a_copy_has_room_and_is_one() -> None:
    values = np.arange(800)
    array = GrowingArray.copy_of(values)
    before = array.view
    array.extend(np.arange(100))
    assert np.shares_memory(before, array.view)
    array.view[0] = 5
    assert values[0] == 0


def test_two_owners_grow_apart() -> None:
    one = GrowingArray.copy_of(np.arange(80))
    other = one.shared()
    assert np.shares_memory(one.view, other.view)
    one.extend(np.array([1]))
    other.extend(np.array([2]))
    assert one.view.tolist() == [*range(80), 1]
    assert other.view.tolist() == [*range(80), 2]


def test_the_first_insertion_into_an_index_moves_no_large_array() -> None:
    """Else the first subscriber after a build would wait until all of them are copied."""
    workload = standard("bop", n=4_000)
    index = es.build(workload.subscriptions(seed=1), matcher="sieve")
    before = {**index.matcher.arrays(), **index.matcher.clauses._asdict()}
    index.add("one more", "a0 >= 10 AND a0 <= 20")
    after = {**index.matcher.arrays(), **index.matcher.clauses._asdict()}
    moved = [name for name in before if before[name].size > 8_000 and not np.shares_memory(before[name], after[name])]
    assert moved == []
