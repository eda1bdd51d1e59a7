"""One writer at a time on a machine, so that a long import is not overtaken again and again by small edits.

This is for progress only: that no update is lost rests on the table's own commit, which also holds between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writer_lock(path: Path) -> Iterator[None]:
    """Hold the lock file; the system frees it when its holder ends, however it ends."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
