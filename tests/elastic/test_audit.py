"""An audit's share and error are those of all its events, however they were added up."""

from __future__ import annotations

import numpy as np

from eventsieve.elastic.audit import Audit, chosen_events
from eventsieve.elastic.precision import measured_share


def test_parts_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(1)
    reported = rng.integers(0, 100, 60)
    false = rng.binomial(reported, 0.05)
    whole = Audit.of(reported, false)
    parts = Audit.total(Audit.of(reported[at : at + 7], false[at : at + 7]) for at in range(0, 60, 7))
    assert parts == whole
    assert np.allclose((whole.share, whole.error), measured_share(reported, false))
    assert (whole.events, whole.reported, whole.false, whole.lost) == (60, reported.sum(), false.sum(), 0)


def test_nothing_seen_is_nothing_false() -> None:
    assert (Audit().share, Audit().error) == (0.0, 0.0)


def test_events_are_chosen_by_chance_and_again_the_same() -> None:
    chosen = chosen_events(10_000, 0.02, seed=3)
    assert 150 < chosen.size < 250
    assert chosen.tolist() == chosen_events(10_000, 0.02, seed=3).tolist()
    assert chosen.tolist() != chosen_events(10_000, 0.02, seed=4).tolist()
    assert chosen_events(50, 1.0, seed=0).tolist() == list(range(50))
