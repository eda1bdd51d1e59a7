"""What happened to the rows of a bulk load: how many were taken, and why each other one was not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from eventsieve.errors import DataError

_SHOWN = 20
"""Reasons spelled out in a message; the report itself keeps them all."""


class LoadWarning(UserWarning):
    """Rows of a bulk load were left out; the load's report says which and why."""


@dataclass(frozen=True)
class Problem:
    """One row that was not taken. `line` counts from 1 in the source."""

    line: int
    id: str | int | None
    reason: str

    def __str__(self) -> str:
        who = "" if self.id is None else f" ({self.id!r})"
        return f"line {self.line}{who}: {self.reason}"


@dataclass
class LoadReport:
    """The outcome of one bulk load."""

    source: str
    added: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        return len(self.problems)

    def reject(self, line: int, id: str | int | None, reason: object) -> None:
        """Note a row that is not taken."""
        self.problems.append(Problem(line, id, str(reason)))

    def close(self, strict: bool) -> None:
        """Say what was left out: an error that refuses the whole load if `strict`, a warning otherwise."""
        if not self.problems:
            return
        shown = "\n  ".join(map(str, self.problems[:_SHOWN]))
        rest = f"\n  and {self.rejected - _SHOWN} more" if self.rejected > _SHOWN else ""
        if strict:
            raise DataError(
                f"{self.source}: {self.rejected} of {self.added + self.rejected} rows are not acceptable, "
                f"so nothing was loaded (strict); mend them or load without strict\n  {shown}{rest}"
            )
        warnings.warn(
            f"{self.source}: {self.rejected} of {self.added + self.rejected} rows were left out\n  {shown}{rest}",
            LoadWarning,
            stacklevel=4,
        )
