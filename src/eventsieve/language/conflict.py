"""Why a condition can never be true, in the words of its author."""

from __future__ import annotations

from itertools import combinations
from typing import Final

from eventsieve.language.normal import Conjunction, Normaliser, conjoined
from eventsieve.language.printer import to_text
from eventsieve.model.condition import And, Between, Comparison, Condition, Constant, In, Or
from eventsieve.model.types import Int

_MOST_COMPARED: Final = 100
"""Only so many parts are compared pair by pair: the reason is a courtesy and must not take long."""


def why_never(condition: Condition, normaliser: Normaliser) -> str:
    """Return the reason for which a condition that never holds does not."""
    return f"the filter can never match: {_reason(condition, normaliser)}"


def _reason(condition: Condition, normaliser: Normaliser) -> str:
    if isinstance(condition, Or):
        return f"none of its alternatives can be true; {_reason(condition.parts[0], normaliser)}"
    if isinstance(condition, And):
        return _conflict(condition.parts[:_MOST_COMPARED], normaliser)
    return _alone(condition, normaliser)


def _conflict(parts: tuple[Condition, ...], normaliser: Normaliser) -> str:
    normals: list[tuple[Condition, Conjunction]] = []
    for part in parts:
        normal = normaliser.normal(part)
        if normal is None:
            return _reason(part, normaliser)
        normals.append((part, normal))
    for (one, normal_one), (other, normal_other) in combinations(normals, 2):
        if conjoined((normal_one, normal_other)) is None:
            texts = [_shown(part, normaliser) for part in (one, other)]
            return f"{texts[0]} and {texts[1]} cannot both hold"
    return "its parts exclude each other"


def _alone(condition: Condition, normaliser: Normaliser) -> str:
    text = _shown(condition, normaliser)
    match condition:
        case Constant():
            return "it says FALSE"
        case Between(_, low, high) if low > high:  # type: ignore[operator]  # two values of one attribute
            return f"{text} is empty, its low end is above its high end"
        case Between(name) | Comparison(name) | In(name) if isinstance(normaliser.schema[name], Int):
            return f"{text} is true of no whole number, and {name!r} holds whole numbers"
    return f"{text} is true of no value"


def _shown(condition: Condition, normaliser: Normaliser) -> str:
    text = to_text(condition, normaliser.schema)
    return text if len(text) <= 120 else text[:117] + "..."
