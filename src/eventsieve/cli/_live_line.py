"""A line on standard error that says how a long run is doing: rewritten on a terminal, elsewhere one now and then."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Final, Self

from eventsieve.cli._io import say

SECONDS_BETWEEN_LINES: Final = 5.0
"""Elsewhere than on a terminal, where every line stays."""


class LiveLine:
    """The line itself; what is in it and when is its child's business."""

    def __init__(self) -> None:
        self._live: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=False, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def rewritten(self) -> bool:
        """Each line takes the place of the one before."""
        return self._live is not None

    def write(self, text: str) -> None:
        """Show a text."""
        if self._live is not None:
            self._live.update(text)
        else:
            say(text)
