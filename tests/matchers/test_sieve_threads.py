"""Sieve in threads: each takes a part of the index for all events, and nothing is lost or found twice between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eventsieve.matchers.sieve import together
from eventsieve.matchers.sieve.chunks import CHUNK
from eventsieve.matchers.sieve.matcher import Sieve
from eventsieve.matchers.sieve.order import BLOCK
from tests.matchers.dense import Table, matched, random_values
from tests.matchers.sieve_tables import in_blocks, in_chunks

LAYOUTS = pytest.mark.parametrize("build", [in_blocks, in_chunks])


@LAYOUTS
@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("n_events", [2, 9, 200])
def test_threads_find_the_same(build: Callable[[Table], Sieve], threads: int, n_events: int) -> None:
    """Few events and many, by rows, chunks and masks; with more threads than blocks, some have nothing to do."""
    table = Table(5 * BLOCK + 77, seed=threads, popularity=0.6, open_share=0.4)
    values = random_values(n_events, seed=n_events)
    assert matched(build(table), values, threads) == table.answer(values)


def test_chunks_are_shared_out() -> None:
    """A few events go through the chunks one after the other."""
    table = Table(CHUNK + 3 * BLOCK + 5, seed=3, popularity=0.7)
    matcher, values = in_chunks(table), random_values(5, seed=4)
    assert matcher.describe()["chunks"] == 2
    assert matched(matcher, values, threads=2) == table.answer(values)


@LAYOUTS
def test_too_little_room(build: Callable[[Table], Sieve], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first event, by which room is made, matches nothing: fewer events are tried, in the end one by one."""
    monkeypatch.setattr(together, "_LEAST_ROOM", 0)
    table = Table(4 * BLOCK, seed=5, popularity=0.5, open_share=0.8)
    values = random_values(60, seed=6)
    expected = table.answer(values)
    assert not expected[0]
    assert sum(map(len, expected)) > 4 * len(table.low)
    assert matched(build(table), values, threads=2) == expected


def test_more_events_than_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of several rounds are laid end to end."""
    monkeypatch.setattr(together, "_MOST_EVENTS", 7)
    table = Table(2 * BLOCK, seed=7, popularity=0.6)
    matcher, values = in_blocks(table), random_values(30, seed=8)
    assert matched(matcher, values, threads=2) == table.answer(values)
