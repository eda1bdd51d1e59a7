"""Threads that outlive a call: what they return, what they raise, and that a forked process has its own."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from eventsieve.matchers.threads import side_by_side


def test_calls_are_made_at_the_same_time_and_answered_in_order() -> None:
    all_there = threading.Barrier(3)

    def call(number: int, factor: int) -> tuple[int, int]:
        all_there.wait(60)
        return number * factor, threading.get_ident()

    answers, idents = zip(*side_by_side(call, range(3), [10] * 3), strict=True)
    assert answers == (0, 10, 20)
    assert idents[0] == threading.get_ident()
    assert len(set(idents)) == 3


def test_calls_inside_of_calls_do_not_wait_for_each_other() -> None:
    def inner(number: int) -> int:
        return number

    assert side_by_side(lambda _: side_by_side(inner, range(2)), range(4)) == [[0, 1]] * 4


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_comes_out_when_all_calls_are_done(failing: int) -> None:
    done = []

    def call(number: int) -> None:
        if number == failing:
            raise ValueError(f"number {number}")
        done.append(number)

    with pytest.raises(ValueError, match=f"number {failing}"):
        side_by_side(call, range(3))
    assert sorted(done) == [each for each in range(3) if each != failing]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    side_by_side(abs, [-1, -2])
    child = os.fork()
    if not child:
        # Whatever happens, the child must not go on with the tests, or wait for ever.
        signal.alarm(60)
        try:
            os._exit(0 if side_by_side(abs, [-1, -2]) == [1, 2] else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
