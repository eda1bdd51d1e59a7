"""The `ticks` workload looks like a day of trading."""

from datetime import UTC, datetime

import numpy as np
import pytest

from eventsieve.errors import DataError
from eventsieve.workload import Ticks, event_rows, filter_texts, measured_match_rate, standard
from eventsieve.workload.ticks import trading_rate


@pytest.fixture(scope="module")
def ticks() -> Ticks:
    workload = standard("ticks", n=3000)
    assert isinstance(workload, Ticks)
    return workload


def test_a_tick_has_fifty_attributes_with_symbol_price_and_volume_first(ticks: Ticks) -> None:
    assert len(ticks.schema()) == 50
    assert ticks.schema().names[:3] == ("symbol", "price", "volume")
    with pytest.raises(DataError, match="a tick has 50 attributes"):
        standard("ticks", d=40)
    with pytest.raises(DataError, match="no parameter 'cardinality'"):
        standard("ticks", cardinality=10)


def test_the_rate_bursts_at_the_open_and_rests_at_night() -> None:
    night, opening, noon, closing = trading_rate(np.array([3, 9.55, 13, 15.95]) * 3600)
    assert opening > closing > noon > 10 * night


def test_ticks_come_in_time_order_at_that_rate(ticks: Ticks) -> None:
    moments = ticks.timestamps(20_000, seed=3)
    assert np.all(np.diff(moments) >= 0)
    hour = np.array([datetime.fromtimestamp(moment / 1e6, UTC).hour for moment in moments])
    counts = np.bincount(hour, minlength=24)
    assert counts[10] > counts[12] > counts[3]
    assert counts[9:17].sum() > 0.9 * moments.size


def test_most_values_lie_in_the_lower_half_of_their_domain(ticks: Ticks) -> None:
    events = ticks.event_arrays(500, 1)
    bottoms, tops = zip(*(kind.domain() for kind in ticks.schema().types), strict=True)
    numeric = np.array([kind.kind in ("float", "int") for kind in ticks.schema().types])[events.attribute]
    bottom, top = np.array(bottoms, float)[events.attribute], np.array(tops, float)[events.attribute]
    low_half = events.value < (bottom + top) / 2
    assert low_half[numeric].mean() > 0.8


def test_popular_symbols_come_first(ticks: Ticks) -> None:
    events = ticks.event_arrays(5000, 1)
    counts = np.bincount(events.value[events.attribute == 0].astype(int), minlength=500)
    assert counts[:10].sum() > counts[100:110].sum() > counts[400:410].sum() / 2
    assert ticks.texts()["symbol"][:3] == ["A", "B", "C"]
    assert len(set(ticks.texts()["symbol"])) == 500


def test_sparse_ticks_keep_their_symbol() -> None:
    events = standard("ticks", n=1, m=10).event_arrays(100, 1)
    assert np.all(events.attribute.reshape(100, 10)[:, 0] == 0)
    assert np.all(np.diff(events.attribute.reshape(100, 10), axis=1) > 0)


def test_some_events_match_but_few_subscriptions(ticks: Ticks) -> None:
    assert 1e-4 < measured_match_rate(ticks) < 1e-2


def test_rows_and_texts_are_readable(ticks: Ticks) -> None:
    row = next(event_rows(ticks, 1))
    assert isinstance(row["symbol"], str)
    assert isinstance(row["volume"], int)
    assert row["traded_at"].startswith("2024-03-01T")
    assert next(filter_texts(ticks))[1].startswith("symbol = '")
