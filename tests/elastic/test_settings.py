"""The text of `--elastic`: read, printed, and refused with the field, the value and a remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsieve.elastic.settings import MOST_RUNGS, OFF, ElasticSettings, parse_share
from eventsieve.errors import DataError


def test_a_full_text_is_read_with_its_units():
    settings = ElasticSettings.parse(" max=0.1%, step=0.02% ,upper=2s,lower=500ms,window=100events")
    assert settings == ElasticSettings(0.001, 0.0002, 2.0, 0.5, 100)
    assert ElasticSettings.parse("window=1.5min").window_seconds == 90.0
    assert ElasticSettings.parse("max=0.001") == ElasticSettings.parse("max=0.1%")


def test_on_is_every_default_and_off_is_exact():
    assert ElasticSettings.parse("on") == ElasticSettings()
    assert ElasticSettings.parse("OFF") is OFF
    assert not OFF.enabled
    assert OFF.ladder == ()
    assert ElasticSettings.parse("max=0%").enabled is False


@given(
    st.builds(
        ElasticSettings,
        maximum=st.floats(0, 0.99),
        step=st.floats(1e-9, 0.99),
        upper=st.none() | st.floats(10, 1e6),
        lower=st.none() | st.floats(0, 10),
        window_events=st.none() | st.integers(1, 10**9),
    )
)
def test_settings_survive_their_text(settings):
    assert ElasticSettings.parse(str(settings)) == settings


def test_a_time_as_window_survives_its_text():
    assert str(ElasticSettings.parse("window=250ms")) == "max=0.1%,step=0.02%,window=250ms"
    assert str(OFF) == "off"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no name=value; write for example"),
        ("max", "'max' in elastic settings"),
        ("max=", "'max=' in elastic settings"),
        ("maximum=1%", "did you mean 'max'"),
        ("max=1%,max=2%", "max is given twice"),
        ("max=100%", "max=100% is no share below 100%; write for example max=0.1%"),
        ("step=-1%", "step=-1% is no share"),
        ("step=0%", "write off for that"),
        ("max=nan", "max=nan is no share"),
        ("upper=20", "upper=20 has no unit; units are ms, s, min: write for example upper=20ms"),
        ("lower=3 hours", "has the unit 'hours'"),
        ("lower=soon", "lower=soon is no time"),
        ("lower=-1s", "lower=-1s is no time"),
        ("upper=1s,lower=2s", "lower=2s is above upper=1s"),
        ("window=0events", "window=0events is no number of events; write for example window=100events"),
        ("window=1.5events", "window=1.5events is no number of events"),
        ("window=100", "window=100 has no unit"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(text, said):
    with pytest.raises(DataError, match=said.replace("?", r"\?")):
        ElasticSettings.parse(text)


def test_defaults_fill_only_what_was_left_out():
    settings = ElasticSettings.parse("upper=9s,window=2s").filled(upper=4.0, lower=1.0, window_events=10)
    assert (settings.upper, settings.lower) == (9.0, 1.0)
    assert (settings.window_events, settings.window_seconds) == (None, 2.0)
    with pytest.raises(DataError, match="lower=5s is above upper=4s"):
        ElasticSettings.parse("lower=5s").filled(upper=4.0, lower=1.0)
    with pytest.raises(DataError, match="upper and lower are not set"):
        ElasticSettings().controller()


def test_the_ladder_has_the_controllers_steps():
    settings = ElasticSettings.parse("max=0.1%,step=0.02%,upper=20ms,lower=15ms")
    assert settings.ladder == (0.0002, 0.0004, 0.0006, 0.0008, 0.001)
    pad = settings.controller()
    seen = [pad.observe(wait) for wait in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    assert [settings.rung(share) for share in seen] == seen, "each step of the controller is a rung of its own"
    assert max(seen) == 0.001
    assert seen[-1] == 0.0


def test_very_many_steps_make_few_rungs_and_f_takes_the_one_below():
    settings = ElasticSettings.parse("max=5%,step=0.02%")
    assert len(settings.ladder) <= MOST_RUNGS + 1
    assert settings.ladder[-1] == 0.05
    for share in (0.0, 0.0002, 0.01234, 0.05):
        assert settings.rung(share) <= share


def test_a_step_beyond_the_maximum_leaves_one_rung():
    assert ElasticSettings.parse("max=0.1%,step=1%").ladder == (0.001,)


def test_a_share_is_a_percentage_or_a_number():
    assert parse_share("audit", "1%") == 0.01
    assert parse_share("audit", "0.25") == 0.25
    assert parse_share("audit", "100%", whole=True) == 1.0
    with pytest.raises(DataError, match="audit=101% is no share up to 100%"):
        parse_share("audit", "101%", whole=True)
