"""Reads literals of JavaScript, in one pass and without recursion: the time grows with the text alone."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from crawl_engine.extract.documents.json_value import MISSING, parse_json
from crawl_engine.late_regex import late_regex

_BLANK = r"(?:[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|<!--[^\n\r]*+|/\*(?:.*?\*/|.*+))*+"
_STRING = r""""(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?"""
"""What lacks its end goes on to that of the text."""
_WITH_BASE = r"0(?:[xX][\da-fA-F][\da-fA-F_]*+|[oO][0-7][0-7_]*+|[bB][01][01_]*+)"
_NUMBER = rf"[-+]?\s*(?:{_WITH_BASE}|(?:\d[\d_]*+(?:\.[\d_]*+)?|\.\d[\d_]*+)(?:[eE][-+]?\d++)?)n?"
_CONSTANT = r"true|false|null|undefined|NaN|[-+]?\s*Infinity|void\s*(?:0|\(\s*0\s*\))|!\s*[01]"
_TOKEN = late_regex(
    rf"{_BLANK}(?P<start>)(?:JSON\s*\.\s*parse\s*\(\s*(?P<parsed>{_STRING})\s*\)|(?P<string>{_STRING})"
    rf"|(?P<date>new\s+Date\s*\(\s*-?\d{{1,16}}\s*\))|(?P<constant>{_CONSTANT})(?![\w$.])|(?P<number>{_NUMBER})(?![\w$])|(?P<name>[\w$]+)"
    r"|(?P<mark>\.\.\.|[{}\[\](),:])|(?P<other>.)|\Z)",
    re.DOTALL,
)
_ASSIGNED = late_regex(rf"(?:\A|[=(,:?]|\breturn\b){_BLANK}(?=[{{\[]|JSON\s*\.\s*parse\b)", re.DOTALL)
_REGEX = late_regex(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++/\w*+")
_JSON_NUMBER = late_regex(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_ESCAPE = late_regex(r'\\(?:u\{(\w+)\}|x([\da-fA-F]{2})|(u[\da-fA-F]{4})|([0-7]{1,3})|(\r\n|.))|"', re.DOTALL)
_ESCAPED = {"v": "\\u000b", "\n": "", "\r": "", "\r\n": "", "\u2028": "", "\u2029": ""}
_CONSTANTS = {"true": "true", "false": "false", "!0": "true", "!1": "false"}
_MAX_EXPRESSIONS = 1_000
_MARK = "\ue000"
_NO_NAMES: Mapping[str, int] = MappingProxyType({})

_State = Callable[[], "_State | None"]


class LiteralInvalid(Exception):
    """The text has no literal there; the message says why."""


def find_assigned(text: str) -> int | None:
    """Where the first object, list or `JSON.parse` stands that a script assigns, returns or passes on."""
    return None if (found := _ASSIGNED.search(text)) is None else found.end()


def read_literal(text: str, at: int = 0) -> tuple[str, list[int]]:
    """The JSON text of the value that begins at `at`, whatever follows it. Raises LiteralInvalid.

    And the places of values that only a program knows, such as `new Date()`: they are null in the JSON.
    """
    literal = read_named(text, at, {})
    return literal.json, literal.expressions


class Literal(NamedTuple):
    """A value as JSON text."""

    json: str
    expressions: list[int]
    """The places of values that only a program knows: they are null."""
    end: int
    """Where it ends."""
    mark: str = _MARK
    """The only key of the object that stands for a name; its value is the number of that."""


def read_named(text: str, at: int, numbers: Mapping[str, int]) -> Literal:
    """The value that begins at `at`, in which names may stand for others, by their numbers. Raises LiteralInvalid."""
    reader = _Reader(text, at, numbers)
    return reader.read(reader.read_value)


def read_arguments(text: str, at: int) -> Literal:
    """What stands in the parentheses of a call, of which the first ends at `at`, as a list. Raises LiteralInvalid."""
    reader = _Reader(text, at)
    literal = reader.read(reader.begin_arguments())
    return literal._replace(json=f"{literal.json[:-1]}]")


class _Reader:
    """Its states read one token each, and give the next state; None: the value is complete."""

    def __init__(self, text: str, at: int, numbers: Mapping[str, int] = _NO_NAMES) -> None:
        self._numbers = numbers
        self._text, self._at, self._value_at, self._begun, self._regexes_left = text, at, at, 0, 10
        self._open: list[tuple[str, int, int]] = []
        """Of each open bracket: the closing one, the number of pieces before it, its place."""
        self.pieces: list[str] = []
        self.expressions: list[int] = []

    def read(self, state: "_State | None") -> Literal:
        while state is not None:
            state = state()
        return Literal("".join(self.pieces), self.expressions, self._at)

    def begin_arguments(self) -> "_State":
        self._open.append((")", 0, self._at))
        self.pieces.append("[")
        return self._read_item

    def read_value(self) -> "_State | None":
        kind, token, start = self._next()
        self._begun, self._value_at = len(self.pieces), start
        if token in ("{", "[") and kind == "mark":
            self._open.append(("}" if token == "{" else "]", self._begun, start))
            self.pieces.append(token)
            return self._read_key if token == "{" else self._read_item
        written = _write_scalar(kind, token)
        if written is None and kind == "name" and token in self._numbers:
            written = f'{{"{_MARK}":{self._numbers[token]}}}'
        if written is None:
            return self._skip_expression(start)
        self.pieces.append(written)
        return self._read_end if self._open else None

    def _read_item(self) -> "_State | None":
        before = self._at
        kind, token, _ = self._next()
        if kind == "mark" and token == self._open[-1][0]:
            return self._close()
        if kind == "mark" and token == ",":
            self.pieces += ("null", ",")
            return self._read_item
        self._at = before
        return self.read_value

    def _read_key(self) -> "_State | None":
        kind, token, start = self._next()
        if kind == "mark" and token == "}":
            return self._close()
        self._begun, self._value_at = len(self.pieces), start
        is_name = kind in ("name", "constant", "number")
        key = _write_string(token) if kind == "string" else f'"{token}"' if is_name else None
        if key is None:
            return self._skip_expression(start)  # a spread, or a computed key
        self.pieces += (key, ":")
        self._begun, after = len(self.pieces), self._at
        if self._next()[1] == ":":
            return self.read_value
        return self._skip_expression(after)  # a method, or a name that is both key and value

    def _read_end(self) -> "_State | None":
        before, closing = self._at, self._open[-1][0]
        kind, token, _ = self._next()
        if kind == "mark" and token == closing:
            return self._close()
        if kind == "mark" and token == ",":
            self.pieces += "," if self.pieces[-1] not in ("{", ",") else ()
            return self._read_key if closing == "}" else self._read_item
        return self._skip_expression(before, follows_value=True)  # an operator

    def _close(self) -> "_State | None":
        closing, self._begun, self._value_at = self._open.pop()
        if self.pieces[-1] == ",":
            self.pieces.pop()
        self.pieces.append(closing)
        return self._read_end if self._open else None

    def _skip_expression(self, at: int, *, follows_value: bool = False) -> _State:
        """Leave out what is no literal, from its rest at `at` to the comma or bracket behind it."""
        if not self._open:
            raise LiteralInvalid("is no literal")
        self._at, depth = at, 0
        while True:
            before = self._at
            kind, token, start = self._next()
            if kind == "mark" and token in ("{", "[", "("):
                depth += 1
            elif kind == "mark" and not depth and token in (",", self._open[-1][0]):
                break
            elif kind == "mark" and token in ("}", "]", ")"):
                if not depth:
                    raise LiteralInvalid(f"has a `{token}` that nothing opens")
                depth -= 1
            elif token == "/" and not follows_value and self._regexes_left:
                found = _REGEX.match(self._text, start)
                self._at = self._at if found is None else found.end()
                self._regexes_left -= found is None  # each of these may look at all that follows
            follows_value = (kind not in ("mark", "other") and token != "return") or token in (")", "]", "}")
        self._at = before
        del self.pieces[self._begun :]
        if self._open[-1][0] != "}" or self.pieces[-1] == ":":
            self.pieces.append("null")
        if len(self.expressions) < _MAX_EXPRESSIONS:
            self.expressions.append(self._value_at)
        return self._read_end

    def _next(self) -> tuple[str, str, int]:
        """The kind of the next token, its text, and its place."""
        found = _TOKEN.match(self._text, self._at)
        kind = None if found is None else found.lastgroup
        if found is None or kind is None or kind == "start":
            raise LiteralInvalid("never ends")
        token, self._at = found[kind], found.end()
        if kind in ("string", "parsed") and not _is_closed(token):
            raise LiteralInvalid("never ends: a string is not closed")
        return kind, token, found.start("start")


def _write_scalar(kind: str, token: str) -> str | None:
    """The JSON text of a scalar; None: it is an expression."""
    if kind == "string":
        return _write_string(token)
    if kind == "number":
        return _write_number(token)
    if kind == "constant":
        return _CONSTANTS.get("".join(token.split()), "null")
    if kind == "date":
        return _write_date(token)
    string = _write_string(token) if kind == "parsed" else None
    text: Any = None if string is None else json.loads(string, strict=False)
    return text if text is not None and parse_json(text) is not MISSING else None


def _write_date(token: str) -> str | None:
    """A moment of so many milliseconds since 1970, as scripts write dates in JSON; None: beyond the year 9999."""
    milliseconds = int(token.partition("(")[2].rstrip(") \t\r\n"))
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)  # UTC, as the text says
    except OverflowError:
        return None
    return f'"{moment.isoformat(timespec="milliseconds")}Z"'


def _write_number(token: str) -> str | None:
    """A number with its digits; None: it has no form in JSON."""
    bare = "".join(token.split()).lstrip("+").rstrip("n").replace("_", "")
    sign, digits = ("-", bare[1:]) if bare.startswith("-") else ("", bare)
    if digits[:2].lower() in ("0x", "0o", "0b") and len(digits) < 1_000:
        return f"{sign}{int(digits, 0)}"
    whole, point, rest = digits.partition(".")
    written = f"{sign}{whole or '0'}{point if rest[:1].isdigit() else ''}{rest}"
    return written if _JSON_NUMBER.fullmatch(written) else None


def _is_closed(string: str) -> bool:
    """Whether it ends with the quote that it begins with, which no backslash escapes."""
    inner = string[:-1]
    return len(string) > 1 and string[-1] == string[0] and (len(inner) - len(inner.rstrip("\\"))) % 2 == 0


def _write_string(token: str) -> str | None:
    """A string or template; None for a template with expressions."""
    if token[0] == "`" and "${" in token:
        return None
    return f'"{_ESCAPE.sub(_write_escape, token[1:-1])}"' if "\\" in token or token[0] != '"' else token


def _write_escape(found: re.Match[str]) -> str:
    point, two, four, octal, other = found.groups()
    if point or two or octal:
        digits = point.rjust(6, "0") if point else two or octal
        code = int(digits, 8 if octal else 16) if re.fullmatch("[0-9a-fA-F]{1,6}", digits) else 0x110000
        return json.dumps(chr(code) if code < 0x110000 else "\ufffd")[1:-1]
    if four or (other and other in '"\\/bfnrt'):
        return found[0]
    return '\\"' if other is None else _ESCAPED.get(other, other)
