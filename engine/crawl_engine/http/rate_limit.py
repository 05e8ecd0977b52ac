"""Reads how long a site asks to wait, and whether it is asked too often, from headers."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from crawl_engine.model.retry_policy import OVERLOAD_STATUSES
from crawl_engine.runtime.mail_date import read_mail_date

_FORBIDDEN = 403
"""With an exhausted limit, or a wait, it refuses the rate, not the page."""
LIMITING_STATUSES = OVERLOAD_STATUSES | {_FORBIDDEN}
_FAMILIES = ("x-ratelimit", "x-rate-limit", "ratelimit")
_DRAFT = "ratelimit"
_READ = frozenset(
    ["retry-after", "date", _DRAFT]
    + [f"{family}-{part}" for family in _FAMILIES for part in ("remaining", "reset", "reset-after")]
)
_MAX_CHARACTERS = 4_096
"""Of the headers of one name, joined."""
_ITEMS = re.compile(r"[A-Za-z]+,[^,]+|[^,]+")
"""The items of a list; a date has a comma behind its day of the week."""
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*s(?:ec(?:ond)?s?)?)?", re.IGNORECASE)
"""Some servers write the unit, too."""
_UNIX_TIME, _UNIX_MILLISECONDS = 1e9, 1e11
"""From these numbers on it is a moment: nobody waits for 31 years."""
_DRAFT_PARAMETER = re.compile(r"(?:^|[;,\s])(remaining|reset|r|t)\s*=\s*([0-9]+)", re.IGNORECASE)

_SHORT_NAMES = {"remaining": "r", "reset": "t"}


class RateLimit(NamedTuple):
    """What a response says about the rate of requests."""

    wait: float | None = None
    """Seconds, > 0, not capped; None: it asks for no wait that lies ahead."""
    is_exceeded: bool = False
    """Whether the crawler asks too often, by the status or by the headers."""


class _Limit(NamedTuple):
    """One limit of a site. None: it does not say."""

    remaining: float | None
    wait: float | None


def read_rate_limit(status: int, headers: Iterable[tuple[str, str]]) -> RateLimit:
    """`headers`: names in lower case. Retry-After counts before the limits, a date by the server's own clock."""
    values: dict[str, str] = {}
    for name, value in headers:
        if name in _READ:
            values[name] = f"{values[name]}, {value}"[:_MAX_CHARACTERS] if name in values else value[:_MAX_CHARACTERS]
    server = read_mail_date(values["date"]) if "date" in values else None
    now = time.time() if server is None else server
    asked = _longest([_read_wait(item, now) for item in _items(values, "retry-after")])
    if status not in LIMITING_STATUSES:
        return RateLimit(asked)
    limits = [limit for limit in _list_limits(values, now) if not limit.remaining]
    is_exhausted = any(limit.remaining == 0 for limit in limits)
    is_exceeded = status in OVERLOAD_STATUSES or is_exhausted or asked is not None
    return RateLimit(asked or (_longest([limit.wait for limit in limits]) if is_exceeded else None), is_exceeded)


def _list_limits(values: Mapping[str, str], now: float) -> Iterator[_Limit]:
    for family in _FAMILIES:
        remaining = [_read_number(item) for item in _items(values, f"{family}-remaining")]
        resets = _items(values, f"{family}-reset") or _items(values, f"{family}-reset-after")
        for left, reset in zip_longest(remaining, resets):
            yield _Limit(left, None if reset is None else _read_wait(reset, now))
    yield from _list_drafted(values.get(_DRAFT, ""))


def _list_drafted(value: str) -> Iterator[_Limit]:
    """`"hour";r=0;t=50, …` of the IETF's draft, and `limit=10, remaining=0, reset=50` of its earlier versions."""
    of_one: dict[str, float] = {}
    for match in _DRAFT_PARAMETER.finditer(value):
        name = _SHORT_NAMES.get(match[1].lower(), match[1].lower())
        if name in of_one:
            yield _Limit(of_one.get("r"), of_one.get("t"))
            of_one = {}
        of_one[name] = float(match[2])
    if of_one:
        yield _Limit(of_one.get("r"), of_one.get("t"))


def _items(values: Mapping[str, str], name: str) -> list[str]:
    return [item.strip() for item in _ITEMS.findall(values.get(name, ""))]


def _longest(waits: Iterable[float | None]) -> float | None:
    longest = max((wait for wait in waits if wait is not None), default=0.0)
    return longest if longest > 0 else None


def _read_number(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def _read_wait(text: str, now: float) -> float | None:
    """The seconds of a number of seconds, a Unix time in seconds or milliseconds, or a date."""
    if written := _SECONDS.fullmatch(text):
        number = float(written[1])
        if number < _UNIX_TIME:
            return number
        return number / (1_000 if number >= _UNIX_MILLISECONDS else 1) - now
    until = read_mail_date(text)
    return None if until is None else until - now
