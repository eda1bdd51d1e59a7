"""Room to work in: lent for one use at a time, exactly as large as asked for, and kept for the next."""

from __future__ import annotations

import threading

import numpy as np

from eventsieve.matchers import scratch
from eventsieve.matchers.scratch import borrowed


def test_the_same_room_is_lent_again() -> None:
    """What one use leaves in it, the next finds: no new array was made."""
    with borrowed("test", 1000, np.int32) as first:
        first[:] = 7
    with borrowed("test", 10, np.int32) as second:
        assert second.base is first.base
        assert (second == 7).all()


def test_room_is_no_larger_than_asked_for() -> None:
    """Whoever writes until the room is full must not be misled by what an earlier use needed."""
    with borrowed("test", 1000, np.int32):
        pass
    with borrowed("test", 10, np.int32) as smaller:
        assert smaller.size == 10
    with borrowed("test", 2000, np.int32) as larger:
        assert larger.size == 2000


def test_two_uses_at_once_have_rooms_of_their_own() -> None:
    """One inside the other, of another type, and in another thread."""
    found = []
    with borrowed("test", 100, np.int32) as outer, borrowed("test", 100, np.int32) as inner:
        assert not np.shares_memory(outer, inner)
        with borrowed("test", 100, np.uint16) as other:
            assert other.dtype == np.uint16

        def elsewhere() -> None:
            with borrowed("test", 100, np.int32) as theirs:
                found.append(np.shares_memory(theirs, outer) or np.shares_memory(theirs, inner))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [False]


def test_large_room_is_given_back() -> None:
    """What is beyond the limit is not kept."""
    with borrowed("huge", scratch._MOST_KEPT + 1, np.uint8):
        pass
    assert ("huge", np.dtype(np.uint8).str) not in scratch._kept.arrays
