"""Fills the variables of a request with values of a page: its URL, form fields and JSON body."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from engine import urls
from engine.model.link import FORM_TYPE, JSON_TYPE, RequestTemplate
from engine.model.record import to_json, to_text
from engine.model.variables import SECRET_PREFIXES, has_secrets

_TOKEN = re.compile(r"%%\{|%\{([^{}]*)\}")

_WRITTEN_ORIGIN = re.compile(r"\s*https?://[^/?#%{}@\s]+(?:[/?#]|\s*$)", re.IGNORECASE)
"""The start of a URL whose site is in the defs; the site of other URLs depends on the page."""

Lookup = Callable[[str], Any]
"""The value of a variable by its name; None if missing."""


class MissingValue(Exception):
    """A variable has no value on this page, so no request is made."""


class RequestBody(NamedTuple):
    text: str
    content_type: str


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


def fill_body(template: RequestTemplate, lookup: Lookup, fields: Sequence[Sequence[str]] = ()) -> RequestBody | None:
    """The body, or None. `fields`: of a form, before those of the template. Raises MissingValue.

    Variables with secrets stay as written: they are filled in when the request is sent.
    """
    if template.json is not None:
        return RequestBody(_fill_json(json.loads(template.json), lookup), JSON_TYPE)
    if template.has_form or fields:
        return RequestBody(encode_form(merge_fields(fields, template.form), lookup), FORM_TYPE)
    return None


def sends_secret_elsewhere(
    template: RequestTemplate, body: str | None, url: str, page_url: str, locator_url: str
) -> bool:
    """Whether the body has a variable with a secret, and the page, not the defs, sends it to another site.

    A site also counts as another if redirects or links led away from the locator's site, or from https to http.
    """
    if body is None or not has_secrets(body) or _WRITTEN_ORIGIN.match(template.url or ""):
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


def merge_fields(own: Sequence[Sequence[str]], written: Sequence[Sequence[str]]) -> list[tuple[str, str, bool]]:
    """Names and values of a form; those of the defs replace the page's. True marks a template."""
    left: dict[str, list[str]] = {}
    for name, value in written:
        left.setdefault(name, []).append(value)
    replaced, fields = set(left), list[tuple[str, str, bool]]()
    for name, value in own:
        if name in left:  # at the position of the first one
            fields += [(name, template, True) for template in left.pop(name)]
        elif name not in replaced:
            fields.append((name, value, False))
    return [*fields, *((name, template, True) for name, templates in left.items() for template in templates)]


def encode_form(fields: Sequence[tuple[str, str, bool]], lookup: Lookup) -> str:
    """The fields as a form sends them. Raises MissingValue."""
    pairs = []
    for name, value, is_template in fields:
        pairs.append(f"{quote_plus(name)}={_fill_form_text(value, lookup) if is_template else quote_plus(value)}")
    return "&".join(pairs)


def _fill_form_text(template: str, lookup: Lookup) -> str:
    filled, done = [], 0
    for match in _TOKEN.finditer(template):
        filled.append(quote_plus(template[done : match.start()]))
        done = match.end()
        name = match.group(1)
        if name is None:
            filled.append(quote_plus("%{"))
        elif name.startswith(SECRET_PREFIXES):
            filled.append(match.group())
        else:
            filled.append(quote_plus(_text_of(name, lookup)))
    return "".join([*filled, quote_plus(template[done:])])


def _fill_json(value: Any, lookup: Lookup) -> str:
    if isinstance(value, str):
        return _fill_json_text(value, lookup)
    if isinstance(value, list):
        return f"[{','.join(_fill_json(item, lookup) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quote_json(key)}:{_fill_json(item, lookup)}' for key, item in value.items())}}}"
    return json.dumps(value)


def _fill_json_text(template: str, lookup: Lookup) -> str:
    """A JSON text. A template that is one variable becomes its value, with its type."""
    whole = _TOKEN.fullmatch(template)
    if whole is not None and whole.group(1) is not None and not whole.group(1).startswith(SECRET_PREFIXES):
        return _protect(to_json(_value_of(whole.group(1), lookup)))
    parts, text, done = ['"'], "", 0
    for match in _TOKEN.finditer(template):
        text += template[done : match.start()]
        done = match.end()
        name = match.group(1)
        if name is None:
            text += "%{"
        elif name.startswith(SECRET_PREFIXES):
            parts += [_quote_json(text)[1:-1], match.group()]
            text = ""
        else:
            text += _text_of(name, lookup)
    return "".join([*parts, _quote_json(text + template[done:])[1:-1], '"'])


def _quote_json(text: str) -> str:
    return _protect(json.dumps(text, ensure_ascii=False))


def _protect(text: str) -> str:
    """JSON text in which the sender finds no variable, in any context: a variable might be a secret."""
    return text.replace("%", "\\u0025") if "%{" in text or text.rstrip('"').endswith("%") else text


def _text_of(name: str, lookup: Lookup) -> str:
    return to_text(_value_of(name, lookup))


def _value_of(name: str, lookup: Lookup) -> Any:
    value = lookup(name)
    if value is None or value in ("", []):
        raise MissingValue(name)
    return value
