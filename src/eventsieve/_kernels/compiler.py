"""The one decorator that compiles kernels, so that all compiler flags stand in one place.

Exactness rules the flags: no `fastmath`, nothing that flushes denormals. `nogil` lets threads of one
process match at the same time. Compiled code is cached in a folder keyed by a hash of this package's sources and of
those beside the kernel, because Numba notices an edit of a kernel's own file but not of a helper or a constant in
another one. Hence the rule: a kernel uses what is in its own folder or in `_kernels`, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False, "boundscheck": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays and scalars; it is called like the function itself."""
    return _compiled(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small helper that always melts into the kernels that call it."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[P, R], **more: Any) -> Callable[P, R]:
    # Numba fixes a function's cache folder when it is decorated, so the setting is ours only meanwhile.
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_folder(Path(function.__code__.co_filename).parent)
    try:
        return cast(Callable[P, R], numba.njit(cache=True, **_FLAGS, **more)(function))
    except RuntimeError:
        # Imported from an archive (spark-submit --py-files): there is no source file to key a cache by.
        return cast(Callable[P, R], numba.njit(**_FLAGS, **more)(function))
    finally:
        config.CACHE_DIR = before


@cache
def cache_folder(home: Path) -> str:
    """Return the folder for kernels of the folder `home`, compiled with exactly these helpers."""
    digest = hashlib.sha256(numba.__version__.encode())
    for folder in (Path(__file__).parent, home):
        for source in sorted(folder.glob("*.py")):
            digest.update(source.name.encode() + source.read_bytes())
    base = os.environ.get("EVENTSIEVE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "eventsieve"
    )
    return os.path.join(base, "compiled", digest.hexdigest()[:16])
