"""PAD, window by window: no clock and no queue."""

from __future__ import annotations

import pytest

from eventsieve.elastic.controller import PadController
from eventsieve.errors import DataError


def observed(pad: PadController, *latencies: float | None) -> list[float]:
    return [pad.observe(latency) for latency in latencies]


def test_f_rises_while_latency_is_high_and_rising_up_to_its_maximum() -> None:
    pad = PadController(maximum=0.001, step=0.0004)
    assert observed(pad, 0.02, 0.03, 0.04, 0.05) == [0.0004, 0.0008, 0.001, 0.001]


def test_f_keeps_while_latency_is_high_but_falling() -> None:
    pad = PadController()
    assert observed(pad, 0.05, 0.04, 0.03, 0.02) == [0.0002] * 4


def test_f_goes_back_to_0_when_latency_settles_at_a_constant() -> None:
    """With the strict comparison that the paper prints, it would stay above 0 for ever."""
    pad = PadController()
    observed(pad, 0.05, 0.06, 0.07)
    assert observed(pad, 0.01, 0.01, 0.01, 0.01) == [0.0004, 0.0002, 0.0, 0.0]


def test_an_empty_window_lowers_f() -> None:
    pad = PadController()
    observed(pad, 0.05, 0.06)
    assert observed(pad, None, None, None) == [0.0002, 0.0, 0.0]


def test_between_the_thresholds_nothing_changes() -> None:
    pad = PadController()
    observed(pad, 0.05)
    assert observed(pad, 0.018, 0.016, 0.019) == [0.0002] * 3


def test_f_never_leaves_its_range() -> None:
    pad = PadController(maximum=0.0005, step=0.0002)
    waves = [0.001 * (37 * i % 60) for i in range(500)]
    assert all(0.0 <= share <= 0.0005 for share in observed(pad, *waves))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(DataError, match="to below 1"):
        PadController(maximum=1.5)
    with pytest.raises(ValueError, match="step must be above 0"):
        PadController(step=0.0)
    with pytest.raises(ValueError, match=r"lower 0\.03 and upper 0\.02"):
        PadController(upper=0.02, lower=0.03)
