"""Makes the body of a request from its template: form fields or JSON, with values of a page."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from crawl_engine import urls
from crawl_engine.errors import quote_text
from crawl_engine.extract.links.filled_text import Lookup, MissingValue, NoNumber, fill_runs, find_whole_value
from crawl_engine.extract.links.form_encoding import (
    URL_ENCODED,
    FormEncoding,
    FormField,
    RequestBody,
    encode_form,
    merge_fields,
)
from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import JSON_NUMBER, JSON_TYPE, MAX_HEADER_CHARACTERS, RequestTemplate
from crawl_engine.model.record import to_json
from crawl_engine.model.variables import has_secrets

_WRITTEN_ORIGIN = late_regex(r"\s*https?://[^/?#%{}@\s]+(?:[/?#]|\s*$)", re.IGNORECASE)
"""The start of a URL whose site is in the defs; the site of other URLs depends on the page."""
_CREDENTIALS = frozenset({"authorization", "cookie"})
"""Headers that are secrets, whatever they hold."""


def fill_body(
    template: RequestTemplate, lookup: Lookup, fields: Sequence[FormField] = (), encoding: FormEncoding = URL_ENCODED
) -> RequestBody | None:
    """The body, or None. `fields`, `encoding`: of a form. Raises MissingValue, NoNumber.

    Variables with secrets stay as written: they are filled in when the request is sent.
    """
    if template.json is not None:
        return RequestBody(_fill_json(json.loads(template.json), lookup, frozenset(template.numbers)), JSON_TYPE)
    if template.has_form or fields:
        return encode_form(merge_fields(fields, template.form), lookup, encoding)
    return None


def fill_headers(template: RequestTemplate, lookup: Lookup) -> tuple[tuple[str, str], ...]:
    """The headers, each on one line; their secrets stay variables. Raises MissingValue."""
    headers = []
    for name, written in template.headers:
        runs = [f"{text.replace('%{', '%%{')}{secret}" for text, secret in fill_runs(written, lookup)]
        value = " ".join("".join(runs).split())
        if len(value) > MAX_HEADER_CHARACTERS or not value.isprintable():
            raise MissingValue(name)
        headers.append((name, value))
    return tuple(headers)


def sends_secret_elsewhere(
    template: RequestTemplate, body: str | None, url: str, page_url: str, locator_url: str
) -> bool:
    """Whether the body or a header has a secret, and the page, not the defs, sends it to another site.

    A site also counts as another if redirects or links led away from the locator's site, or from https to http.
    """
    is_secret = has_secrets(body or "") or any(
        name.lower() in _CREDENTIALS or has_secrets(text) for name, text in template.headers
    )
    if not is_secret or _WRITTEN_ORIGIN.match(template.url or ""):
        return False
    if urls.origin(url) != urls.origin(page_url):
        return True
    if not urls.is_http_url(locator_url):  # a page by hand
        return False
    is_downgraded = url.startswith("http:") and locator_url.startswith("https:")
    return is_downgraded or _site_of(url) != _site_of(locator_url)


def _site_of(url: str) -> str:
    """The host without `www.`, and a port that is not the default: a site may move to https."""
    authority = urls.origin(url).partition("://")[2]
    return urls.host_without_www(url) + authority.removeprefix(urls.host_of(url))


def _fill_json(value: Any, lookup: Lookup, numbers: Collection[str], *, is_number: bool = False) -> str:
    """The JSON of a value; `numbers`: keys whose texts are numbers. Raises MissingValue."""
    if isinstance(value, str):
        return _fill_number(value, lookup) if is_number else _fill_json_text(value, lookup)
    if isinstance(value, list):
        return f"[{','.join(_fill_json(item, lookup, numbers, is_number=is_number) for item in value)}]"
    if isinstance(value, dict):
        items = ((key, _fill_json(item, lookup, numbers, is_number=key in numbers)) for key, item in value.items())
        return f"{{{','.join(f'{_quote_json(key)}:{text}' for key, text in items)}}}"
    return json.dumps(value)


def _fill_number(template: str, lookup: Lookup) -> str:
    """A number: that of the variable that the template is, or the template itself. Raises NoNumber."""
    value = find_whole_value(template.strip(), lookup)
    text = template.strip() if value is None else value.strip() if isinstance(value, str) else to_json(value)
    if not JSON_NUMBER.fullmatch(text):
        raise NoNumber(template, f"{template.strip()} is {quote_text(text)}, which is no number of JSON")
    return text


def _fill_json_text(template: str, lookup: Lookup) -> str:
    """A JSON text. A template that is one variable becomes its value, with its type."""
    value = find_whole_value(template, lookup)
    if value is not None:
        return _protect(to_json(value))
    runs = [f"{_quote_json(text)[1:-1]}{secret}" for text, secret in fill_runs(template, lookup)]
    return f'"{"".join(runs)}"'


def _quote_json(text: str) -> str:
    return _protect(json.dumps(text, ensure_ascii=False))


def _protect(text: str) -> str:
    """JSON text in which the sender finds no variable, in any context: a variable might be a secret."""
    return text.replace("%", "\\u0025") if "%{" in text or text.rstrip('"').endswith("%") else text
