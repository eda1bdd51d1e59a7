"""How much memory an index may take: as asked for, or a share of what the machine has left."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from eventsieve.errors import MatcherError

_UNITS: Final = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}
_SHARE: Final = 0.5
"""Of the free memory. Building takes more than what is built, and the events and results need room as well."""
_UNKNOWN: Final = 4 * 10**9
"""Taken as free where the system does not say."""


def read_memory(given: Any) -> int:
    """Return a number of bytes from a number or a text with a unit.

    >>> read_memory("2GB"), read_memory("512 MiB"), read_memory(1000)
    (2000000000, 536870912, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", str(given).upper())
    if isinstance(given, bool) or found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        raise MatcherError(f"memory is a number of bytes or a text like '2GB' or '512MiB', not {given!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def default_budget() -> int:
    """Return half of the memory that this process could still take."""
    free = [each for each in (_available(), _left_in_group()) if each is not None]
    return int(_SHARE * min(free, default=_UNKNOWN))


def shown(size: float) -> str:
    """Return a size for people.

    >>> shown(584_000_000), shown(1234)
    ('584 MB', '1.23 kB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass  # only Linux has that file
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_group() -> int | None:
    """Return what the control group of a container still allows, where it sets a limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(0, int(limit) - int((group / "memory.current").read_text("ascii")))
    except (OSError, ValueError):
        return None
