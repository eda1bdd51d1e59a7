"""LIKE patterns: read once into texts and wildcards, then written as a regular expression.

As in DuckDB there is no escape character unless ESCAPE names one.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc


class Wildcard(Enum):
    """What stands in a pattern for characters it does not name."""

    ANY = "%"
    ONE = "_"


@lru_cache(maxsize=1024)
def read_like(pattern: str, escape: str | None = None) -> tuple[str | Wildcard, ...]:
    """Return the pattern as texts and wildcards; raise ValueError with the reason if it has no meaning."""
    if escape and len(escape) != 1:
        raise ValueError(f"ESCAPE takes one character, not {escape!r}")
    parts: list[str | Wildcard] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("the pattern ends with its escape character, which has nothing to escape")
            text += escaped
        elif character in "%_":
            parts += [text] if text else []
            parts.append(Wildcard(character))
            text = ""
        else:
            text += character
    return tuple(parts + ([text] if text else []))


def like_regex(pattern: str, escape: str | None = None) -> str:
    """Return the RE2 expression that matches exactly the texts that LIKE does.

    >>> like_regex("a.%")
    '(?s)^a\\\\..*$'
    """
    return "(?s)^" + "".join(map(_regex_of, read_like(pattern, escape))) + "$"


def check_regex(pattern: str) -> None:
    """Raise ValueError with RE2's reason if the pattern is not a regular expression."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as cause:
        raise ValueError(f"{pattern!r} is not a regular expression in RE2 syntax: {cause}") from cause


def _regex_of(part: str | Wildcard) -> str:
    if isinstance(part, Wildcard):
        return ".*" if part is Wildcard.ANY else "."
    return "".join(map(_literal, part))


def _literal(character: str) -> str:
    # RE2 takes a backslash before ASCII punctuation only; letters, digits and all else stand for themselves.
    if character == "\0":
        return r"\x00"
    if character.isascii() and not (character.isalnum() or character == "_"):
        return "\\" + character
    return character
