"""When a decision is due, and what the events of a window waited."""

from __future__ import annotations

from eventsieve.elastic.window import WaitWindow


def test_without_a_size_whatever_comes_is_a_window() -> None:
    window = WaitWindow()
    assert window.add(3.0, 10, now=0.0)
    assert window.close() == 3.0
    assert window.add(0.0, 0, now=1.0)
    assert window.close() is None, "a window without events says so"


def test_waits_are_weighed_by_their_events() -> None:
    window = WaitWindow(events=30)
    assert not window.add(1.0, 20, now=0.0)
    assert window.add(4.0, 10, now=0.1)
    assert window.close() == 2.0
    assert not window.add(1.0, 29, now=0.2), "a new window begins empty"


def test_a_window_can_be_a_time() -> None:
    window = WaitWindow(seconds=5.0)
    assert [window.add(1.0, 1, now) for now in (10.0, 14.9, 15.0)] == [False, False, True]
    window.close()
    assert not window.add(1.0, 1, now=100.0)
