"""A schema guessed from filter texts, where none is declared: what is each attribute compared with?"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from eventsieve.model.schema import Schema
from eventsieve.model.types import TYPES

_PREDICATES = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.In,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
)
_ENOUGH = 25
"""Comparisons after which an attribute's type is taken as settled: filters that name only such ones are not parsed."""

_QUOTED = re.compile(r"'[^']*'")
_WORD = re.compile(r"[^\W\d]\w*")
_KEYWORDS = re.compile(
    "AND|BETWEEN|DATE|ESCAPE|FALSE|I?LIKE|I[NS]|NOT|NULL|OR|REGEXP_LIKE|TIMESTAMP|TRUE", re.IGNORECASE
)


def guess_schema(filters: Iterable[str], known: Collection[str] = ()) -> Schema:
    """Return the attributes that filters name, each of the type of the values it is compared with most often.

    Attributes that are `known` already are left out.

    >>> dict(guess_schema(["price > 10 AND symbol = 'A'", "price < 5"]))
    {'price': Float(low=None, high=None), 'symbol': Text()}
    """
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    settled = set(known)
    for text in filters:
        if not _names_others(text, settled):
            continue
        try:
            tree = sqlglot.parse_one(text, into=exp.Condition)
        except (SqlglotError, RecursionError):
            continue  # the check itself says what is wrong with it
        for name, kind in _comparisons(tree):
            votes[name][kind] += 1
            if votes[name].total() >= _ENOUGH:
                settled.add(name)
        for name in _bare_names(tree):
            votes[name]["bool"] += 1
        for column in tree.find_all(exp.Column):
            votes[_name(column)] += Counter()
    kinds = {name: _kind_by_vote(counts) for name, counts in votes.items() if name not in known}
    decisions = tuple(f"{name}: {kind}{_dissent(votes[name], kind)}" for name, kind in kinds.items())
    return Schema({name: TYPES[kind]() for name, kind in kinds.items()}, decisions)


def _names_others(text: str, settled: Collection[str]) -> bool:
    words = _WORD.findall(_QUOTED.sub("", text))
    return any(word not in settled and not _KEYWORDS.fullmatch(word) for word in words)


def _kind_by_vote(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else "text"


def _comparisons(tree: exp.Expr) -> Iterator[tuple[str, str]]:
    """Yield (attribute, kind of the value) for every value an attribute is compared with."""
    for predicate in tree.find_all(*_PREDICATES):
        names = [_name(column) for column in predicate.find_all(exp.Column)]
        for kind in {_kind(node) for node in predicate.find_all(exp.Literal, exp.Boolean)}:
            yield from ((name, kind) for name in names)


def _bare_names(tree: exp.Expr) -> Iterator[str]:
    """Yield attributes that stand as a condition of their own."""
    for column in tree.find_all(exp.Column):
        parent = column.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        if parent is None or isinstance(parent, exp.And | exp.Or | exp.Not):
            yield _name(column)


def _kind(node: exp.Expr) -> str:
    if isinstance(node, exp.Boolean):
        return "bool"
    if isinstance(node.parent, exp.Cast):
        return "time"
    if isinstance(node, exp.Literal) and node.is_string:
        return "text"
    return "float"


def _name(column: exp.Column) -> str:
    return ".".join(part.name for part in column.parts)


def _dissent(counts: Counter[str], kind: str) -> str:
    others = [other for other in counts if other != kind]
    return f" (but compared with {', '.join(others)} in places)" if others else ""
