"""JSON values of documents: parsed so that numbers keep their digits, and every text can be stored."""

import json
import re
from typing import Any

import orjson

from crawl_engine.late_regex import late_regex


class Missing:
    """Marks an absent JSON value; None is a JSON null."""


MISSING = Missing()


class JsonNumber(float):
    """A JSON number that keeps its digits."""

    __slots__ = ("digits",)
    digits: str

    @classmethod
    def from_digits(cls, digits: str) -> "JsonNumber":
        number = cls(digits)
        number.digits = digits
        return number


# JMESPath checks values by the name of their type.
JsonNumber.__name__ = "float"

_STRICT = json.JSONDecoder(parse_float=JsonNumber.from_digits, parse_constant=lambda _: None)
_LENIENT = json.JSONDecoder(parse_float=JsonNumber.from_digits, parse_constant=lambda _: None, strict=False)

_GUARD = late_regex(
    rb"\s*+(?:/\*[^*]{0,200}+\*/\s*+|//[^\r\n]{0,200}+[\r\n]\s*+){0,3}"
    rb"(?:\)\]\}'?,?|while\s*\(\s*(?:1|true)\s*\)\s*;|for\s*\(\s*;\s*;\s*\)\s*;|throw\s+1\s*;\s*(?:<[^<>]{0,100}+>)?"
    rb"|\{\s*\}\s*&&"
    rb"|(?:(?:typeof\b[\s(]*[\w$.\[\]]{1,100}[\s)]*===?\s*(?:'function'|\"function\")|[\w$.]{1,100})\s*&&\s*)?"
    rb"(?!while\b|for\b|if\b)[A-Za-z_$][\w$.\[\]\"']{0,200}+\s*\(|/\*)?\s*+(?=[\[{])",
    re.IGNORECASE,
)
_BEHIND_GUARDED = late_regex(r"\s*(\)?)\s*;?\s*(?:\*/)?\s*")
_BLANKS = re.compile(r"\s*+")
_WRAPPERS = ("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("/*<![CDATA[*/", "/*]]>*/"), ("<![CDATA[", "]]>")
"""Comments in which old pages wrap a script."""
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = late_regex(
    rf"({_STRING})|//[^\n\r]*|/\*(?:.*?\*/|.*)|<!--(?:[^\n\r]*?-->|[^\n\r]*)|-->[^\n\r]*|<!\[CDATA\[|\]\]>", re.DOTALL
)
"""A string, which is kept, or a comment of a script. What lacks its end goes on to that of the text or line."""
_LAST_COMMA = late_regex(rf"({_STRING})|,(?=\s*[\]}}])", re.DOTALL)


def parse_json(text: str) -> Any:
    """The value of a JSON text, with fractions as `JsonNumber`; `MISSING` if it is invalid or nests too deep."""
    return _parse(text.removeprefix("\ufeff"), _STRICT)


def parse_json_at(text: str, at: int) -> Any:
    """The JSON value that begins at `at`, behind blanks, whatever follows its end; `MISSING` as in `parse_json`."""
    try:
        value, end = _LENIENT.raw_decode(text, _BLANKS.match(text, at).end())  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return MISSING
    return _replace_invalid_characters(value) if _mentions_invalid(text[at:end]) else value


def parse_guarded_json(body: bytes) -> tuple[Any, str]:
    """The value of a JSON body behind a guard against other sites, and the guard; `MISSING` without one.

    Guards are `)]}'`, `while(1);`, `for(;;);`, `throw 1;`, `{}&&`, a call such as `callback(…)`, perhaps behind a test
    that it is a function, and a comment in front or around.
    """
    guard = _GUARD.match(body)
    if guard is None:
        return MISSING, ""
    text = body[guard.end() :].decode("utf-8", "replace")
    try:
        _, end = _STRICT.raw_decode(text)
    except (ValueError, RecursionError):
        return MISSING, ""
    shown = guard[0].decode("utf-8", "replace").strip()
    behind = _BEHIND_GUARDED.fullmatch(text, end)
    is_whole = behind is not None and bool(behind[1]) == shown.endswith("(")
    return (parse_json(text[:end]), shown) if is_whole else (MISSING, "")


def parse_embedded_json(text: str) -> Any:
    """The value of a JSON text inside an HTML page, as `parse_json`.

    A byte order mark before it, comments around and in it, a comma behind the last value, a `;` behind it and raw line
    breaks are allowed.
    """
    text = text.strip().removeprefix("\ufeff").lstrip()
    bare = text
    for start, end in _WRAPPERS:
        if bare.startswith(start):
            bare = bare.removeprefix(start).removesuffix(end).strip()
    value = _parse(bare.removesuffix(";"), _LENIENT)
    if value is not MISSING:
        return value
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda found: found[1] or " ", text)
    return _parse(text.strip().removesuffix(";"), _LENIENT)


def _parse(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        value = decoder.decode(text)
        return _replace_invalid_characters(value) if _mentions_invalid(text) else value
    except (ValueError, RecursionError):
        return MISSING


def _mentions_invalid(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text or "\\u0000" in text or "\0" in text


def _replace_invalid_characters(value: Any) -> Any:
    # `\ud800` and `\u0000` are valid JSON, but cannot be stored.
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_replace_invalid_characters(item) for item in value]
    if isinstance(value, dict):
        return {_replace_invalid_characters(key): _replace_invalid_characters(item) for key, item in value.items()}
    return value


def make_encodable(value: Any) -> Any:
    """The value with huge integers and lone surrogates replaced by what the encoder can write."""
    if isinstance(value, dict):
        return {str(make_encodable(key)): make_encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_encodable(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def read_json_lines(text: str) -> tuple[list[Any], int]:
    """The values of the lines, and the number of skipped lines that are not JSON; blank lines do not count."""
    values = [parse_json(line) for line in text.split("\n") if line and not line.isspace()]
    valid = [value for value in values if value is not MISSING]
    return valid, len(values) - len(valid)
