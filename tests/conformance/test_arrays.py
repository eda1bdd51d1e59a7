"""Subscriptions as flat arrays, against brute force, over shapes that have bitten matchers before."""

from __future__ import annotations

import numpy as np
import pytest

import eventsieve as es
from tests.conformance.conftest import Setting
from tests.conformance.definition import matching_pairs

N_ATTRIBUTES = 6
GRID = np.linspace(-0.25, 1.25, 13)
"""Values on a coarse grid, so that they often equal bounds, and reach beyond the domain [0, 1] on both sides."""


def schema() -> es.Schema:
    return es.Schema({f"a{number}": es.Float(0, 1) for number in range(N_ATTRIBUTES)})


class Workload:
    """Random subscriptions and events, sparse and dense, with open sides, single values and extreme numbers."""

    def __init__(self, n_subscriptions: int, n_events: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, N_ATTRIBUTES + 1, n_subscriptions)
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # The last attribute is used by no subscription.
        picks = [np.sort(rng.choice(N_ATTRIBUTES - 1, min(count, N_ATTRIBUTES - 1), replace=False)) for count in counts]
        self.start = np.concatenate([[0], np.cumsum([len(pick) for pick in picks])]).astype(np.int64)
        self.attribute = np.concatenate([np.empty(0, np.int64), *picks]).astype(np.int32)
        ends = np.sort(rng.choice(GRID, (self.attribute.size, 2)), axis=1)
        self.low, self.high = ends[:, 0].copy(), ends[:, 1].copy()
        kind = rng.integers(0, 8, self.attribute.size)
        self.low[kind == 0] = -np.inf
        self.high[kind == 1] = np.inf
        self.low[kind == 2], self.high[kind == 2] = -np.inf, np.inf
        self.high[kind == 3] = self.low[kind == 3]
        self.low[kind == 4] = np.nextafter(self.low[kind == 4], -np.inf)
        values = rng.choice(GRID, (n_events, N_ATTRIBUTES))
        extreme = rng.random(values.shape) < 0.05
        values[extreme] = rng.choice([-1e300, 1e300, 5e-324, -0.0, 0.0], extreme.sum())
        values[rng.random(values.shape) < rng.choice([0.0, 0.3, 0.9], (n_events, 1))] = np.nan
        self.dense = values

    def subscriptions(self) -> es.Subscriptions:
        return es.Subscriptions.from_arrays(schema(), self.start, self.attribute, self.low, self.high)

    def events(self, rows: np.ndarray | None = None) -> es.Events:
        dense = self.dense if rows is None else self.dense[rows]
        present = ~np.isnan(dense)
        start = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        return es.Events.from_arrays(schema(), start, np.nonzero(present)[1], dense[present])

    def truth(self) -> set[tuple[int, int]]:
        return matching_pairs(self.start, self.attribute, self.low, self.high, self.dense)


def pairs(matches: es.Matches) -> set[tuple[int, int]]:
    found = list(zip(matches.event.tolist(), matches.ids.tolist(), strict=True))
    assert len(found) == len(set(found)), "a match was reported twice"
    return set(found)


@pytest.mark.parametrize("n_subscriptions", [0, 1, 2, 63, 64, 65, 127, 128, 129, 700])
def test_equals_brute_force(setting: Setting, n_subscriptions: int) -> None:
    """At word edges and beyond, exactly the matches of the definition."""
    workload = Workload(n_subscriptions, 60, seed=n_subscriptions)
    assert pairs(setting.build(workload.subscriptions()).match_batch(workload.events())) == workload.truth()


def test_the_order_of_subscriptions_does_not_matter(setting: Setting) -> None:
    """Shuffled under the same ids, they give the same matches."""
    workload = Workload(150, 40, seed=5)
    order = np.random.default_rng(6).permutation(150)
    lengths = np.diff(workload.start)[order]
    source = np.concatenate([np.arange(workload.start[s], workload.start[s + 1]) for s in order])
    shuffled = es.Subscriptions.from_arrays(
        schema(),
        np.concatenate([[0], np.cumsum(lengths)]),
        workload.attribute[source],
        workload.low[source],
        workload.high[source],
        ids=order,
    )
    assert pairs(setting.build(shuffled).match_batch(workload.events())) == workload.truth()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_equals_its_parts(setting: Setting, threads: int) -> None:
    """One batch, event by event, and on several threads: the same matches."""
    workload = Workload(200, 30, seed=7)
    index = setting.build(workload.subscriptions())
    whole = index.match_batch(workload.events(), threads=threads)
    assert pairs(whole) == workload.truth()
    for e in range(30):
        alone = index.match_batch(workload.events(np.array([e])))
        assert sorted(alone.ids.tolist()) == sorted(whole.of(e))


def test_an_empty_batch_has_no_matches(setting: Setting) -> None:
    """No events: no matches, and no error."""
    index = setting.build(Workload(10, 1, seed=8).subscriptions())
    assert len(index.match_batch([])) == 0


def test_insert_and_delete_equal_a_fresh_build(setting: Setting) -> None:
    """Half is built, half inserted, a third deleted, some come back at reused slots."""
    workload = Workload(300, 50, seed=9)
    rng = np.random.default_rng(10)
    index = setting.build(part(workload, np.arange(150)))
    index.extend(part(workload, np.arange(150, 300)))
    gone = rng.permutation(300)[:100]
    index.remove_many(gone.tolist())
    back = gone[:40]
    index.extend(part(workload, back))
    kept = (set(range(300)) - set(gone.tolist())) | set(back.tolist())
    assert pairs(index.match_batch(workload.events())) == {pair for pair in workload.truth() if pair[1] in kept}
    index.remove_many(sorted(kept))
    assert len(index) == 0
    assert pairs(index.match_batch(workload.events())) == set()
    index.extend(workload.subscriptions())
    assert pairs(index.match_batch(workload.events())) == workload.truth()


def test_a_snapshot_answers_alike_and_can_change(setting: Setting, tmp_path: object) -> None:
    """Saved and loaded, before and after changes; the file itself never changes."""
    workload = Workload(300, 50, seed=11)
    index = setting.build(part(workload, np.arange(200)))
    index.remove_many(range(50))
    path = f"{tmp_path}/index.snapshot"
    index.save(path)
    loaded = es.load(path)
    truth = {pair for pair in workload.truth() if 50 <= pair[1] < 200}
    assert pairs(loaded.match_batch(workload.events())) == truth
    loaded.extend(part(workload, np.arange(200, 300)))
    loaded.remove_many(range(50, 100))
    after = {pair for pair in workload.truth() if pair[1] >= 100}
    assert pairs(loaded.match_batch(workload.events())) == after
    assert pairs(es.load(path).match_batch(workload.events())) == truth


def test_sorted_and_identical_inserts(setting: Setting) -> None:
    """Adversarial orders: rising, falling and all alike, one at a time."""
    index = setting.build(es.Subscriptions(schema()))
    for step in range(90):
        low = step / 100
        index.add(f"rising {step}", f"a0 >= {low}")
        index.add(f"falling {step}", f"a0 <= {1 - low}")
        index.add(f"alike {step}", "a0 BETWEEN 0.25 AND 0.5 AND a1 > 0.5")
    found = index.match({"a0": 0.305, "a1": 0.75})
    assert sum(id.startswith("rising") for id in map(str, found)) == 31
    assert sum(id.startswith("falling") for id in map(str, found)) == 70
    assert sum(id.startswith("alike") for id in map(str, found)) == 90


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_equals_brute_force_at_many_seeds(setting: Setting, seed: int) -> None:
    """More of the same, with more subscriptions."""
    workload = Workload(1500 + seed * 64, 80, seed=1000 + seed)
    assert pairs(setting.build(workload.subscriptions()).match_batch(workload.events())) == workload.truth()


def part(workload: Workload, which: np.ndarray) -> es.Subscriptions:
    """Return some of the workload's subscriptions, under their numbers."""
    source = np.concatenate(
        [np.empty(0, np.int64), *(np.arange(workload.start[s], workload.start[s + 1]) for s in which)]
    )
    start = np.concatenate([[0], np.cumsum(np.diff(workload.start)[which])])
    source = source.astype(np.int64)
    return es.Subscriptions.from_arrays(
        schema(), start, workload.attribute[source], workload.low[source], workload.high[source], ids=which
    )
