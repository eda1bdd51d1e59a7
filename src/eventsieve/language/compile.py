"""Conditions to clauses: what an index can be built from.

Choices and sets of several intervals multiply clauses. They are multiplied out from the smallest on while the
product stays within a limit; beyond it a clause keeps the hull of a set as its interval and leaves the exact set,
or the whole choice, to a check on candidates.
"""

from __future__ import annotations

import math

from eventsieve.errors import FilterError
from eventsieve.language.conflict import why_never
from eventsieve.language.intervals import IntervalSet, hull
from eventsieve.language.normal import Choice, Conjunction, Normaliser, conjoined, simplified
from eventsieve.model.clause import AllOf, AnyOf, Bound, Clause, ClosedInterval, InSet, IsAbsent, Residual
from eventsieve.model.codes import Codes
from eventsieve.model.condition import Condition
from eventsieve.model.schema import Schema

_MOST_COMPARED = 64
"""Up to so many clauses are compared pair by pair for one that covers another."""


def compile_filter(condition: Condition, schema: Schema, codes: Codes, limit: int = 16) -> list[Clause]:
    """Return clauses of which one matches exactly when the condition is true; raise FilterError if it never is.

    Texts and integers beyond 2**53 that the condition names are given codes. An OR at the top gives a clause
    per alternative, however many; all other multiplication stays within `limit`.

    >>> from eventsieve.model.condition import Between
    >>> from eventsieve.model.types import Int
    >>> compile_filter(Between("volume", 1, 5), Schema({"volume": Int()}), Codes())
    [Clause(bounds=(Bound(attribute=0, low=1.0, high=5.0),), residual=None)]
    """
    normaliser = Normaliser(schema, codes)
    normal = normaliser.normal(condition)
    clauses = _expanded(normal, limit) if normal is not None else []
    if not clauses:
        raise FilterError(why_never(condition, normaliser))
    return _without_covered(list(dict.fromkeys(clauses)))


def _expanded(conjunction: Conjunction, budget: int) -> list[Clause]:
    """Return the clauses of a conjunction: at most `budget`, but for the alternatives of a single choice."""
    reduced = simplified(conjunction)
    if reduced is None:
        return []
    rest, alternatives = _smallest_factor(reduced, budget)
    if not alternatives:
        clause = _clause(reduced)
        return [clause] if clause else []
    merged = [each for each in (conjoined((rest, alternative)) for alternative in alternatives) if each is not None]
    return [clause for each in merged for clause in _expanded(each, max(1, budget // len(merged)))]


def _smallest_factor(conjunction: Conjunction, budget: int) -> tuple[Conjunction, Choice]:
    """Return the choice or set with the fewest alternatives, as such, and what remains without it."""
    sets, choices = conjunction.sets, conjunction.choices
    if len(choices) == 1 and not (sets or conjunction.absent or conjunction.patterns):
        return Conjunction(), choices[0]
    factors = [(len(values), index, True) for index, (_, values) in enumerate(sets) if len(values) > 1]
    factors += [(len(choice), index, False) for index, choice in enumerate(choices)]
    size, index, is_set = min(factors, default=(math.inf, 0, True))
    if size > budget:
        return conjunction, ()
    if is_set:
        attribute, values = sets[index]
        sets = sets[:index] + sets[index + 1 :]
        alternatives = tuple(Conjunction(((attribute, (interval,)),)) for interval in values)
    else:
        alternatives = choices[index]
        choices = choices[:index] + choices[index + 1 :]
    return Conjunction(sets, conjunction.absent, conjunction.patterns, choices), alternatives


def _clause(conjunction: Conjunction) -> Clause | None:
    """Return one clause for all of a conjunction, or None if its choices' hulls rule it out."""
    hulls = _hulls(conjunction)
    if any(low > high for low, high in hulls.values()):
        return None
    bounds = tuple(Bound(attribute, *hulls[attribute]) for attribute in sorted(hulls))
    exact = [InSet(attribute, values) for attribute, values in conjunction.sets if len(values) > 1]
    return Clause(bounds, _all_of([*exact, *_checks(conjunction)]))


def _hulls(conjunction: Conjunction) -> dict[int, ClosedInterval]:
    """Return an interval for every attribute that has to be present, as narrow as is easily known."""
    found = {attribute: hull(values) for attribute, values in conjunction.sets}
    for choice in conjunction.choices:
        each = [_hulls(alternative) for alternative in choice]
        for attribute in set.intersection(*(set(hulls) for hulls in each)):
            low = min(hulls[attribute].low for hulls in each)
            high = max(hulls[attribute].high for hulls in each)
            known = found.get(attribute, ClosedInterval(-math.inf, math.inf))
            found[attribute] = ClosedInterval(max(low, known.low), min(high, known.high))
    return found


def _checks(conjunction: Conjunction) -> list[Residual]:
    """Return what is left to check beside the sets."""
    return [
        *(IsAbsent(attribute) for attribute in sorted(conjunction.absent)),
        *conjunction.patterns,
        *(AnyOf(tuple(map(_whole_check, choice))) for choice in conjunction.choices),
    ]


def _whole_check(conjunction: Conjunction) -> Residual:
    """Return an alternative of a choice as one check. An alternative that always holds is never part of a choice."""
    # A pattern asks for presence by itself, so it needs no set beside it that only does the same.
    patterned = {pattern.attribute for pattern in conjunction.patterns}
    sets = [
        InSet(attribute, values)
        for attribute, values in conjunction.sets
        if not (attribute in patterned and _is_everything(values))
    ]
    check = _all_of([*sets, *_checks(conjunction)])
    assert check is not None
    return check


def _is_everything(values: IntervalSet) -> bool:
    return values[0] == (-math.inf, math.inf)


def _all_of(checks: list[Residual]) -> Residual | None:
    if len(checks) < 2:
        return checks[0] if checks else None
    return AllOf(tuple(checks))


def _without_covered(clauses: list[Clause]) -> list[Clause]:
    """Leave out clauses that match only where another one, without residual checks, matches too."""
    if not 1 < len(clauses) <= _MOST_COMPARED:
        return clauses
    return [
        clause
        for clause in clauses
        if not any(other is not clause and other.residual is None and _covers(other, clause) for other in clauses)
    ]


def _covers(outer: Clause, inner: Clause) -> bool:
    intervals = {attribute: (low, high) for attribute, low, high in inner.bounds}
    return all(
        attribute in intervals and low <= intervals[attribute][0] and intervals[attribute][1] <= high
        for attribute, low, high in outer.bounds
    )
