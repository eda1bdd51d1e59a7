"""The value transform of one matcher: from its parameter to the table its kernels read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.base import Matcher
from eventsieve.model.columns import flat
from eventsieve.model.statistics import QuantileSummary, statistics_of
from eventsieve.model.transform import (
    TransformChoice,
    TransformTable,
    choose_distributions,
    parse_distribution,
    transform_table,
)

_LEARNED_FROM = 1 << 16
"""Clauses at most that quantiles are learned from."""


def check_transform(choice: TransformChoice) -> TransformChoice:
    """Return the choice; raise ValueError if one of its texts cannot be read."""
    for text in [choice] if isinstance(choice, str) else choice.values():
        parse_distribution(text)
    return choice


def table_for(matcher: Matcher, choice: TransformChoice) -> TransformTable:
    """Return the table that a matcher about to be built asked for."""

    @cache
    def bounds() -> QuantileSummary:
        step = max(1, matcher.n_slots // _LEARNED_FROM)
        sample = matcher.clauses._replace(start=matcher.clauses.start[::step], stop=matcher.clauses.stop[::step])
        return statistics_of(sample, matcher.domains).bounds

    try:
        distributions = choose_distributions(choice, matcher.n_attributes, lambda a: bounds().value[a])
    except ValueError as cause:
        raise MatcherError(f"matcher {matcher.name!r}: {cause}") from cause
    return transform_table(matcher.domains, distributions)


def table_arrays(table: TransformTable) -> dict[str, NDArray[Any]]:
    """Return a table's columns under the names a snapshot has them by."""
    return {f"transform_{name}": column for name, column in table._asdict().items()}


def table_from(arrays: Mapping[str, NDArray[Any]]) -> TransformTable:
    """Return the table that `table_arrays` gave."""
    columns = (arrays[f"transform_{name}"] for name in TransformTable._fields)
    return TransformTable(*(flat(column, column.dtype) for column in columns))
