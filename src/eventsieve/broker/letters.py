"""Dead letters of all receivers, one at a time into one place; into the log of the process where there is none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from eventsieve.broker.transport import DeadLetter, DeadLetters

_LOG: Final = logging.getLogger(__name__)


class LetterBox:
    """Takes letters from any thread."""

    def __init__(self, letters: DeadLetters | None) -> None:
        self._letters = letters
        self._lock = threading.Lock()

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Store letters; they are safe when this returns."""
        with self._lock:
            if self._letters is not None:
                self._letters.put(letters)
                return
        for message, reason in letters:
            _LOG.warning("message %s of %r cannot be matched: %s", message.position, message.publisher, reason)

    def close(self) -> None:
        """Close the place they go to."""
        if self._letters is not None:
            self._letters.close()
