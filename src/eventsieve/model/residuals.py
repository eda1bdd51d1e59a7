"""Residual checks in flat form: a short postfix program per clause that needs one.

`a IN (twenty values) AND note LIKE '%x%'` becomes  in-set, pattern, all-of.  Compiled code runs the program of a
candidate with a small stack of truths; only the outcomes of patterns are worked out outside, once per distinct text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import FilterError
from eventsieve.model.clause import AllOf, AnyOf, InSet, IsAbsent, MatchesPattern, Residual
from eventsieve.model.growing import GrowingArray

IN_SET: Final = 0
IS_ABSENT: Final = 1
PATTERN: Final = 2
NOT_PATTERN: Final = 3
ALL_OF: Final = 4
ANY_OF: Final = 5

STACK_DEPTH: Final = 64
"""Truths a program may hold at once; a filter that needs more is refused when it is compiled."""


class ResidualPrograms(NamedTuple):
    """Clause c runs the steps program_start[program_of_clause[c]]: up to the next start; -1 means no check."""

    program_of_clause: NDArray[np.int32]  # (n_clauses,) or shorter: clauses beyond its end have none
    program_start: NDArray[np.int64]  # (n_programs + 1,)
    operation: NDArray[np.int8]  # (n_steps,)
    argument: NDArray[np.int32]  # (n_steps,) an attribute or a pattern's number
    set_start: NDArray[np.int64]  # (n_steps,) for IN_SET: its intervals in set_low, set_high
    set_stop: NDArray[np.int64]  # (n_steps,)
    set_low: NDArray[np.float64]
    set_high: NDArray[np.float64]


class Pattern(NamedTuple):
    """A regular expression on a text attribute."""

    attribute: int
    regex: str
    ignore_case: bool


class ResidualTable:
    """The residual checks of a collection of clauses; grows as clauses come, identical patterns are kept once."""

    def __init__(self) -> None:
        self._columns = {name: GrowingArray(np.empty(0, dtype)) for name, dtype in _DTYPES.items()}
        self._columns["program_start"].extend(np.zeros(1, np.int64))
        self._pattern_numbers: dict[Pattern, int] = {}

    @property
    def empty(self) -> bool:
        """No clause has ever had a residual."""
        return len(self._columns["program_start"]) == 1

    @property
    def patterns(self) -> list[Pattern]:
        """The patterns by number."""
        return list(self._pattern_numbers)

    def programs(self) -> ResidualPrograms:
        """Return the programs for compiled code."""
        return ResidualPrograms(**{name: column.view for name, column in self._columns.items()})

    def set(self, clause: int, residual: Residual | None) -> None:
        """Give a clause its check, or none."""
        owner = self._columns["program_of_clause"]
        if residual is None:
            if clause < len(owner):
                owner.view[clause] = -1
            return
        if _depth(residual) > STACK_DEPTH:
            raise FilterError(
                "the filter nests too many alternatives to be checked; split it into several subscriptions"
            )
        owner.resize(max(len(owner), clause + 1), -1)
        owner.view[clause] = len(self._columns["program_start"]) - 1
        self._write(residual)
        self._columns["program_start"].extend(np.array([len(self._columns["operation"])]))

    def _write(self, residual: Residual) -> None:
        match residual:
            case InSet(attribute, intervals):
                first = len(self._columns["set_low"])
                self._columns["set_low"].extend(np.array([interval.low for interval in intervals]))
                self._columns["set_high"].extend(np.array([interval.high for interval in intervals]))
                self._step(IN_SET, attribute, first, first + len(intervals))
            case IsAbsent(attribute):
                self._step(IS_ABSENT, attribute)
            case MatchesPattern(attribute, regex, ignore_case, negated):
                pattern = Pattern(attribute, regex, ignore_case)
                number = self._pattern_numbers.setdefault(pattern, len(self._pattern_numbers))
                self._step(NOT_PATTERN if negated else PATTERN, number)
            case AllOf(parts) | AnyOf(parts):
                # Two operands at a time, so that a long list needs no deep stack.
                self._write(parts[0])
                for part in parts[1:]:
                    self._write(part)
                    self._step(ALL_OF if isinstance(residual, AllOf) else ANY_OF, 0)

    def _step(self, operation: int, argument: int, first: int = 0, stop: int = 0) -> None:
        for name, value in zip(
            ("operation", "argument", "set_start", "set_stop"), (operation, argument, first, stop), strict=True
        ):
            self._columns[name].extend(np.array([value]))

    def copy(self) -> ResidualTable:
        """Return an independent copy."""
        other = ResidualTable()
        other._columns = {name: GrowingArray(column.view.copy()) for name, column in self._columns.items()}
        other._pattern_numbers = dict(self._pattern_numbers)
        return other

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the programs as named arrays, for a snapshot; `patterns` is stored beside them."""
        return {name: column.view for name, column in self._columns.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], patterns: list[Pattern]) -> ResidualTable:
        """Take up what `arrays` and `patterns` gave."""
        table = cls()
        table._columns = {name: GrowingArray(arrays[name]) for name in _DTYPES}
        table._pattern_numbers = {pattern: number for number, pattern in enumerate(patterns)}
        return table


_DTYPES: Final[dict[str, Any]] = {
    "program_of_clause": np.int32,
    "program_start": np.int64,
    "operation": np.int8,
    "argument": np.int32,
    "set_start": np.int64,
    "set_stop": np.int64,
    "set_low": np.float64,
    "set_high": np.float64,
}


def _depth(residual: Residual) -> int:
    """Return the number of truths on the stack that the postfix program needs at most."""
    if isinstance(residual, AllOf | AnyOf):
        return max(_depth(part) + (position > 0) for position, part in enumerate(residual.parts))
    return 1
