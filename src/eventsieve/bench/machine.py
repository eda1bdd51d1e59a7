"""Facts about the machine and the code that a record of a measurement needs to mean anything later."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("eventsieve", "numpy", "numba", "llvmlite", "pyarrow")


@cache
def cpu_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # only Linux has that file
    return platform.processor() or platform.machine()


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the speed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"  # run from its sources
    return found


@cache
def commit() -> str | None:
    """Return the commit this code is at, with `-dirty` if it was changed since; None outside its repository."""
    here = Path(__file__).resolve()
    # Installed into an environment that lies inside some other repository, that one's commit would say nothing.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    return _git(here.parent, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
