"""Filter text to a condition: sqlglot reads the SQL, and a whitelist of its nodes decides what is a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from eventsieve.errors import FilterError, suggestion
from eventsieve.language.literals import Refusal, described, fold, is_literal, unwrapped
from eventsieve.language.patterns import check_regex, read_like
from eventsieve.language.values import as_value
from eventsieve.model.condition import (
    And,
    Between,
    Comparison,
    Condition,
    Constant,
    Flag,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Regexp,
    Value,
)
from eventsieve.model.schema import Schema
from eventsieve.model.types import Bool, Text

LONGEST_TEXT: Final = 100_000
DEEPEST_NESTING: Final = 32
"""sqlglot descends about twenty Python calls per parenthesis, of the thousand that Python allows."""

_DIALECT: Final = Dialect.get_or_raise(None)
_OPERATORS: Final[dict[type[exp.Expr], Operator]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE: Final[dict[Operator, Callable[[Fraction, Fraction], bool]]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def parse(text: str, schema: Schema) -> Condition:
    """Return the condition that a filter text says; raise FilterError that points at what is wrong.

    >>> from eventsieve.model.types import Float
    >>> parse("10 < price", Schema({"price": Float()}))
    Comparison(attribute='price', operator='>', value=10.0)
    """
    if not isinstance(text, str):
        raise FilterError(f"a filter is a text, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise FilterError(
            f"the filter has {len(text)} characters; at most {LONGEST_TEXT} are taken: split it by its ORs"
        )
    try:
        return _Reader(schema).condition(_syntax(text))
    except Refusal as refusal:
        raise FilterError(refusal.reason, text, _position(refusal.node)) from refusal.__cause__
    except RecursionError:
        raise FilterError("the filter is nested too deeply; write it with fewer parentheses") from None


# -- syntax: sqlglot's part --------------------------------------------------------------------------------


def _syntax(text: str) -> exp.Expr:
    """Return sqlglot's tree, with its errors turned into ours."""
    try:
        tokens = _DIALECT.tokenize(text)
    except SqlglotError as cause:
        position = _unclosed_quote(text)
        reason = "the text cannot be read" if position is None else "this quote is never closed"
        raise FilterError(reason, text, position) from cause
    if not tokens:
        raise FilterError("the filter is empty; write TRUE for a subscription to every event")
    _check_tokens(tokens, text)
    try:
        tree = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse_into(exp.Condition, tokens, text)[0]
    except ParseError as cause:
        raise _syntax_error(cause, tokens, text) from cause
    except (SqlglotError, ValueError, AttributeError, TypeError, IndexError, KeyError) as cause:
        # sqlglot's parser is meant for valid SQL and may stumble over the rest in ways of its own.
        raise FilterError("the text is not a condition in SQL", text, 0) from cause
    if tree is None:
        raise FilterError("the text is not a condition in SQL", text, 0)
    return tree


def _check_tokens(tokens: list[Token], text: str) -> None:
    depth = 0
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE):
            depth += 1
            if depth > DEEPEST_NESTING:
                raise FilterError(f"parentheses are nested more than {DEEPEST_NESTING} deep", text, token.start)
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE):
            depth -= 1
        elif token.token_type is TokenType.SEMICOLON:
            raise FilterError("a filter is one condition, without a semicolon", text, token.start)


def _syntax_error(cause: ParseError, tokens: list[Token], text: str) -> FilterError:
    facts: dict[str, Any] = cause.errors[0] if cause.errors else {}
    place = (facts.get("line"), facts.get("col"))
    token = next((each for each in tokens if (each.line, each.col) == place), tokens[-1])
    if token is tokens[-1] and "Unexpected" not in str(facts.get("description")):
        return FilterError("the filter breaks off: something is missing at its end", text, token.end + 1)
    description = str(facts.get("description", ""))
    if description.startswith("Expecting"):
        return FilterError(f"expected {description.removeprefix('Expecting').strip()} here", text, token.start)
    shown = text[token.start : token.end + 1]
    return FilterError(f"{shown!r} is not expected here", text, token.start)


def _unclosed_quote(text: str) -> int | None:
    """Return where a quote begins that never ends. A doubled quote closes and opens again, which is all the same."""
    opened: int | None = None
    for position, character in enumerate(text):
        if opened is None:
            if character in "'\"":
                opened = position
        elif character == text[opened]:
            opened = None
    return opened


def _position(node: exp.Expr) -> int | None:
    """Return where a node begins. sqlglot notes it for names and literals, so others ask their descendants."""
    places: list[int] = [place for each in node.walk() if (place := each.meta.get("start")) is not None]
    if places:
        return min(places)
    return _position(node.parent) if node.parent is not None else None


# -- meaning: the whitelist --------------------------------------------------------------------------------


class _Reader:
    """Turns sqlglot's nodes into conditions over one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def condition(self, node: exp.Expr) -> Condition:
        node = unwrapped(node)
        if isinstance(node, exp.And | exp.Or):
            kind = type(node)
            parts = tuple(self.condition(part) for part in _chain(node, kind))
            return And(parts) if kind is exp.And else Or(parts)
        if isinstance(node, exp.Not):
            return Not(self.condition(node.this))
        if type(node) in _OPERATORS:
            return self.comparison(node, _OPERATORS[type(node)])
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Column):
            return self.flag(node)
        if type(node) in _READERS:
            condition = _READERS[type(node)](self, node)
            # Some of sqlglot's nodes carry their NOT themselves, others stand within a Not.
            return Not(condition) if node.args.get("negate") else condition
        raise Refusal(f"{described(node)} is not part of the filter language", node)

    def comparison(self, node: exp.Expr, operator: Operator) -> Condition:
        left, right = unwrapped(node.this), unwrapped(node.expression)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            self.name(left)
            self.name(right)
            raise Refusal("an attribute is compared with an attribute; only values are taken on the other side", right)
        if isinstance(right, exp.Column):
            left, right, operator = right, left, _MIRRORED[operator]
        if not isinstance(left, exp.Column) and is_literal(left) and is_literal(right):
            return self.constant(left, right, operator)
        name = self.name(left)
        return Comparison(name, operator, self.value(name, right, operator))

    def constant(self, left: exp.Expr, right: exp.Expr, operator: Operator) -> Constant:
        one, other = fold(left), fold(right)
        if isinstance(one, Fraction) and isinstance(other, Fraction):
            return Constant(_COMPARE[operator](one, other))
        raise Refusal("neither side of the comparison is an attribute", left)

    def flag(self, node: exp.Column) -> Flag:
        name = self.name(node)
        if not isinstance(self.schema[name], Bool):
            raise Refusal(f"{name!r} alone is no condition: it is {self.schema[name].kind}, not bool; compare it", node)
        return Flag(name)

    def between(self, node: exp.Expr) -> Between:
        _check_arguments(node, "low", "high")
        name = self.name(node.this)
        low, high = (self.value(name, node.args[end], "BETWEEN") for end in ("low", "high"))
        return Between(name, low, high)

    def membership(self, node: exp.Expr) -> In:
        name = self.name(node.this)
        for key in ("query", "unnest", "field"):
            if node.args.get(key) is not None:
                raise Refusal(
                    f"IN takes a list of values in parentheses, not {described(node.args[key])}", node.args[key]
                )
        _check_arguments(node, "expressions")
        if not node.expressions:
            raise Refusal("IN needs at least one value", node)
        return In(name, tuple(self.value(name, each, "IN") for each in node.expressions))

    def null_check(self, node: exp.Expr) -> IsNull:
        _check_arguments(node)
        if isinstance(node.expression, exp.Boolean):
            raise Refusal("IS TRUE and IS FALSE are not taken; write the attribute alone, or NOT before it", node)
        if not isinstance(node.expression, exp.Null):
            raise Refusal("IS takes NULL or NOT NULL only", node)
        return IsNull(self.name(node.this))

    def like(self, node: exp.Expr) -> Like:
        return self.pattern(node, None)

    def escaped_like(self, node: exp.Expr) -> Condition:
        like = node.this
        if not isinstance(like, exp.Like | exp.ILike):
            raise Refusal("ESCAPE belongs to LIKE or ILIKE", node)
        condition = self.pattern(like, self.text(node.expression, "ESCAPE"))
        return Not(condition) if like.args.get("negate") else condition

    def pattern(self, node: exp.Expr, escape: str | None) -> Like:
        _check_arguments(node)
        ignore_case = isinstance(node, exp.ILike)
        operator = "ILIKE" if ignore_case else "LIKE"
        name = self.text_name(node.this, operator)
        pattern = self.text(node.expression, operator)
        self.checked(node.expression, lambda: read_like(pattern, escape))
        return Like(name, pattern, ignore_case, escape)

    def regexp(self, node: exp.Expr) -> Regexp:
        _check_arguments(node)
        name = self.text_name(node.this, "regexp_like")
        pattern = self.text(node.expression, "regexp_like")
        self.checked(node.expression, lambda: check_regex(pattern))
        return Regexp(name, pattern)

    # -- names and values --

    def name(self, node: exp.Expr) -> str:
        """Return the attribute a node names."""
        node = unwrapped(node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise Refusal(f"{described(node)} stands where an attribute is needed", node)
        name = ".".join(part.name for part in node.parts)
        if name not in self.schema:
            hint = "; texts take single quotes" if getattr(node.this, "quoted", False) else ""
            raise Refusal(f"no attribute is named {name!r}{hint}{suggestion(name, self.schema.names)}", node)
        return name

    def text_name(self, node: exp.Expr, operator: str) -> str:
        name = self.name(node)
        if not isinstance(self.schema[name], Text):
            raise Refusal(f"{operator} takes a text attribute; {name!r} is {self.schema[name].kind}", node)
        return name

    def value(self, name: str, node: exp.Expr, operator: str) -> Value:
        """Return the value a literal stands for, as the attribute takes it."""
        written = fold(node)
        value: Value = self.checked(node, lambda: as_value(self.schema[name], written, operator), f"{name!r}: ")
        return value

    def text(self, node: exp.Expr, operator: str) -> str:
        literal = unwrapped(node)
        if not (isinstance(literal, exp.Literal) and literal.is_string):
            raise Refusal(f"{operator} takes a text in single quotes, not {described(literal)}", node)
        return str(literal.this)

    def checked(self, node: exp.Expr, check: Callable[[], Any], prefix: str = "") -> Any:
        try:
            return check()
        except ValueError as cause:
            raise Refusal(prefix + str(cause), node) from cause


_READERS: Final[dict[type[exp.Expr], Callable[[_Reader, exp.Expr], Condition]]] = {
    exp.Between: _Reader.between,
    exp.In: _Reader.membership,
    exp.Is: _Reader.null_check,
    exp.Like: _Reader.like,
    exp.ILike: _Reader.like,
    exp.Escape: _Reader.escaped_like,
    exp.RegexpLike: _Reader.regexp,
}


def _check_arguments(node: exp.Expr, *more: str) -> None:
    """Refuse what else sqlglot hangs on a node, now or in a later version, rather than pass over its meaning."""
    for name, value in node.args.items():
        if value and name not in ("this", "expression", "negate", *more):
            raise Refusal(f"{described(node)} is not taken with {name.upper().replace('_', ' ')}", node)


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the parts of `a AND b AND c`, which leans to the left and may be thousands long, without recursion."""
    parts: list[exp.Expr] = []
    while isinstance(node, kind):
        parts.append(node.expression)
        node = unwrapped(node.this)
    parts.append(node)
    return reversed(parts)
