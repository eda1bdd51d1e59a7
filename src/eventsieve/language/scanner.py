"""A compiled scanner for plain conjunctions: `a BETWEEN 1 AND 2 AND 3 < b AND c = 'x'`, over the bytes of Arrow texts.

It knows a small part of the language, and only forms about whose meaning there is no doubt; a row with anything
else is left alone, for the parser. It finds predicates and the spans of their literals. Times and booleans are
read on the spot; numbers are cast and texts are coded afterwards, in bulk.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve.language.printer import name_text
from eventsieve.model.schema import Schema

FLOAT, INT, BOOL, TIME, TEXT, TIMESTAMP = range(6)
"""The kinds of attributes, in the order of `KINDS`, and of literals: a TEXT literal may also mean a TIME."""
KINDS: Final = ("float", "int", "bool", "time", "text")

EQUAL, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST, BETWEEN = range(7)

NONE: Final = -1
"""The kind of what is no literal, or none that suits."""
NO_LITERAL: Final = -1
SHORTEST_PREDICATE: Final = 8
"""Bytes of `a=1 AND `: a text cannot hold more predicates than its length allows by this."""

_MOST_DIGITS: Final = 15
"""Decimal numbers of so many digits are told apart by float64, so whole ones among them are whole indeed."""
_LONGEST_NUMBER: Final = 100
_LARGEST_MICROS: Final = 2**53

_AND = np.frombuffer(b"AND", np.uint8)
_BETWEEN = np.frombuffer(b"BETWEEN", np.uint8)
_TRUE = np.frombuffer(b"TRUE", np.uint8)
_FALSE = np.frombuffer(b"FALSE", np.uint8)
_TIMESTAMP = np.frombuffer(b"TIMESTAMP", np.uint8)


class Names(NamedTuple):
    """The attributes whose names need no quotes, in a hash table: slots hold an attribute's number or -1."""

    slots: NDArray[np.int32]  # (a power of two,)
    start: NDArray[np.int64]  # (n_attributes + 1,)
    letters: NDArray[np.uint8]
    kind: NDArray[np.int8]  # (n_attributes,)


class Literal(NamedTuple):
    """The span of a literal, without quotes, and the value of a time or a boolean."""

    kind: int
    start: int
    stop: int
    value: float


class Predicate(NamedTuple):
    """One predicate and where it ends, -1 if it is none of ours. Only BETWEEN has a second literal of its own."""

    end: int
    attribute: int
    operator: int
    first: Literal
    second: Literal


class Predicates(NamedTuple):
    """What the scanner finds, row after row: predicates, and literals to which they point by number."""

    n_of_row: NDArray[np.int32]  # (n_rows,); 0 for a row that is left to the parser
    attribute: NDArray[np.int32]
    operator: NDArray[np.int8]
    first: NDArray[np.int64]  # the literal of a comparison, or the low end of BETWEEN
    second: NDArray[np.int64]  # the high end of BETWEEN, or NO_LITERAL
    literal_kind: NDArray[np.int8]
    literal_start: NDArray[np.int64]
    literal_stop: NDArray[np.int64]
    literal_value: NDArray[np.float64]  # of times and booleans

    def trimmed(self, n_predicates: int, n_literals: int) -> Predicates:
        """Return what is in use of the space."""
        return Predicates(
            self.n_of_row,
            self.attribute[:n_predicates],
            self.operator[:n_predicates],
            self.first[:n_predicates],
            self.second[:n_predicates],
            self.literal_kind[:n_literals],
            self.literal_start[:n_literals],
            self.literal_stop[:n_literals],
            self.literal_value[:n_literals],
        )


def names_of(schema: Schema) -> Names:
    """Return the table of names for a schema."""
    texts = [name.encode() for name in schema.names]
    start = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=start[1:])
    letters = np.frombuffer(b"".join(texts) + b"\0", np.uint8).copy()
    slots = np.full(1 << max(4, (4 * len(texts)).bit_length()), -1, np.int32)
    plain = np.array([name_text(name) == name for name in schema.names], np.bool_)
    _fill_slots(slots, start, letters, plain)
    return Names(slots, start, letters, np.array([KINDS.index(kind.kind) for kind in schema.types], np.int8))


def room_for(n_rows: int, n_bytes: int) -> Predicates:
    """Return space for all that so many bytes can hold."""
    room = n_bytes // SHORTEST_PREDICATE + n_rows + 1
    return Predicates(
        np.zeros(n_rows, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int8),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(2 * room, np.int8),
        np.empty(2 * room, np.int64),
        np.empty(2 * room, np.int64),
        np.empty(2 * room, np.float64),
    )


@kernel
def scan_rows(
    letters: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    names: Names,
    skipped: NDArray[np.bool_],
    out: Predicates,
) -> tuple[int, int]:
    """Scan the rows letters[offsets[r]:offsets[r+1]]; return how many predicates and literals were found."""
    n_predicates = n_literals = 0
    # The row in which an attribute was last seen: twice in one row is the parser's business.
    last_row = np.full(names.kind.shape[0], -1, np.int64)
    for row in range(offsets.shape[0] - 1):
        i = offsets[row]
        end = offsets[row + 1]
        p = n_predicates
        literal = n_literals
        while not skipped[row]:
            found = _scan_predicate(letters, i, end, names)
            i = found.end
            if i < 0 or last_row[found.attribute] == row:
                break
            last_row[found.attribute] = row
            out.attribute[p] = found.attribute
            out.operator[p] = found.operator
            out.first[p] = literal
            _put(found.first, literal, out)
            literal += 1
            out.second[p] = NO_LITERAL
            if found.operator == BETWEEN:
                out.second[p] = literal
                _put(found.second, literal, out)
                literal += 1
            p += 1
            i = _skip_space(letters, i, end)
            if i == end:
                out.n_of_row[row] = p - n_predicates
                n_predicates = p
                n_literals = literal
                break
            word = i
            i = _word_end(letters, i, end)
            if not _is_word(letters, word, i, _AND):
                break
    return n_predicates, n_literals


@inlined
def _put(found: Literal, literal: int, out: Predicates) -> None:
    out.literal_kind[literal] = found.kind
    out.literal_start[literal] = found.start
    out.literal_stop[literal] = found.stop
    out.literal_value[literal] = found.value


@kernel
def _scan_predicate(letters: NDArray[np.uint8], i: int, end: int, names: Names) -> Predicate:
    """Read one predicate with the attribute on either side."""
    i = start = _skip_space(letters, i, end)
    attribute = -1
    if i < end and _is_letter(letters[i]):
        i = _word_end(letters, i, end)
        attribute = _attribute(letters, start, i, names)
    if attribute < 0:
        return _scan_mirrored(letters, start, end, names)
    kind = names.kind[attribute]
    i = _skip_space(letters, i, end)
    if i < end and _is_letter(letters[i]):
        return _scan_between(letters, i, end, attribute, kind)
    operator, i = _scan_operator(letters, i, end)
    i, value = _scan_literal(letters, i, end)
    value = _suited(letters, kind, operator, value)
    return Predicate(i if operator >= 0 and value.kind >= 0 else -1, attribute, operator, value, value)


@kernel
def _scan_between(letters: NDArray[np.uint8], i: int, end: int, attribute: int, kind: int) -> Predicate:
    """Read `BETWEEN literal AND literal`."""
    word = i
    i = _word_end(letters, i, end)
    sound = _is_word(letters, word, i, _BETWEEN)
    i, low = _scan_literal(letters, i, end)
    i = word = _skip_space(letters, i, end)
    i = _word_end(letters, i, end)
    sound = sound and _is_word(letters, word, i, _AND)
    i, high = _scan_literal(letters, i, end)
    low = _suited(letters, kind, BETWEEN, low)
    high = _suited(letters, kind, BETWEEN, high)
    return Predicate(i if sound and low.kind >= 0 and high.kind >= 0 else -1, attribute, BETWEEN, low, high)


@kernel
def _scan_mirrored(letters: NDArray[np.uint8], i: int, end: int, names: Names) -> Predicate:
    """Read `literal operator attribute`."""
    i, value = _scan_literal(letters, i, end)
    operator, i = _scan_operator(letters, _skip_space(letters, i, end), end)
    i = start = _skip_space(letters, i, end)
    i = _word_end(letters, i, end)
    attribute = _attribute(letters, start, i, names)
    if operator < 0 or attribute < 0 or not _ends_token(letters, i, end):
        return Predicate(-1, attribute, operator, value, value)
    if operator == BELOW or operator == AT_MOST:
        operator += ABOVE - BELOW
    elif operator == ABOVE or operator == AT_LEAST:
        operator -= ABOVE - BELOW
    value = _suited(letters, names.kind[attribute], operator, value)
    return Predicate(i if value.kind >= 0 else -1, attribute, operator, value, value)


@kernel
def _scan_operator(letters: NDArray[np.uint8], i: int, end: int) -> tuple[int, int]:
    """Read a comparison; return its code (-1 if it is none) and where it ends."""
    if i >= end:
        return -1, i
    one = letters[i]
    two = letters[i + 1] if i + 1 < end else 0
    operator = -1
    if one == ord("="):
        operator = EQUAL
    elif one == ord("<"):
        operator = AT_MOST if two == ord("=") else UNEQUAL if two == ord(">") else BELOW
    elif one == ord(">"):
        operator = AT_LEAST if two == ord("=") else ABOVE
    elif one == ord("!") and two == ord("="):
        operator = UNEQUAL
    i += 2 if operator in (UNEQUAL, AT_MOST, AT_LEAST) else 1
    # What may follow at once is a space, a word, a digit, a text, or a minus with its digit: SQL has longer operators.
    if i < end and not (_is_space(letters[i]) or _is_letter(letters[i]) or _is_digit(letters[i])):
        if letters[i] != ord("'") and not (letters[i] == ord("-") and i + 1 < end and _is_digit(letters[i + 1])):
            return -1, i
    return operator, i


@kernel
def _scan_literal(letters: NDArray[np.uint8], i: int, end: int) -> tuple[int, Literal]:
    """Read a number, a text, a boolean or a timestamp; return where it ends, and it, of no kind if it is none."""
    i = _skip_space(letters, i, end)
    if i >= end:
        return end, Literal(NONE, i, i, 0.0)
    if letters[i] == ord("'"):
        found = _scan_text(letters, i, end, TEXT)
        i = found.stop + 1
    elif _is_letter(letters[i]):
        i, found = _scan_word(letters, i, end)
    else:
        found = _scan_number(letters, i, end)
        i = found.stop
    if found.kind < 0 or not _ends_token(letters, i, end):
        return end, Literal(NONE, i, i, 0.0)
    return i, found


@kernel
def _scan_word(letters: NDArray[np.uint8], i: int, end: int) -> tuple[int, Literal]:
    """Read TRUE, FALSE or a TIMESTAMP with its text."""
    stop = _word_end(letters, i, end)
    if _is_word(letters, i, stop, _TRUE):
        return stop, Literal(BOOL, i, stop, 1.0)
    if _is_word(letters, i, stop, _FALSE):
        return stop, Literal(BOOL, i, stop, 0.0)
    quote = _skip_space(letters, stop, end)
    if _is_word(letters, i, stop, _TIMESTAMP) and quote < end and letters[quote] == ord("'"):
        found = _scan_text(letters, quote, end, TIMESTAMP)
        return found.stop + 1, found
    return end, Literal(NONE, i, i, 0.0)


@kernel
def _scan_text(letters: NDArray[np.uint8], i: int, end: int, kind: int) -> Literal:
    """Read a text from its opening quote on. A doubled quote in it is noticed later: no token ends there."""
    start = i = i + 1
    while i < end and letters[i] != ord("'"):
        i += 1
    return Literal(kind if i < end else NONE, start, i, 0.0)


@kernel
def _scan_number(letters: NDArray[np.uint8], i: int, end: int) -> Literal:
    """Read digits, with a fraction and an exponent at most; INT if it is safe for whole numbers, FLOAT if not."""
    start = i
    if letters[i] == ord("-"):
        i += 1
    first = i
    i = _digits_end(letters, i, end)
    sound = i > first
    if i < end and letters[i] == ord("."):
        point = i
        i = _digits_end(letters, i + 1, end)
        sound = sound and i > point + 1
    kind = INT if i - first <= _MOST_DIGITS else FLOAT
    if i < end and (letters[i] == ord("e") or letters[i] == ord("E")):
        kind = FLOAT
        i += 1
        if i < end and (letters[i] == ord("-") or letters[i] == ord("+")):
            i += 1
        exponent = i
        i = _digits_end(letters, i, end)
        # With two digits at most, no number that is read here comes near the ends of float64.
        sound = sound and exponent < i <= exponent + 2
    return Literal(kind if sound and i - start <= _LONGEST_NUMBER else NONE, start, i, 0.0)


@kernel
def _suited(letters: NDArray[np.uint8], kind: int, operator: int, given: Literal) -> Literal:
    """Return the literal as an attribute of this kind takes it, of no kind if that is not one plain interval."""
    result = NONE
    value = given.value
    if operator == UNEQUAL and kind != BOOL:
        result = NONE
    elif kind == FLOAT:
        result = FLOAT if given.kind == FLOAT or given.kind == INT else NONE
    elif kind == TIME:
        if given.kind == TEXT or given.kind == TIMESTAMP:
            micros = _micros(letters, given.start, given.stop)
            value = float(micros)
            result = TIME if abs(micros) <= _LARGEST_MICROS else NONE
    elif kind == given.kind and (kind != TEXT or operator == EQUAL):
        result = kind
    return Literal(result, given.start, given.stop, value)


@kernel
def _micros(letters: NDArray[np.uint8], start: int, stop: int) -> int:
    """Return a time as microseconds since 1970: a date, or date and time with 0, 3 or 6 decimals; else out of range."""
    size = stop - start
    wrong = 2 * _LARGEST_MICROS
    if size not in (10, 19, 23, 26):
        return wrong
    for k in range(size):
        mark = letters[start + k]
        if k == 4 or k == 7:
            right = mark == ord("-")
        elif k == 10:
            right = mark == ord(" ") or mark == ord("T")
        elif k == 13 or k == 16:
            right = mark == ord(":")
        elif k == 19:
            right = mark == ord(".")
        else:
            right = _is_digit(mark)
        if not right:
            return wrong
    year = _digits(letters, start, start + 4)
    month = _digits(letters, start + 5, start + 7)
    day = _digits(letters, start + 8, start + 10)
    if year < 1600 or month < 1 or month > 12 or day < 1 or day > _days_of_month(year, month):
        return wrong
    seconds = _days_since_1970(year, month, day) * 86_400
    fraction = 0
    if size > 10:
        hour = _digits(letters, start + 11, start + 13)
        minute = _digits(letters, start + 14, start + 16)
        second = _digits(letters, start + 17, start + 19)
        if hour > 23 or minute > 59 or second > 59:
            return wrong
        seconds += hour * 3600 + minute * 60 + second
        if size > 19:
            fraction = _digits(letters, start + 20, stop) * (1000 if size == 23 else 1)
    return seconds * 1_000_000 + fraction


@kernel
def _days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28
    return 30 if month in (4, 6, 9, 11) else 31


@kernel
def _days_since_1970(year: int, month: int, day: int) -> int:
    """Count days in the Gregorian calendar, in years that begin in March so that the leap day comes last."""
    if month < 3:
        year -= 1
        month += 12
    leap_days = year // 4 - year // 100 + year // 400
    return year * 365 + leap_days + (153 * (month - 3) + 2) // 5 + day - 719_469


@kernel
def _digits(letters: NDArray[np.uint8], start: int, stop: int) -> int:
    value = 0
    for k in range(start, stop):
        value = value * 10 + int(np.int64(letters[k])) - 48
    return value


@kernel
def _fill_slots(
    slots: NDArray[np.int32], start: NDArray[np.int64], letters: NDArray[np.uint8], plain: NDArray[np.bool_]
) -> None:
    for attribute in range(plain.shape[0]):
        if plain[attribute]:
            slot = _hash(letters, start[attribute], start[attribute + 1]) & (slots.shape[0] - 1)
            while slots[slot] >= 0:
                slot = (slot + 1) & (slots.shape[0] - 1)
            slots[slot] = attribute


@kernel
def _attribute(letters: NDArray[np.uint8], start: int, stop: int, names: Names) -> int:
    """Return the attribute that a word names, or -1."""
    slot = _hash(letters, start, stop) & (names.slots.shape[0] - 1)
    while names.slots[slot] >= 0:
        attribute = int(names.slots[slot])
        first = names.start[attribute]
        if names.start[attribute + 1] - first == stop - start:
            k = 0
            while k < stop - start and names.letters[first + k] == letters[start + k]:
                k += 1
            if k == stop - start:
                return attribute
        slot = (slot + 1) & (names.slots.shape[0] - 1)
    return -1


@kernel
def _hash(letters: NDArray[np.uint8], start: int, stop: int) -> int:
    value = 0
    for k in range(start, stop):
        value = (value * 31 + int(np.int64(letters[k]))) & 0xFFFF_FFFF
    return value ^ (value >> 15)


@kernel
def _is_word(letters: NDArray[np.uint8], start: int, stop: int, upper: NDArray[np.uint8]) -> bool:
    """Say whether letters[start:stop] is this word, in either case."""
    if stop - start != upper.shape[0]:
        return False
    for k in range(upper.shape[0]):
        if (letters[start + k] & 0xDF) != upper[k]:
            return False
    return True


@kernel
def _word_end(letters: NDArray[np.uint8], i: int, end: int) -> int:
    while i < end and (_is_letter(letters[i]) or _is_digit(letters[i])):
        i += 1
    return i


@kernel
def _digits_end(letters: NDArray[np.uint8], i: int, end: int) -> int:
    while i < end and _is_digit(letters[i]):
        i += 1
    return i


@kernel
def _skip_space(letters: NDArray[np.uint8], i: int, end: int) -> int:
    while i < end and _is_space(letters[i]):
        i += 1
    return i


@kernel
def _ends_token(letters: NDArray[np.uint8], i: int, end: int) -> bool:
    """Say whether a literal or a name is really over here: a space, an operator or the end of the row follows."""
    return i == end or _is_space(letters[i]) or letters[i] == 60 or letters[i] == 61 or letters[i] == 62


@kernel
def _is_space(mark: int) -> bool:
    return mark == 32 or mark == 10 or mark == 9 or mark == 13


@kernel
def _is_digit(mark: int) -> bool:
    return mark >= 48 and mark <= 57


@kernel
def _is_letter(mark: int) -> bool:
    return (mark >= 97 and mark <= 122) or (mark >= 65 and mark <= 90) or mark == 95
