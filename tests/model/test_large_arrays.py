"""Large arrays use memory again, and never while anybody can see it."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve.model import large_arrays
from eventsieve.model.large_arrays import large_array

LARGE = large_arrays._LARGE


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "_kept", large_arrays._Kept(1 << 29))


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_of_an_array_that_is_gone_is_used_again() -> None:
    first = large_array(LARGE // 4, np.int32)
    where = address(first)
    del first
    again = large_array(LARGE // 8, np.int64)
    assert address(again) == where
    assert (again.dtype, again.shape) == (np.int64, (LARGE // 8,))


def test_memory_in_sight_is_left_alone() -> None:
    first = large_array(LARGE, np.uint8)
    first[:] = 7
    seen = first[10:20][::2]
    del first
    other = large_array(LARGE, np.uint8)
    other[:] = 1
    assert seen.tolist() == [7] * 5
    del seen
    assert address(large_array(LARGE, np.uint8)) != address(other)


def test_two_arrays_never_share_memory() -> None:
    del_me = [large_array(LARGE, np.uint8) for _ in range(3)]
    del del_me
    arrays = [large_array(LARGE, np.uint8) for _ in range(4)]
    assert len({address(array) for array in arrays}) == 4


def test_a_small_result_does_not_hold_on_to_much_memory() -> None:
    large = large_array(8 * LARGE, np.uint8)
    where = address(large)
    del large
    assert address(large_array(LARGE, np.uint8)) != where


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "_kept", large_arrays._Kept(2 * LARGE))
    arrays = [large_array(LARGE, np.uint8) for _ in range(4)]
    arrays.clear()
    assert len(large_arrays._kept._pieces) == 2


def test_memory_may_come_back_in_the_midst_of_a_request() -> None:
    """As when the garbage collector finds an array while another one is asked for."""
    piece = np.empty(LARGE, np.uint8)
    with large_arrays._kept._lock:
        large_arrays._kept.give_back(piece)
    assert address(large_array(LARGE, np.uint8)) == address(piece)


def test_small_arrays_are_as_always() -> None:
    assert large_array(10, np.float64).base is None
    assert large_array(0, np.int32).shape == (0,)
