"""Parses the value of a setting, from a flag, an environment variable or crawl.toml."""

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from engine import urls
from engine.errors import UsageError
from engine.model.node import NodeRange

if TYPE_CHECKING:
    from datetime import datetime

_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)
_CONTACT = re.compile(r"https?://[!-'*-~]+|[!-'*-?A-~]+@[!-'*-?A-~]+")
"""A URL or a mail address, without blanks and brackets, which would break the header it becomes part of."""

_HEADER_TEXT = re.compile(r"[!-~](?:[ -~]*[!-~])?")
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
    return float(text)


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

    from engine.model.java_date import DateInvalid, parse_date

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
    from engine.model.java_date import DateInvalid, check_pattern

    try:
        check_pattern(text)
    except DateInvalid as error:
        raise UsageError(str(error), "Write a Java date pattern, such as dd-MM-yyyy HH:mm:ss.") from None
    return True


_TIMES = frozenset(
    {
        "delay", "deadline", "file_drain", "grace", "heart_timeout", "max_time", "node_drain", "node_idle",
        "node_wait", "parse_limit", "send_drain", "start_timeout", "stop_within",
    }
)  # fmt: skip
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_MINIMUMS: Mapping[str, float] = {
    "node_wait": 0.1, "node_idle": 0.1,
    "backups": 0, "concurrency": 1, "batch": 1, "grace": 0, "deadline": 0.1, "max_attempts": 1,
    "max_body": 1, "max_file": 1, "max_redirects": 0, "max_failed": 0, "min_rows": 0, "delay": 0, "host_concurrency": 1,
    "refresh": 0.1, "max_pages": 1, "max_time": 0.1, "min_free": 0, "parse_limit": 0.1, "parse_memory": 100_000_000,
    "max_links": 0, "stop_within": 1, "node_drain": 1, "file_drain": 1, "send_drain": 0, "seed_retries": 0,
    "heart_timeout": 0.5, "start_timeout": 1,
}  # fmt: skip


_TEXT_RULES: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "live": (lambda text: duration_seconds(text) >= 0, "an ISO 8601 duration, such as P1D, PT12H or PT90S"),
    "max_rejected": (lambda text: parse_share(text) >= 0, "a percentage, such as 5%"),
    "contact": (
        lambda text: _CONTACT.fullmatch(text) is not None,
        "a URL (https://acme.example/bot) or a mail address",
    ),
    "user_agent": (lambda text: _HEADER_TEXT.fullmatch(text) is not None, "printable ASCII text, such as acme-bot/1.0"),
    "base_url": (urls.is_absolute, "an http or https URL, or a file: URL with allow_file"),
    "date_time_pattern": (_is_date_pattern, "a Java date pattern, such as dd-MM-yyyy HH:mm:ss"),
}
"""By setting: whether a text is valid, which may raise ValueError, and what is."""


def parse_value(name: str, hint: Any, value: Any, *, typed: bool) -> Any:
    """The value of a setting. `hint`: its type. `typed`: from TOML, which has numbers and booleans of its own.

    Raises UsageError, which names the setting but not where the value stands.
    """
    invalid = UsageError(f"{name} cannot be {_quote(name, value)}", f"Use {_describe_expected(name, hint)}.")
    try:
        if typed and isinstance(value, str) and name not in _TIMES:
            _check_is_text(hint, value)
        parsed: Any = parse_seconds(value) if name in _TIMES and value not in ("", "none") else _coerce(hint, value)
        if isinstance(parsed, float | int) and not (math.isfinite(parsed) and parsed >= _MINIMUMS.get(name, parsed)):
            raise invalid
        if name in _TEXT_RULES and parsed is not None and not _is_valid_text(name, parsed):
            raise invalid
    except (ValueError, TypeError):
        raise invalid from None
    return parsed


def _is_valid_text(name: str, text: str) -> bool:
    try:
        return _TEXT_RULES[name][0](text)
    except UsageError as error:  # it says more than that the text is invalid
        raise UsageError(f"{name}: {error.message}", error.remedy) from None


def _quote(name: str, value: Any) -> str:
    return repr(urls.without_credentials(value) if name == "base_url" and isinstance(value, str) else value)


def _check_is_text(hint: Any, value: str) -> None:
    """Raises ValueError where TOML has a string for a number or a boolean."""
    text = str(hint)
    if hint is NodeRange and "-" in value:
        return
    if get_origin(hint) is not Literal and "str" not in text and not ("None" in text and value in ("", "none")):
        raise ValueError(value)


def _describe_expected(name: str, hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(get_args(hint))
    if hint is NodeRange:
        return "a number of 1 or more, such as 4, or a range from the least to the most, such as 1-4"
    if name in _TEXT_RULES:
        return _TEXT_RULES[name][1]
    text = str(hint)
    if "tuple" in text:
        return 'a list of strings, as JSON: ["mail", "-s", "crawled", "me@acme.example"]'
    kinds = {"bool": "true or false", "int": "an integer", "float": "a number"}
    kind = next((words for part, words in kinds.items() if part in text), "a text")
    if name in _TIMES:
        return f"seconds, {_MINIMUMS[name]:g} or more, or a time such as 90s, 5m, 2h"
    return f"{kind} of {_MINIMUMS[name]:g} or more" if name in _MINIMUMS else kind


def _coerce(type_hint: Any, value: Any) -> Any:
    if get_origin(type_hint) is Literal:
        if value not in get_args(type_hint):
            raise ValueError(value)
        return value
    hint = str(type_hint)
    if "None" in hint and value in ("", "none"):
        return None
    if "tuple" in hint:
        return _parse_strings(value)
    if "bool" in hint:
        if isinstance(value, bool):
            return value
        booleans = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in booleans:
            raise ValueError(value)
        return booleans[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError(value)
    if type_hint is NodeRange:
        return NodeRange.parse(str(value))
    if "int" in hint:
        return int(str(value).replace("_", ""))
    if "float" in hint:
        return float(value)
    return str(value)


def _parse_strings(value: Any) -> tuple[str, ...]:
    """A list of strings, or the JSON of one; the first must not be blank."""
    strings = json.loads(value) if isinstance(value, str) else value
    if not isinstance(strings, list) or not strings or not all(isinstance(item, str) for item in strings):
        raise ValueError(value)
    if not strings[0].strip() or any("\0" in item for item in strings):
        raise ValueError(value)
    return tuple(strings)
