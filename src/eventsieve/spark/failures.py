"""What a user sees when a worker fails: our own message, not the stack traces of two languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eventsieve import errors

_OURS = re.compile(r"eventsieve\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\tat |\nJVM stacktrace|\n  File |\Z)", re.DOTALL)


def cause_in(text: str) -> errors.EventsieveError | None:
    """Return the error of ours that a message from Spark quotes, if there is one.

    >>> cause_in("Job aborted: eventsieve.errors.SnapshotError: the snapshot x is damaged\\n\\tat java.lang")
    SnapshotError('the snapshot x is damaged')
    """
    found = list(_OURS.finditer(text))
    if not found:
        return None
    kind = getattr(errors, found[-1][1], errors.EventsieveError)
    return kind(found[-1][2].strip()) if issubclass(kind, errors.EventsieveError) else None


def reason_in(text: str) -> str:
    """Return the one line of a message from Spark that says what is wrong.

    >>> reason_in("An error occurred while calling o17.parquet.\\n: a.b.SparkException: no such file\\n\\tat c")
    'no such file'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return re.sub(r"^: ([\w.$]+(?:Exception|Error): )?", "", lines[1])
    return lines[0]


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error that a worker raised on purpose back into itself, and any other of Spark's into one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as failure:
        ours = cause_in(str(failure))
        if ours is not None:
            raise ours from failure
        raise errors.SparkError(f"Spark could not finish: {reason_in(str(failure))}") from failure
