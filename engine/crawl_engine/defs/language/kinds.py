"""The kinds of values of the def language: what each accepts, checks and becomes."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, get_args
from urllib.parse import unquote

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.defs import url_patterns
from crawl_engine.errors import UsageError, suggest
from crawl_engine.extract.fields.human_dates import is_locale_selector, locale_problem
from crawl_engine.extract.select.selector_syntax import (
    TableHeader,
    pattern_problem,
    selector_problem,
    source_problem,
    template_problem,
    variable_problem,
)
from crawl_engine.late_regex import late_regex
from crawl_engine.model import bounds, variables
from crawl_engine.model.axis import IndexRange
from crawl_engine.model.bounds import is_within
from crawl_engine.model.field_type import FIELD_TYPES
from crawl_engine.model.output_type import DATABASE_URL_STARTS, PATH_NAME, PATH_NAMES, STORE_SCHEMES
from crawl_engine.model.step import TEXT_PREFIX
from crawl_engine.settings.values import duration_seconds, parse_seconds, parse_share
from crawl_engine.urls import is_file_url, join, resolve, split_userinfo, without_credentials

_ONE_VARIABLE = late_regex(r"%\{(?:env|file)\.[^{}]*\}")
_INDEX_RANGE = late_regex(r"([0-9]{1,5})(?:\s*(-)\s*([0-9]{1,5})?)?")
_HOURS = late_regex(r"((?:[01][0-9]|2[0-3]):[0-5][0-9])-((?:[01][0-9]|2[0-3]):[0-5][0-9])")
_MAX_NAME_BYTES = 200
_NUMBER = late_regex(r"[+-]?[0-9.,_]+")
_MAX_STEP = 1_000_000_000
_MAX_HEADER_LINE = 10_000
_SCHEME = late_regex(r"([A-Za-z][A-Za-z0-9+.-]*)://")

Check = tuple[str, Callable[[Any], str | None]]
"""The code of a problem, and a function that returns its message, or None for a valid value."""


_CONSTANT = {"type": ["string", "number", "boolean"]}


class ValueInvalid(Exception):
    """A value cannot be read; holds the code and the message of the problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _unchanged(value: Any) -> Any:
    return value


class ValueKind(Struct, frozen=True):
    """What a kind of value accepts, and the checks that it must pass in this order."""

    checks: tuple[Check, ...] = ()
    accepts: Literal["text", "constant", "any"] = "text"
    """A constant may be a bool, too."""
    parse: Callable[[Any], Any] = _unchanged
    """Raises ValueInvalid."""
    schema: Mapping[str, Any] = MappingProxyType({"type": ["string", "number"]})
    is_selector: bool = False
    choices: Mapping[str, Any] | None = None
    """By name, all that it may be; None: any."""


def _hours_problem(text: str) -> str | None:
    match = _HOURS.fullmatch(text)
    if match is None:
        return f"must be two times of a day such as 22:00-06:00, not {text!r}"
    return "begins and ends at the same time, so that the host would rest for ever" if match[1] == match[2] else None


def _blank_problem(text: str) -> str | None:
    return None if text.strip() else "must not be empty"


def is_step(text: str) -> bool:
    """Whether a value of `next` is a number to add, valid or not, and no selector."""
    return _NUMBER.fullmatch(text) is not None


def _query_header_problem(text: str) -> str | None:
    if text in get_args(TableHeader) or (text.isdecimal() and 0 < int(text[:6]) <= _MAX_HEADER_LINE):
        return None
    cure = suggest(text, list(get_args(TableHeader)))
    return f"cannot be {text!r}{cure}; of a CSV document it is a line from 1 to {_MAX_HEADER_LINE:,}"


def _step_problem(text: str) -> str | None:
    if not is_step(text) or (text.isdecimal() and 0 < int(text[:11]) <= _MAX_STEP):
        return None
    return f"is added to a number of the URL, and must be a whole number from 1 to {_MAX_STEP:,}, not {text}"


def _selector_or_step_problem(text: str) -> str | None:
    return None if text.isdecimal() else variable_problem(text)


def _separator_problem(text: str) -> str | None:
    return None if text else "must not be empty; write the text between two parts, such as a comma"


def _mark_problem(text: str) -> str | None:
    if len(text) == 1 and not text.isalnum() and text not in "+-":
        return None
    return "must be one character other than a digit, letter or sign, such as a comma"


def _locale_problem(text: str) -> str | None:
    return selector_problem(text) if is_locale_selector(text) else locale_problem(text)


def _value_problem(text: str) -> str | None:
    for name in variables.variable_names(text):
        if name.startswith(variables.SECRET_PREFIXES):
            return f"`%{{{name}}}` is available only in requests, so that secrets never reach the rows"
        if not variables.is_page_variable(name) and not name.startswith(variables.FIELD):
            names = [
                *sorted(variables.DOCUMENT_VARIABLES),
                f"{variables.FIELD}NAME",
                f"{variables.HEADER}NAME",
                f"{variables.CARRIED}NAME",
                f"{variables.SEED}NAME",
                f"{variables.SITEMAP}NAME",
            ]
            return f"unknown variable `%{{{name}}}`{suggest(name, names)}; write `%%{{` for a literal `%{{`"
    return None


def _click_problem(text: str) -> str | None:
    if text.startswith(TEXT_PREFIX):
        return None if text.removeprefix(TEXT_PREFIX).strip() else f"write the text behind `{TEXT_PREFIX}`"
    return selector_problem(text)


def _request_text_problem(text: str) -> str | None:
    return next(filter(None, map(variables.secret_name_problem, variables.variable_names(text))), None)


def _query_key_problem(text: str) -> str | None:
    if "=" in text or "&" in text:
        return "must be the name of one query key, without `=` and `&`, such as utm_*"
    decoded = unquote(text)
    return None if decoded == text else f"is percent-encoded, and keys are compared decoded; write '{decoded}'"


def has_control_characters(text: str) -> bool:
    """Whether a text contains a line break or a control character other than a tab."""
    return re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text) is not None


def _header_problem(text: str) -> str | None:
    """Why a text cannot be the value of a header; None if it can."""
    return "contains a line break or control character, which headers cannot" if has_control_characters(text) else None


def _brace_problem(text: str) -> str | None:
    try:
        url_patterns.count_alternatives(text)
    except UsageError as error:
        return f"{error.message} {error.remedy}"
    return None


def _url_pattern_problem(text: str) -> str | None:
    try:
        number = url_patterns.count(text)
        if number > url_patterns.MAX_URLS:
            return f"expands to {number:,} URLs; at most {url_patterns.MAX_URLS:,} are allowed"
        first = next(url_patterns.expand(text))
    except UsageError as error:
        return f"{error.message} {error.remedy}"
    if first.startswith("%{"):
        return None
    return url_problem(variables.render(first, lambda _: "1"))


def url_problem(url: str) -> str | None:
    """Why a URL, absolute or relative, cannot be fetched; None if it can."""
    bare = url.strip()
    shown = without_credentials(bare)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", bare)
    if is_file_url(bare):
        return None if resolve(bare, None) is not None else f"'{shown}' is not a URL"
    if re.match(r"(?!https?:)[^:/]+:[0-9]+(/|$)", bare, re.IGNORECASE):
        return f"'{shown}' has no scheme; write `http://{shown}`"
    if scheme and scheme.group(1).lower() not in ("http", "https"):
        return f"'{scheme.group(1)}:' URLs are not supported; use http: or https:"
    if not bare or join("http://base.example/", bare) is None:
        return f"'{shown}' is not a URL"
    return None


def _url_template_problem(text: str) -> str | None:
    return "cannot have `user:password@`; write `auth` for its host, in `hosts`" if split_userinfo(text)[1] else None


def _output_path_problem(path: str) -> str | None:
    if "%{" in path:
        return "cannot have `%{…}`; write for example {run.date}"
    for name in PATH_NAME.findall(path):
        if name not in PATH_NAMES:
            return f"unknown {name}{suggest(name, [*PATH_NAMES])}; it may hold {', '.join(PATH_NAMES)}"
    rest = PATH_NAME.sub("", path)
    if "{" in rest or "}" in rest:
        return f"has a brace without its other one; it may hold {', '.join(PATH_NAMES)}"
    if "://" in path:
        return _object_url_problem(path)
    *folders, file = path.removeprefix("/").split("/")
    if "\\" in path or (folders and not path.startswith("/")):
        return f"'{path}' has a path separator; write a file name, or an absolute path"
    if ".." in file or {".", ".."} & {*folders, file}:
        return f"'{path}' cannot have '.' as a name, or contain '..'"
    if not file:
        return "names a folder; write a file, such as {dataDef}.csv behind it"
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in (*folders, file)):
        return f"a file name in it is longer than {_MAX_NAME_BYTES} bytes"
    return None


def _object_url_problem(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    stores = f"{', '.join(f'{name}://' for name in STORE_SCHEMES[:-1])} or {STORE_SCHEMES[-1]}:///"
    if scheme not in STORE_SCHEMES:
        return f"'{scheme}://' is not a store; write {stores}"
    if "@" in bucket:
        return "cannot have credentials; the environment has them, such as AWS_ACCESS_KEY_ID"
    if bool(bucket) == (scheme == "file"):
        return "must be absolute, such as file:///srv/books.csv" if bucket else f"names no bucket: {scheme}://BUCKET/…"
    *folders, name = key.split("/")
    if not name:
        return "names a folder; write a file, such as {dataDef}.csv behind it"
    if {"", ".", ".."} & {*folders, name}:
        return f"'{url}' cannot have an empty name, '.' or '..' in it"
    return None


def _list_path_problem(text: str) -> str | None:
    if re.match(r"\s*(?:https?:|[a-z][a-z0-9+.-]+:[/\\])", text, re.IGNORECASE):
        return "reads a file, and this is a URL; save the list to a file, or name a `sitemap`"
    return None


def _login_url_problem(text: str) -> str | None:
    if "%{" in text:
        return "cannot have variables; write the path or URL of the login page"
    if without_credentials(text) != text:
        return "cannot have `user:password@`; write them into `form`"
    return "must be an http or https URL, or a path of the host" if is_file_url(text.strip()) else url_problem(text)


def _login_check_problem(text: str) -> str | None:
    if text.strip().startswith("jmespath:"):
        return "judges HTML pages, which `jmespath:` does not read; use a CSS selector or `xpath:`"
    return selector_problem(text)


def _line_break_problem(text: str) -> str | None:
    if has_control_characters(text):
        return "contains a line break or control character, which no field of a login form has"
    return None


def _base_url_problem(text: str) -> str | None:
    if not re.match(r"https?://|file:", text, re.IGNORECASE) or "%{" in text:
        return "must be an absolute http:// or https:// URL, without variables"
    return url_problem(text)


def _sender_url_problem(text: str) -> str | None:
    if text.startswith(variables.SECRET_STARTS):
        return None
    if text.startswith(DATABASE_URL_STARTS):
        return None
    if not re.match(r"https?://", text, re.IGNORECASE):
        return "must be an absolute http:// or https:// URL, or postgresql://"
    return url_problem(variables.render(text, lambda _: "1"))


def is_one_variable(text: str) -> bool:
    """Whether the text is a single variable with a secret."""
    return _ONE_VARIABLE.fullmatch(text.strip()) is not None


def _pair_problem(text: str) -> str | None:
    if ":" in text or is_one_variable(text):
        return None
    return "must be `user:password`; write for example `user:%{env.PASSWORD}`"


def _digest_problem(text: str) -> str | None:
    user = text.partition(":")[0]
    return "the user may hold neither a quote nor a backslash" if re.search(r'["\\]', user) else None


def proxy_problem(url: str) -> str | None:
    """Why a URL cannot be a proxy's; None if it can. Quotes no credentials."""
    if has_control_characters(url):
        return "contains a line break or control character"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "has no scheme; write `http://HOST:PORT`"
    socks, url = urls.split_socks(url)
    if not socks and scheme[1].lower() not in ("http", "https"):
        cure = "`http://HOST:PORT`, `https://HOST:PORT`, `socks5://HOST:PORT` or `socks5h://HOST:PORT`"
        return f"'{scheme[1]}:' proxies are not supported; use {cure}"
    normalized = urls.normalize(url)
    example = f"{socks or 'http'}://HOST:PORT"
    if normalized is None or url_problem(url) is not None:
        return f"is not the URL of a proxy; write `{example}`"
    if "?" in normalized or normalized.partition("://")[2].partition("/")[2]:
        return f"the URL of a proxy has no path and no query; write `{example}`"
    return None


def _written_proxy_problem(text: str) -> str | None:
    return None if text.startswith(variables.SECRET_STARTS) else proxy_problem(variables.render(text, lambda _: "1"))


def _parse_duration(text: str) -> float:
    try:
        return duration_seconds(text)
    except UsageError as error:
        message = f"{error.message}; {error.remedy[:1].lower()}{error.remedy[1:]}"
        raise ValueInvalid("bad-duration", message) from error


def _page_address_problem(text: str) -> str | None:
    if urls.is_http_url(text) or is_file_url(text):
        return url_problem(text)
    return f"must be the whole URL of the page, not {text!r}"


def _parse_moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise ValueInvalid("bad-time", f"must be a time in UTC such as 2026-01-31T09:05:00Z, not {text!r}")
    return moment.timestamp()


def _parse_percentage(text: str) -> float:
    try:
        return parse_share(text)
    except ValueError:
        raise ValueInvalid("bad-percentage", f"'{text}' is not a percentage; write for example 98%") from None


def _parse_limit(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError:
        seconds = 0.0
    if not is_within(bounds.STEP_LIMIT, seconds):
        message = f"must be a time from 1 ms to 1 hour, such as 5 or 500ms, not {text!r}"
        raise ValueInvalid("out-of-range", message)
    return seconds


def _parse_index(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:6]) <= 99_999:
        raise ValueInvalid("out-of-range", f"must be a number from 1, not {text!r}")
    return int(text)


def _parse_index_range(text: str) -> IndexRange:
    match = _INDEX_RANGE.fullmatch(text.strip())
    first, dash, last = match.groups() if match is not None else ("0", None, None)
    indexes = IndexRange(int(first), int(last or first) if last or not dash else None)
    if indexes.first < 1 or (indexes.last is not None and indexes.last < indexes.first):
        raise ValueInvalid("out-of-range", f"must be like 2-6, 5- or 3, from 1 on and upwards, not {text!r}")
    return indexes


_NOT_BLANK: Check = ("empty-text", _blank_problem)
_VARIABLES: Check = ("unknown-variable", _request_text_problem)
_HEADER = (_VARIABLES, ("bad-header", _header_problem))
_SECRET = (*_HEADER, ("empty-text", lambda text: None if text.strip() else "is empty"))
_PAIR = (*_SECRET, ("bad-auth", _pair_problem))


def _constant(*checks: Check) -> ValueKind:
    return ValueKind(checks, accepts="constant", schema=_CONSTANT)


def _text(*checks: Check) -> ValueKind:
    return ValueKind((_NOT_BLANK, *checks))


KINDS: Mapping[str, ValueKind] = {
    "any text": ValueKind(),
    "text": _text(),
    "type of field": ValueKind(choices=FIELD_TYPES),
    "character": ValueKind(
        (("out-of-range", lambda text: None if len(text) == 1 else "must be exactly one character"),),
        schema={"type": ["string", "number"], "minLength": 1, "maxLength": 1},
    ),
    "constant": _constant(),
    "value": _constant(("unknown-variable", _value_problem)),
    "request text": _constant(_VARIABLES),
    "form text": _constant(_VARIABLES, ("bad-range", _brace_problem)),
    "query header": ValueKind(
        (_NOT_BLANK, ("unknown-value", _query_header_problem)),
        schema={
            "anyOf": [
                {"enum": [*get_args(TableHeader)]},
                {"type": "integer", "minimum": 1, "maximum": _MAX_HEADER_LINE},
            ]
        },
    ),
    "header value": _constant(*_HEADER),
    "login text": _constant(_VARIABLES, ("bad-form", _line_break_problem)),
    "login URL": _text(("bad-url", _login_url_problem)),
    "login check": ValueKind((_NOT_BLANK, ("bad-selector", _login_check_problem)), is_selector=True),
    "selector": ValueKind((_NOT_BLANK, ("bad-selector", selector_problem)), is_selector=True),
    "selector or step": ValueKind(
        (_NOT_BLANK, ("bad-step", _step_problem), ("bad-selector", _selector_or_step_problem)),
        schema={"type": ["string", "integer"], "minimum": 1, "maximum": _MAX_STEP},
        is_selector=True,
    ),
    "click target": ValueKind((_NOT_BLANK, ("bad-selector", _click_problem)), is_selector=True),
    "text source": ValueKind((_NOT_BLANK, ("bad-selector", source_problem)), is_selector=True),
    "pattern": _text(("bad-pattern", pattern_problem)),
    "filter pattern": ValueKind((("bad-pattern", pattern_problem),)),
    "replacement": ValueKind((("bad-pattern", lambda pair: template_problem(*pair)),)),
    "separator": ValueKind(
        (("empty-text", _separator_problem),), schema={"type": ["string", "number"], "minLength": 1}
    ),
    "number mark": ValueKind(
        (("bad-mark", _mark_problem),),
        schema={"type": "string", "minLength": 1, "maxLength": 1, "pattern": r"^[^0-9A-Za-z+-]$"},
    ),
    "query key": _text(("bad-key", _query_key_problem)),
    "locale": _text(("unknown-locale", _locale_problem)),
    "URL": _text(_VARIABLES, ("bad-url", _url_pattern_problem)),
    "URL template": _text(("bad-url", _url_template_problem)),
    "base URL": _text(("bad-url", _base_url_problem)),
    "sender URL": _text(_VARIABLES, ("bad-url", _sender_url_problem)),
    "proxy URL": _constant(*_HEADER, ("bad-proxy", _written_proxy_problem)),
    "output path": _text(("bad-path", _output_path_problem)),
    "list path": _text(("bad-path", _list_path_problem)),
    "token": _constant(*_SECRET),
    "user and password": _constant(*_PAIR),
    "digest user": _constant(*_PAIR, ("bad-auth", _digest_problem)),
    "steps": ValueKind(accepts="any", schema={"type": ["string", "object"]}),
    "hours": ValueKind((("bad-hours", _hours_problem),), schema={"type": "string", "pattern": f"^{_HOURS.pattern}$"}),
    "seconds": ValueKind(parse=_parse_limit),
    "index": ValueKind(parse=_parse_index),
    "index range": ValueKind(parse=_parse_index_range),
    "duration": ValueKind((_NOT_BLANK,), parse=_parse_duration),
    "page address": _text(("bad-url", _page_address_problem)),
    "moment": ValueKind((_NOT_BLANK,), parse=_parse_moment),
    "percentage": ValueKind((_NOT_BLANK,), parse=_parse_percentage),
}
"""By the names that `crawl_engine.model.declaration` gives them."""
