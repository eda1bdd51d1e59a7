"""Workloads keep their parameters' promises and are the same for the same seed."""

from dataclasses import replace

import numpy as np
import pytest

from eventsieve.errors import DataError
from eventsieve.workload import Workload, measured_match_rate, standard, workload_names
from eventsieve.workload.widths import Width

SMALL = Workload("small", n=5000, d=12, k=4, m=6, width=0.3)


@pytest.mark.parametrize("name", workload_names())
def test_the_same_seed_draws_the_same(name: str) -> None:
    workload = standard(name, n=300)
    for first, second in zip(workload.subscription_arrays(5), workload.subscription_arrays(5), strict=True):
        assert np.array_equal(first, second)
    for first, second in zip(workload.event_arrays(20, 5), workload.event_arrays(20, 5), strict=True):
        assert np.array_equal(first, second)
    assert not np.array_equal(workload.subscription_arrays(5).low, workload.subscription_arrays(6).low)
    assert not np.array_equal(workload.event_arrays(20, 5).value, workload.event_arrays(20, 6).value)


@pytest.mark.parametrize("name", workload_names())
def test_arrays_have_the_shape_of_the_parameters(name: str) -> None:
    workload = standard(name, n=500)
    start, attribute, low, high = workload.subscription_arrays(1)
    assert [array.dtype for array in (start, attribute, low, high)] == [np.int64, np.int32, np.float64, np.float64]
    assert np.array_equal(np.diff(start), np.full(500, workload.k))
    assert np.all(low <= high)
    assert len(workload.schema()) == workload.d
    events = workload.event_arrays(50, 1)
    assert np.array_equal(np.diff(events.start), np.full(50, workload.m))
    assert np.all(np.diff(events.attribute.reshape(50, -1), axis=1) > 0)
    assert np.isfinite(events.value).all()


@pytest.mark.parametrize("name", workload_names())
def test_collections_are_made_of_the_arrays(name: str) -> None:
    workload = standard(name, n=200)
    assert len(workload.subscriptions(1)) == 200
    assert len(workload.events(10, 1)) == 10


def test_fixed_widths_start_uniformly_where_they_fit() -> None:
    _, _, low, high = SMALL.subscription_arrays(1)
    assert np.allclose(high - low, 0.3)
    assert low.min() >= 0
    assert high.max() <= 1
    assert low.mean() == pytest.approx(0.35, abs=0.01)


def test_bounded_widths_are_uniform_between_their_bounds() -> None:
    _, _, low, high = replace(SMALL, width="0.1..0.5").subscription_arrays(1)
    assert (high - low).min() >= 0.1 - 1e-12
    assert (high - low).max() <= 0.5 + 1e-12
    assert (high - low).mean() == pytest.approx(0.3, abs=0.005)


def test_random_widths_have_two_uniform_ends() -> None:
    _, _, low, high = replace(SMALL, width="random").subscription_arrays(1)
    assert low.mean() == pytest.approx(1 / 3, abs=0.01)
    assert high.mean() == pytest.approx(2 / 3, abs=0.01)


def test_single_values_have_their_share() -> None:
    _, _, low, high = replace(SMALL, cardinality=16, single=0.4, width=0.5).subscription_arrays(1)
    assert np.mean(low == high) == pytest.approx(0.4, abs=0.02)


def test_integer_domains_hold_whole_values_inside_the_domain() -> None:
    workload = replace(SMALL, cardinality=10, width=0.33)
    _, _, low, high = workload.subscription_arrays(1)
    value = workload.event_arrays(500, 1).value
    for array in (low, high, value):
        assert np.array_equal(array, np.floor(array))
        assert array.min() >= 0
        assert array.max() <= 9
    assert (high - low + 1).mean() == pytest.approx(3.3, abs=0.02)
    assert np.allclose(np.bincount(value.astype(int), minlength=10) / value.size, 0.1, atol=0.03)


@pytest.mark.parametrize("values", ["normal", "pareto", "zipf"])
def test_predicates_follow_the_value_distribution(values: str) -> None:
    uniform = SMALL.subscription_arrays(1).low
    skewed = replace(SMALL, values=values).subscription_arrays(1).low
    assert skewed.std() < uniform.std()


@pytest.mark.parametrize("parameters", [{}, {"cardinality": 20, "single": 0.2}, {"event_values": "normal"}, {"m": 12}])
def test_the_match_rate_is_met(parameters: dict[str, object]) -> None:
    workload = SMALL.with_settings({"match_rate": 0.004, **parameters})
    assert measured_match_rate(workload, events=200, subscriptions=10_000) == pytest.approx(0.004, rel=0.15)


def test_the_match_rate_allows_for_skewed_attributes_of_events() -> None:
    workload = SMALL.with_settings({"match_rate": 0.004, "attribute_skew": 1, "event_attribute_skew": 1})
    assert measured_match_rate(workload, events=200, subscriptions=10_000) == pytest.approx(0.004, rel=0.2)


def test_an_impossible_match_rate_is_refused_with_the_range() -> None:
    with pytest.raises(DataError, match=r"no width gives .* a match rate of 0.9: it lies between"):
        _ = SMALL.with_settings({"match_rate": 0.9}).effective_width


def test_bop_is_as_the_paper_has_it() -> None:
    workload = standard("bop")
    assert (workload.n, workload.d, workload.k, workload.m, workload.width) == (1_000_000, 50, 6, 20, 0.4)


def test_gem_matches_one_in_a_hundred_with_three_in_ten_single_values() -> None:
    workload = standard("gem", n=20_000)
    _, _, low, high = workload.subscription_arrays(1)
    assert np.mean(low == high) == pytest.approx(0.3, abs=0.01)
    assert high.max() == 31
    assert measured_match_rate(workload) == pytest.approx(0.01, rel=0.1)


def test_hem_draws_both_ends_and_four_kinds_of_bounds() -> None:
    workload = standard("hem", n=4000)
    _, _, low, high = workload.subscription_arrays(1)
    closed_low, closed_high = low == np.round(low, 6), high == np.round(high, 6)
    for low_is_closed in (True, False):
        for high_is_closed in (True, False):
            share = np.mean((closed_low == low_is_closed) & (closed_high == high_is_closed))
            assert share == pytest.approx(0.25, abs=0.02)
    assert low.max() <= 0.5 + 1e-9
    assert high.min() >= 0.5 - 1e-9
    assert low.mean() == pytest.approx(0.25, abs=0.01)
    assert high.mean() == pytest.approx(0.75, abs=0.01)


def test_eem_attributes_follow_zipf_and_widths_are_uniform() -> None:
    _, attribute, low, high = standard("eem", n=20_000).subscription_arrays(1)
    counts = np.bincount(attribute, minlength=500)
    assert counts[0] > counts[5] > counts[40] > counts[400]
    assert (high - low).mean() == pytest.approx(0.5, abs=0.01)
    assert (high - low).std() == pytest.approx(12**-0.5, abs=0.01)


def test_settings_are_read_from_text() -> None:
    changed = standard("bop").with_settings({"n": "2000", "width": "0.1..0.2", "attribute_skew": "1"})
    assert (changed.n, changed.width, changed.attribute_skew) == (2000, "0.1..0.2", 1.0)


def test_a_width_replaces_a_match_rate_and_the_other_way_round() -> None:
    assert standard("gem", width=0.2).match_rate is None
    assert standard("bop", match_rate=0.001).width == "tuned"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widht": 1}, "no parameter 'widht'; did you mean 'width'"),
        ({"k": 51}, "k = 51 is more than the d = 50 attributes"),
        ({"n": "many"}, "n = 'many' is not a number"),
        ({"k": 2.5}, "k = 2.5 is not a whole number"),
        ({"values": "beta"}, "the choices are uniform, normal, pareto, zipf"),
        ({"width": "wide"}, "'wide' is no width"),
        ({"width": 1.5}, "leaves the domain"),
        ({"single": 2}, "single = 2.0 is no share"),
        ({"bounds": "half"}, "the choices are closed, mixed"),
        ({"match_rate": None, "width": "tuned"}, "belong together"),
    ],
)
def test_wrong_settings_are_refused_with_the_remedy(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        standard("bop").with_settings(settings)


def test_an_unknown_workload_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match="did you mean 'bop'"):
        standard("bopp")


@pytest.mark.parametrize("width", ["0.4", "0.1..0.6", "random", "ends:0.5"])
def test_a_width_prints_as_it_is_written(width: str) -> None:
    assert str(Width.parse(width)) == width


def test_narrow_ends_keep_their_order() -> None:
    _, _, low, high = replace(SMALL, width="ends:0.1").subscription_arrays(1)
    assert np.all(low <= high)
