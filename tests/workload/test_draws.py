"""Draws have the shapes they promise."""

import numpy as np
import pytest

from eventsieve.workload.draws import DISTRIBUTIONS, distinct_attributes, positions, zipf_ranks, zipf_weights

N = 20_000


@pytest.mark.parametrize("skew", [0.0, 0.8, 2.0, 6.0])
@pytest.mark.parametrize(("per_row", "n_attributes"), [(1, 1), (3, 50), (20, 50), (9, 10), (10, 10)])
def test_attributes_of_a_row_differ_and_rise(
    rng: np.random.Generator, per_row: int, n_attributes: int, skew: float
) -> None:
    chosen = distinct_attributes(rng, 2000, per_row, n_attributes, skew)
    assert chosen.shape == (2000, per_row)
    assert chosen.dtype == np.int32
    assert np.all(np.diff(chosen, axis=1) > 0)
    assert chosen.min() >= 0
    assert chosen.max() < n_attributes


def test_uniform_attributes_are_equally_popular(rng: np.random.Generator) -> None:
    counts = np.bincount(distinct_attributes(rng, N, 6, 50, 0.0).ravel(), minlength=50)
    assert np.allclose(counts / N, 6 / 50, atol=0.015)


def test_zipf_attributes_fall_in_popularity(rng: np.random.Generator) -> None:
    counts = np.bincount(distinct_attributes(rng, N, 2, 20, 1.0).ravel(), minlength=20)
    assert np.all(np.diff(counts[:8]) < 0)
    assert counts[0] > 3 * counts[7]


def test_drawing_again_and_racing_choose_alike(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are finished by a race follow the same law as rows that are drawn to the end."""
    drawn = np.bincount(distinct_attributes(rng, N, 3, 6, 1.5).ravel(), minlength=6) / N
    monkeypatch.setattr("eventsieve.workload.draws._TRIES", 1)
    raced = np.bincount(distinct_attributes(rng, N, 3, 6, 1.5).ravel(), minlength=6) / N
    assert np.allclose(drawn, raced, atol=0.02)


def test_one_attribute_per_row_follows_the_weights(rng: np.random.Generator) -> None:
    counts = np.bincount(distinct_attributes(rng, N, 1, 10, 0.8).ravel(), minlength=10)
    assert np.allclose(counts / N, zipf_weights(10, 0.8), atol=0.015)


def test_zipf_ranks_follow_the_weights(rng: np.random.Generator) -> None:
    counts = np.bincount(zipf_ranks(rng, N, 8, 1.2), minlength=8)
    assert np.allclose(counts / N, zipf_weights(8, 1.2), atol=0.015)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_positions_lie_in_the_domain(rng: np.random.Generator, distribution: str) -> None:
    place = positions(rng, N, distribution, 0.8)
    assert place.shape == (N,)
    assert place.min() >= 0
    assert place.max() < 1


def test_normal_positions_have_the_papers_mean_and_variance(rng: np.random.Generator) -> None:
    place = positions(rng, N, "normal", 0.0)
    assert place.mean() == pytest.approx(0.5, abs=0.01)
    assert place.var() == pytest.approx(0.02, abs=0.002)


def test_pareto_positions_start_at_a_quarter_and_thin_out(rng: np.random.Generator) -> None:
    place = positions(rng, N, "pareto", 0.0)
    assert place.min() >= 0.25
    # Of a Pareto of shape 2 from 1/4, cut at 1: P(x < 1/2) = (1 - 1/4) / (1 - 1/16).
    assert np.mean(place < 0.5) == pytest.approx(0.8, abs=0.02)


def test_zipf_positions_prefer_low_cells(rng: np.random.Generator) -> None:
    counts = np.histogram(positions(rng, N, "zipf", 1.0, cells=10), bins=10, range=(0, 1))[0]
    assert np.allclose(counts / N, zipf_weights(10, 1.0), atol=0.015)
