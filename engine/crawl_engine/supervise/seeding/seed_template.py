"""Fills the URLs, headers and bodies of a locator with the values of a line of a CSV file."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from crawl_engine.defs.builders.bodies import expand_body
from crawl_engine.defs.url_patterns import expand
from crawl_engine.errors import quote_text
from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import JSON_NUMBER, MAX_CARRIED_BYTES, Carried
from crawl_engine.model.locator import Locator, SeedColumns
from crawl_engine.model.variables import NUMBER_SEED, SEED, fill, fill_url
from crawl_engine.urls import without_credentials

_VARIABLE = late_regex(r"%%\{|%\{seed\.([^{}]*)\}")
_NUMBER = late_regex(rf"%%\{{|%\{{{NUMBER_SEED}([^{{}}]*)\}}")
"""A variable of JSON that stands outside of quotation marks."""

_LookUp = Callable[[str], str]


class UnusableLine(Exception):
    """No request can be made of a line; the text says why."""


class FilledLine(NamedTuple):
    """What is sent for a line: each URL, as written, with each body."""

    urls: Sequence[str]
    bodies: Sequence[str | None]
    locator: Locator | None
    """The locator with its headers and cookies filled; None: they hold no values."""
    carried: str
    """What its pages know (`link.Carried`)."""


class SeedTemplate:
    """The texts of one locator."""

    def __init__(self, locator: Locator, columns: SeedColumns) -> None:
        self._locator = locator
        self._columns = columns
        self._urls = [url for pattern in locator.urls for url in expand(pattern)]
        self._bodies: list[str | None] = [locator.body]
        if locator.body_pieces:
            self._bodies = [*expand_body(locator.body_pieces, locator.content_type)]
        from crawl_engine.http.request import BODY_ENCODERS  # few crawls have such lists

        self._encode = BODY_ENCODERS.get(locator.content_type or "")
        texts = (*locator.headers.values(), *locator.cookies.values())
        self._fills_headers = any("%{seed." in text for text in texts)

    def fill(self, values: Mapping[str, str]) -> FilledLine:
        """The requests for these values by column. Raises UnusableLine."""

        def look_up(name: str) -> str:
            value = values.get(name, "").strip()
            if not value:
                raise UnusableLine(f"the column '{name}' is {'empty' if name in values else 'missing'}")
            return value

        def look_up_number(name: str) -> str:
            value = look_up(name)
            if not JSON_NUMBER.fullmatch(value):
                raise UnusableLine(f"the column '{name}' is {quote_text(value)}, which is no number of JSON")
            return value

        numbered = [body and fill(body, _NUMBER, look_up_number, str) for body in self._bodies]
        return FilledLine(
            [fill_url(url, _VARIABLE, look_up, safe="") for url in self._urls] or [look_up(self._columns.url)],
            [body and fill(body, _VARIABLE, look_up, self._encode) for body in numbered],
            self._fill_headers(look_up) if self._fills_headers else None,
            self._carried(values),
        )

    def _fill_headers(self, look_up: _LookUp) -> Locator:
        headers, cookies = (
            {name: fill(text, _VARIABLE, look_up) for name, text in texts.items()}
            for texts in (self._locator.headers, self._locator.cookies)
        )
        return replace(self._locator, headers=headers, cookies=cookies)

    def _carried(self, values: Mapping[str, str]) -> str:
        names = self._columns.columns or values
        known = {f"{SEED}{name}": values[name] for name in names if name}
        url = f"{SEED}{self._columns.url}"
        if "@" in known.get(url, ""):
            known[url] = without_credentials(known[url])
        text = Carried(values=known).to_json()
        if len(text.encode()) > MAX_CARRIED_BYTES:
            raise UnusableLine(f"its values take more than {MAX_CARRIED_BYTES:,} bytes; choose some with `columns`")
        return text
