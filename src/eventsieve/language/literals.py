"""Literals in a parsed filter: numbers and their arithmetic, texts, booleans and times, folded to one value."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Final

from sqlglot import exp

from eventsieve.errors import FilterError
from eventsieve.language.values import Written
from eventsieve.model.condition import moment
from eventsieve.model.types import Time

_NUMBER: Final = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,4})?", re.ASCII)
_LONGEST_NUMBER: Final = 400
_MOST_BITS: Final = 1 << 14
"""Room for every float64 and for sums and products of a few; what needs more is not a filter but an attack."""

_ARITHMETIC: Final[dict[type[exp.Expr], Callable[[Fraction, Fraction], Fraction]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,  # 10 / 4 is 2.5, as in DuckDB
}
_TIME_LITERALS: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATE)


class Refusal(FilterError):
    """A FilterError on its way out that still has to learn text and position from its node."""

    def __init__(self, message: str, node: exp.Expr) -> None:
        super().__init__(message)
        self.node = node


def is_literal(node: exp.Expr) -> bool:
    """Say whether a node is a literal, or arithmetic that should come down to one."""
    return isinstance(unwrapped(node), (exp.Literal, exp.Boolean, exp.Neg, exp.Cast, *_ARITHMETIC))


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Return what stands within the parentheses around a node, if there are any."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def fold(node: exp.Expr) -> Written:
    """Return the value that a literal or literal arithmetic stands for."""
    node = unwrapped(node)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        raise Refusal("a comparison with NULL is never true; write IS NULL or IS NOT NULL", node)
    if isinstance(node, exp.Cast):
        return _time(node)
    if isinstance(node, exp.Neg):
        return -_folded_number(node.this)
    if type(node) in _ARITHMETIC:
        return _arithmetic(node)
    if isinstance(node, exp.Column):
        raise Refusal("arithmetic takes literals only; leave the attribute alone on its side of the comparison", node)
    raise Refusal(f"{described(node)} stands where a number, a text, a time or a boolean is needed", node)


def described(node: exp.Expr) -> str:
    """Name a piece of SQL in a message."""
    if isinstance(node, exp.Column):
        return f"the attribute {node.name!r}"
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}"
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    return f"the function {node.sql_name()}" if isinstance(node, exp.Func) else node.key.upper()


_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Cast: "a cast",
    exp.Case: "CASE",
    exp.And: "a condition",
    exp.Or: "a condition",
    exp.Not: "a condition",
    exp.EQ: "a condition",
    exp.NEQ: "a condition",
    exp.LT: "a condition",
    exp.LTE: "a condition",
    exp.GT: "a condition",
    exp.GTE: "a condition",
    exp.RegexpLike: "regexp_like",
    exp.Tuple: "a list",
    exp.Bracket: "a subscript",
    exp.Star: "*",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a parameter",
    exp.Mod: "the operator %",
    exp.Literal: "a literal alone",
    exp.Null: "NULL",
}


def _number(node: exp.Literal) -> Fraction:
    digits = str(node.this)
    if len(digits) > _LONGEST_NUMBER or not _NUMBER.fullmatch(digits):
        raise Refusal(f"{digits[:40]!r} is not a number that filters take; write it like 12, 1.5 or 2e-3", node)
    return _bounded(Fraction(digits.rstrip(".")), node)


def _folded_number(node: exp.Expr) -> Fraction:
    value = fold(node)
    if not isinstance(value, Fraction):
        raise Refusal("arithmetic takes numbers only", node)
    return value


def _arithmetic(node: exp.Expr) -> Fraction:
    # A chain of operators leans to the left and may be thousands long, so it is walked, not recursed into.
    chain: list[exp.Expr] = []
    first = node
    while type(first) in _ARITHMETIC:
        chain.append(first)
        first = unwrapped(first.this)
    value = _folded_number(first)
    for step in reversed(chain):
        other = _folded_number(step.expression)
        if isinstance(step, exp.Div) and other == 0:
            raise Refusal("this divides by zero", step.expression)
        value = _bounded(_ARITHMETIC[type(step)](value, other), step)
    return value


def _bounded(value: Fraction, node: exp.Expr) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise Refusal("the number has too many digits", node)
    return value


def _time(node: exp.Cast) -> datetime:
    text = node.this
    # `TIMESTAMP '...'` and a cast of a literal to a timestamp are one node; the latter means the same.
    is_text = isinstance(text, exp.Literal) and text.is_string
    if type(node) is not exp.Cast or node.to.this not in _TIME_LITERALS or not is_text:
        raise Refusal("a cast is not taken; a time is written TIMESTAMP '2026-01-31 09:30:00'", node)
    try:
        return moment(Time().number(text.this))
    except ValueError as cause:
        raise Refusal(str(cause), node) from cause
