"""Check residuals on candidates: what a matcher reports of clauses whose intervals do not say everything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve.errors import FilterError
from eventsieve.model.columns import EventColumns
from eventsieve.model.events import Events
from eventsieve.model.residuals import (
    ALL_OF,
    IN_SET,
    IS_ABSENT,
    NOT_PATTERN,
    PATTERN,
    STACK_DEPTH,
    Pattern,
    ResidualPrograms,
    ResidualTable,
)


def passing(
    table: ResidualTable, events: Events, columns: EventColumns, event: NDArray[np.int64], clause: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which (event, clause) candidates pass their residual checks; those without one pass."""
    programs = table.programs()
    row_of_pattern = np.full(len(table.patterns), -1, np.int64)
    if row_of_pattern.size:
        wanted = np.zeros(row_of_pattern.size, np.bool_)
        _mark_wanted_patterns(programs, clause, wanted)
        row_of_pattern[wanted] = np.arange(wanted.sum())
    truths = np.zeros((max(int(row_of_pattern.max(initial=-1)) + 1, 1), len(events)), np.int8)
    for number, pattern in enumerate(table.patterns):
        if row_of_pattern[number] >= 0:
            truths[row_of_pattern[number]] = _truth_of_events(pattern, events)
    out_passes = np.empty(clause.shape[0], np.bool_)
    _run_programs(programs, columns, event, clause, row_of_pattern, truths, np.empty(STACK_DEPTH, np.bool_), out_passes)
    return out_passes


def _truth_of_events(pattern: Pattern, events: Events) -> NDArray[np.int8]:
    """Return per event 1 if its text fits, 0 if not, -1 if it has none; one test per distinct text."""
    texts, which = events.texts(pattern.attribute)
    try:
        fits = pc.match_substring_regex(pa.array(texts, pa.string()), pattern.regex, ignore_case=pattern.ignore_case)
    except pa.ArrowInvalid as cause:
        raise FilterError(f"the regular expression {pattern.regex!r} cannot be used: {cause}") from cause
    # A last element that "no text" (-1) points at.
    table = np.append(fits.to_numpy(zero_copy_only=False).astype(np.int8), np.int8(-1))
    found: NDArray[np.int8] = table[which]
    return found


@kernel
def _mark_wanted_patterns(programs: ResidualPrograms, clause: NDArray[np.int32], out_wanted: NDArray[np.bool_]) -> None:
    for c in clause:
        if c >= programs.program_of_clause.shape[0] or programs.program_of_clause[c] < 0:
            continue
        program = programs.program_of_clause[c]
        for step in range(programs.program_start[program], programs.program_start[program + 1]):
            if programs.operation[step] == PATTERN or programs.operation[step] == NOT_PATTERN:
                out_wanted[programs.argument[step]] = True


@kernel
def _value_of(columns: EventColumns, e: int, a: int) -> float:
    """Return the event's value of an attribute, NaN if it has none."""
    first, stop = columns.start[e], columns.start[e + 1]
    while first < stop:
        middle = (first + stop) >> 1
        if columns.attribute[middle] < a:
            first = middle + 1
        else:
            stop = middle
    if first < columns.start[e + 1] and columns.attribute[first] == a:
        return columns.value[first]
    return np.nan


@kernel
def _in_set(programs: ResidualPrograms, step: int, value: float) -> bool:
    """Say whether the value lies in one of the set's disjoint, rising intervals; NaN lies in none."""
    first, stop = programs.set_start[step], programs.set_stop[step]
    while first < stop:
        middle = (first + stop) >> 1
        if programs.set_high[middle] < value:
            first = middle + 1
        else:
            stop = middle
    return first < programs.set_stop[step] and programs.set_low[first] <= value <= programs.set_high[first]


@kernel
def _run_programs(
    programs: ResidualPrograms,
    columns: EventColumns,
    event: NDArray[np.int64],
    clause: NDArray[np.int32],
    row_of_pattern: NDArray[np.int64],
    truth_of_pattern: NDArray[np.int8],
    stack: NDArray[np.bool_],
    out_passes: NDArray[np.bool_],
) -> None:
    for i in range(clause.shape[0]):
        c = clause[i]
        if c >= programs.program_of_clause.shape[0] or programs.program_of_clause[c] < 0:
            out_passes[i] = True
            continue
        program = programs.program_of_clause[c]
        depth = 0
        for step in range(programs.program_start[program], programs.program_start[program + 1]):
            operation, argument = programs.operation[step], programs.argument[step]
            if operation == IN_SET:
                stack[depth] = _in_set(programs, step, _value_of(columns, event[i], argument))
                depth += 1
            elif operation == IS_ABSENT:
                stack[depth] = np.isnan(_value_of(columns, event[i], argument))
                depth += 1
            elif operation == PATTERN:
                stack[depth] = truth_of_pattern[row_of_pattern[argument], event[i]] == 1
                depth += 1
            elif operation == NOT_PATTERN:
                stack[depth] = truth_of_pattern[row_of_pattern[argument], event[i]] == 0
                depth += 1
            elif operation == ALL_OF:
                depth -= 1
                stack[depth - 1] = stack[depth - 1] and stack[depth]
            else:
                depth -= 1
                stack[depth - 1] = stack[depth - 1] or stack[depth]
        out_passes[i] = stack[0]
