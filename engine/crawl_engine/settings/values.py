"""Reads the value of a setting by its type and bounds: numbers, times, shares, durations and dates."""

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from crawl_engine import urls
from crawl_engine.errors import UsageError
from crawl_engine.late_regex import late_regex
from crawl_engine.model import bounds
from crawl_engine.model.bounds import describe_bounds, is_time, is_within
from crawl_engine.model.node import NodeRange

if TYPE_CHECKING:
    from datetime import datetime

_PERCENTAGE = late_regex(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)
_CONTACT = late_regex(r"https?://[!-'*-~]+|[!-'*-?A-~]+@[!-'*-?A-~]+")
"""A URL or a mail address, without blanks and brackets, which would break the header it becomes part of."""

_STORE_URL = late_regex(r"postgres(?:ql)?://(?![^/?#]*@[^/?#]*@)[!-~]+", re.ASCII)
_PAGE_STORE = late_regex(r"(?:file:///|(?:s3|gs|az)://[\w.-]+)(?!.*//)(?!.*\.\./)[^?#\s@]*", re.ASCII)
_PLACE = late_regex(r"[a-z][a-z0-9+.-]*://[^\s#]*|/\S*", re.IGNORECASE)
"""What may be shown of a store that is refused."""
_SCHEME = late_regex(r"[a-z][a-z0-9+.-]{0,30}", re.IGNORECASE)
_PROJECT = late_regex(r"(?!pg_)[a-z][a-z0-9_]{0,39}", re.ASCII)
_HEADER_TEXT = late_regex(r"[!-~](?:[ -~]*[!-~])?")
"""Text that may stand in a request's header."""


def duration_seconds(text: str) -> float:
    """Seconds of an ISO 8601 duration such as `PT15M` or `P1D`, at most 300 years.

    Raises UsageError; years and months have no fixed length, and each number needs its unit.
    """
    if text == "PT0S":
        return 0.0
    invalid = UsageError(
        f"'{text}' is not an ISO 8601 duration", "Write P1D for a day, PT12H for 12 hours, PT90S for 90 seconds."
    )
    if text[-1:].isdigit() or "-" in text:
        raise invalid
    from isoduration import parse_duration

    try:
        duration = parse_duration(text)
        date, time = duration.date, duration.time
        days = date.weeks * 7 + date.days
        seconds = float(((days * 24 + time.hours) * 60 + time.minutes) * 60 + time.seconds)
    except Exception as error:  # the parser also raises errors of its number reader
        raise invalid from error
    if date.years or date.months:
        raise UsageError(f"'{text}' has years or months, which vary in length", "Write it in days, such as P30D.")
    if not 0 <= seconds <= 1e10:
        raise UsageError(f"'{text}' must be between 0 seconds and 300 years", "Write for example P30D.")
    return seconds


def parse_seconds(value: Any) -> float:
    """Seconds of a number, of a number with one of the units ms, s, m, h, d, or of an ISO 8601 duration.

    Raises ValueError.
    """
    text = str(value).strip()
    match = _TIME.fullmatch(text)
    if match is not None:
        return float(match[1]) * _UNITS[match[2] or "s"]
    if text.startswith("P"):
        try:
            return duration_seconds(text)
        except UsageError as error:
            raise ValueError(text) from error
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(text)
    return seconds


def parse_share(text: str) -> float:
    """The share that a percentage such as `2.5%` stands for: 0 to 1. Raises ValueError."""
    match = _PERCENTAGE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ValueError(text)
    return float(match[1]) / 100


def parse_run_time(text: str, pattern: str | None) -> "datetime":
    """The setting `run_time` as a date in UTC, which it is taken to be unless it says otherwise.

    `pattern`: the setting `date_time_pattern`. Raises UsageError, which names both forms.
    """
    from datetime import UTC, datetime  # most processes have no such setting

    from crawl_engine.runtime.java_date import DateInvalid, parse_date

    date: datetime | None = None
    if pattern is not None:
        with contextlib.suppress(DateInvalid):
            date = parse_date(text, (pattern,))
    if date is None:
        with contextlib.suppress(ValueError):
            date = datetime.fromisoformat(text)
    try:
        if date is not None:
            return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except OverflowError:  # beyond the year 1 or 9999 in UTC
        pass
    form = "of `date_time_pattern`, which is not set" if pattern is None else f"{pattern!r} of `date_time_pattern`"
    remedy = f"Write it as ISO 8601, such as 2024-01-31T09:05:00Z, or in the pattern {form}."
    raise UsageError(f"run_time cannot be {text!r}", remedy)


def _is_date_pattern(text: str) -> bool:
    from crawl_engine.runtime.java_date import DateInvalid, check_pattern

    try:
        check_pattern(text)
    except DateInvalid as error:
        raise UsageError(str(error), "Write a Java date pattern, such as dd-MM-yyyy HH:mm:ss.") from None
    return True


_TIME = late_regex(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BOOLEANS = {"yes": "true", "no": "false"}

_VARIABLE = late_regex(r"%\{(?:env|file)\.[^{}]+\}")
_RECEIVER = late_regex(r"[a-z][a-z0-9+.-]*://\S+|%\{(?:env|file)\.[^{}]+\}\S*", re.IGNORECASE)
"""A URL of `notify`, or a variable that holds one."""

_TEXT_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "live": (lambda text: duration_seconds(text) >= 0, "an ISO 8601 duration, such as P1D, PT12H or PT90S"),
    "max_rejected": (lambda text: parse_share(text) >= 0, "a percentage, such as 5%"),
    "contact": (
        lambda text: _CONTACT.fullmatch(text) is not None,
        "a URL (https://acme.example/bot) or a mail address",
    ),
    "user_agent": (lambda text: _HEADER_TEXT.fullmatch(text) is not None, "printable ASCII text, such as acme-bot/1.0"),
    "base_url": (urls.is_absolute, "an http or https URL, or a file: URL with allow_file"),
    "store": (
        lambda text: _STORE_URL.fullmatch(text) is not None,
        "a URL of PostgreSQL, such as postgresql://user@host/database or postgresql:///database?host=/run/postgresql, "
        "with %40 for an @ of its password",
    ),
    "project": (
        lambda text: _PROJECT.fullmatch(text) is not None,
        "up to 40 lower-case letters, digits and _, a letter first, but not pg_",
    ),
    "page_store": (
        lambda text: _PAGE_STORE.fullmatch(text) is not None,
        "s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH, or file:///PATH of a folder that all machines share",
    ),
    "notify": (
        lambda urls: all(_RECEIVER.fullmatch(url) for url in urls),
        'a list of URLs, such as ["jsons://hooks.example/crawl", "%{env.CHAT_URL}"]',
    ),
    "date_time_pattern": (_is_date_pattern, "a Java date pattern, such as dd-MM-yyyy HH:mm:ss"),
}
"""By setting: whether a text is valid, which may raise ValueError, and a description of valid texts."""


def parse_nodes(text: str) -> NodeRange:
    """The number or range of nodes of a text such as `4` or `1-4`. Raises ValueError."""
    nodes = NodeRange.parse(text)
    if not is_within(bounds.NODES, nodes.most):
        raise ValueError(text)
    return nodes


def parse_value(name: str, hint: Any, value: Any, *, typed: bool) -> Any:
    """The value of a setting. `hint`: its type. `typed`: from TOML, which has numbers and booleans of its own.

    Raises UsageError, which names the setting but not where the value stands.
    """
    kind, limits, is_optional = split_hint(hint)
    if is_optional and value in ("", "none"):
        return None
    try:
        parsed = _convert(kind, limits, value, typed=typed)
        if name in _TEXT_RULES and not _is_valid_text(name, parsed):
            raise ValueError(value)
    except (ValueError, TypeError):
        remedy = f"Use {_describe_expected(name, kind, limits)}."
        raise UsageError(f"{name} cannot be {_quote(name, value)}", remedy) from None
    return parsed


def split_hint(hint: Any) -> tuple[Any, Meta | None, bool]:
    """The type of a setting without `None` and bounds; its bounds; whether it may be `None`."""
    is_optional = get_origin(hint) in (Union, UnionType)
    kind = get_args(hint)[0] if is_optional else hint
    return (*get_args(kind), is_optional) if get_origin(kind) is Annotated else (kind, None, is_optional)


def _convert(kind: Any, limits: Meta | None, value: Any, *, typed: bool) -> Any:
    """Raises ValueError."""
    if kind is NodeRange:
        if isinstance(value, bool) or (typed and isinstance(value, str) and "-" not in value):
            raise ValueError(value)
        return parse_nodes(str(value))
    if limits is not None and is_time(limits):
        value = parse_seconds(value)
    elif not typed and isinstance(value, str):
        if kind is bool:
            value = _BOOLEANS.get(value.lower(), value)
        elif kind is int:
            value = value.strip().replace("_", "")
        elif get_origin(kind) is tuple:
            value = json.loads(value)
    elif not typed and kind is str:
        value = str(value)
    converted = msgspec.convert(value, kind if limits is None else Annotated[kind, limits], strict=typed)
    if isinstance(converted, tuple) and not (converted and converted[0].strip() and "\0" not in "".join(converted)):
        raise ValueError(value)
    return converted


def _is_valid_text(name: str, text: Any) -> bool:
    try:
        return _TEXT_RULES[name][0](text)
    except UsageError as error:  # it says more than that the text is invalid
        raise UsageError(f"{name}: {error.message}", error.remedy) from None


def _quote(name: str, value: Any) -> str:
    """A refused value. What may be a password is not shown: a text that is no URL, and the query of one."""
    if name == "notify":  # any part may be a token
        return repr([mask_receiver(str(one)) for one in value] if isinstance(value, list | tuple) else "·····")
    if not isinstance(value, str) or name not in ("base_url", "store", "page_store"):
        return repr(value)
    masked = urls.without_passwords(value)
    if name == "base_url":
        return repr(masked)
    place = masked.partition("?")[0]
    return repr(place) if _PLACE.fullmatch(place) else "a text of this form"


def mask_receiver(url: str) -> str:
    """A URL of `notify` as it may be shown: its scheme, or the variables that it holds."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return url if _VARIABLE.fullmatch(url) else "·····"
    return f"{scheme}://·····" if _SCHEME.fullmatch(scheme) else "·····"


def _describe_expected(name: str, kind: Any, limits: Meta | None) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if kind is NodeRange:
        return f"a number {describe_bounds(bounds.NODES)}, or a range from the least to the most, such as 1-4"
    if name in _TEXT_RULES:
        return _TEXT_RULES[name][1]
    if get_origin(kind) is tuple:
        return 'a list of strings, as JSON: ["mail", "-s", "crawled", "me@acme.example"]'
    words = {bool: "true or false", int: "an integer", float: "a number"}.get(kind, "a text")
    if limits is None:
        return words
    if is_time(limits):
        return f"seconds {describe_bounds(limits)}, or a time such as 90s, 5m, 2h"
    return f"{words} {describe_bounds(limits)}"
