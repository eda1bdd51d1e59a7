"""The ledger: what is under way, and how far each publisher is done.

Batches are entered in the order they are taken from the input queue. One is settled when every delivery it gave rise to
has been acknowledged; a position is safe when its batch and all before it are settled. So what a source is told to
forget has been delivered, whatever finished first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

_COMPACT_FROM: Final = 64


class Mark(NamedTuple):
    """A publisher of one origin (a source, a journal), and a position of its messages."""

    origin: object
    publisher: str
    position: int


class Receipt:
    """A batch that is under way."""

    __slots__ = ("outstanding", "positions")

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.outstanding = 1
        """Deliveries not acknowledged yet, and 1 for the matching itself."""
        self.positions: dict[tuple[object, str], int] = {}
        for origin, publisher, position in marks:
            self.positions[origin, publisher] = position  # parcels come in order, so the last is the highest


class Ledger:
    """All receipts that are not settled, in order. Safe to use from any thread."""

    def __init__(self, on_safe: Callable[[], None] | None = None) -> None:
        self._lock = threading.Condition()
        self._open: deque[Receipt] = deque()
        self._n_unsettled = 0
        self._safe: dict[tuple[object, str], int] = {}
        self._on_safe = on_safe

    def __len__(self) -> int:
        """Return the number of batches that are not settled."""
        return self._n_unsettled

    def enter(self, marks: Iterable[Mark]) -> Receipt:
        """Open a receipt for a batch that is about to be matched."""
        receipt = Receipt(marks)
        with self._lock:
            self._open.append(receipt)
            self._n_unsettled += 1
        return receipt

    def expect(self, receipt: Receipt, deliveries: int) -> None:
        """Say how many acknowledgements a batch needs beside the one for its matching."""
        with self._lock:
            receipt.outstanding += deliveries

    def settle(self, receipt: Receipt, n: int = 1) -> None:
        """Count acknowledgements."""
        with self._lock:
            receipt.outstanding -= n
            if receipt.outstanding:
                return
            self._n_unsettled -= 1
            moved = self._advance()
            if len(self._open) > _COMPACT_FROM + 2 * self._n_unsettled:
                self._compact()
            self._lock.notify_all()
        if moved and self._on_safe is not None:
            self._on_safe()

    def take_safe(self, origin: object) -> dict[str, int]:
        """Return what has become safe for an origin since the last call: publisher -> position."""
        with self._lock:
            found = {key: position for key, position in self._safe.items() if key[0] is origin}
            for key in found:
                del self._safe[key]
        return {publisher: position for (_, publisher), position in found.items()}

    def forget(self, origin: object, publishers: Collection[str]) -> dict[str, int]:
        """Never report these publishers again for what is under way; return what was safe and not yet taken."""
        keys = [(origin, publisher) for publisher in publishers]
        with self._lock:
            for receipt in self._open:
                for key in keys:
                    receipt.positions.pop(key, None)
            return {key[1]: self._safe.pop(key) for key in keys if key in self._safe}

    def wait_for(self, origin: object, publishers: Collection[str], timeout: float | None) -> bool:
        """Wait until nothing of these publishers is under way; say whether that is so."""
        keys = [(origin, publisher) for publisher in publishers]
        with self._lock:
            return self._lock.wait_for(
                lambda: not any(key in receipt.positions for receipt in self._open for key in keys), timeout
            )

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until every batch is settled; say whether that is so."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._n_unsettled, timeout)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._lock:
            self._lock.notify_all()

    def _advance(self) -> bool:
        moved = False
        while self._open and not self._open[0].outstanding:
            self._safe.update(self._open.popleft().positions)
            moved = True
        return moved

    def _compact(self) -> None:
        """Merge neighbours that are settled: behind one stuck delivery the list must not grow with every batch."""
        kept: deque[Receipt] = deque()
        for receipt in self._open:
            if kept and not receipt.outstanding and not kept[-1].outstanding:
                kept[-1].positions.update(receipt.positions)
            else:
                kept.append(receipt)
        self._open = kept
