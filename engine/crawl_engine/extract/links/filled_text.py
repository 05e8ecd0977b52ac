"""Fills the variables of a text with values of a page; those with secrets stay, for the sender."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from crawl_engine.late_regex import late_regex
from crawl_engine.model.record import to_text
from crawl_engine.model.variables import SECRET_PREFIXES

_TOKEN = late_regex(r"%%\{|%\{([^{}]*)\}")

Lookup = Callable[[str], Any]
"""The value of a variable by its name; None if missing."""


class MissingValue(Exception):
    """A variable has no value on this page, so no request is made."""


class NoNumber(MissingValue):
    """The value of a variable that is sent as a number is none."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.text = text


def fill_url(template: str, lookup: Lookup) -> str:
    """The URL, absolute or relative. Values are percent-encoded; a whole URL is not. Raises MissingValue."""
    whole = _TOKEN.fullmatch(template.strip())
    if whole is not None and whole.group(1) is not None:
        return _text_of(whole.group(1), lookup)

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "%{"
        text = _text_of(name, lookup)
        if text in (".", ".."):  # such values would change the path in any spelling
            raise MissingValue(name)
        return quote(text, safe="")

    return _TOKEN.sub(fill, template)


def fill_runs(template: str, lookup: Lookup) -> Iterator[tuple[str, str]]:
    """The filled text in pieces, each followed by a variable with a secret or, at the end, by nothing.

    Raises MissingValue.
    """
    text, done = "", 0
    for match in _TOKEN.finditer(template):
        text += template[done : match.start()]
        done = match.end()
        name = match.group(1)
        if name is None:
            text += "%{"
        elif name.startswith(SECRET_PREFIXES):
            yield text, match.group()
            text = ""
        else:
            text += _text_of(name, lookup)
    yield text + template[done:], ""


def find_whole_value(template: str, lookup: Lookup) -> Any:
    """The value of the variable that is all of the template; None for other templates. Raises MissingValue."""
    whole = _TOKEN.fullmatch(template)
    if whole is None or whole.group(1) is None or whole.group(1).startswith(SECRET_PREFIXES):
        return None
    return _value_of(whole.group(1), lookup)


def _text_of(name: str, lookup: Lookup) -> str:
    return to_text(_value_of(name, lookup))


def _value_of(name: str, lookup: Lookup) -> Any:
    value = lookup(name)
    if value is None or value in ("", []):
        raise MissingValue(name)
    return value
