"""The threads of a broker. None ends in silence: the first failure stops the broker, and is kept for whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from eventsieve.errors import BrokerError


class Crew:
    """Starts threads, and hears when one of them fails."""

    def __init__(self, on_failure: Callable[[], None]) -> None:
        self._on_failure = on_failure
        self._dismissed = False
        self.failure: BaseException | None = None
        """Why the broker stopped by itself."""

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        """Run something in a thread of its own."""
        thread = threading.Thread(target=self._guarded, args=(run,), name=f"eventsieve {name}", daemon=True)
        thread.start()
        return thread

    def dismiss(self) -> None:
        """Expect threads to be torn out of what they do, and take no notice of it."""
        self._dismissed = True

    def raise_failure(self) -> None:
        """Raise BrokerError if a thread has failed."""
        if self.failure is not None:
            raise BrokerError(f"the broker has stopped: {self.failure}") from self.failure

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:
            if not self._dismissed:
                self.failure = self.failure or failure
                self._on_failure()
