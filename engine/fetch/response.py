"""What came back for one request: status, headers, body, and where it points. Knows nothing of the wire."""

import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from engine import urls
from engine.fetch.errors import one_line
from engine.fetch.politeness import REDIRECT_STATUSES

_ASCII = "".join(map(chr, range(128)))


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """One HTTP answer, of any status."""

    url: str
    """As asked for, without credentials; variables of the environment as written."""
    status: int
    headers: tuple[tuple[str, str], ...]
    """In the order they came, names in lower case."""
    body: bytes
    """Decoded from its Content-Encoding; empty for a redirect, and for an error status whose body was unreadable."""
    received: int
    """Bytes of the body as sent, those of a redirect too."""
    elapsed: float
    """Seconds from sending to the last byte."""
    content_type: str
    location: str | None
    """The redirect's target, normalized; it may hold the credentials of `url` where its origin is the same."""
    location_problem: str | None
    """Why a redirect has no target that could be followed."""
    retry_after: float | None
    """Seconds the server asks to wait, from 0; not capped."""


def decode_header(value: bytes) -> str:
    """A header's value as text: UTF-8 where it is that, else latin-1, which HTTP once said."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def redirect_target(status: int, location: bytes | None, asked: str, sent: str) -> tuple[str | None, str | None]:
    """Where a redirect points, or the problem with it; (None, None) for other statuses.

    `asked` is the URL as the caller gave it, `sent` the one on the wire, without credentials.
    """
    if status not in REDIRECT_STATUSES:
        return None, None
    if not location:
        return None, "redirect without a Location"
    # Browsers keep the bytes a server wrote, in whatever encoding; so do we.
    written = location.decode() if location.isascii() else quote(location, safe=_ASCII)
    target = urls.join(sent, written)
    if target is None:
        return None, one_line(f"redirect to what is no http or https URL: {urls.without_credentials(written)}")
    if "%{" in target or "%%7" in target:
        # A server must not name variables of our environment: what follows "%" is none of ours to fill in.
        target = target.replace("%{", "%25{").replace("%%7", "%25%7")
    if "@" in asked and urls.origin(target) == urls.origin(asked) and not urls.userinfo_of(target):
        userinfo = urls.userinfo_of(asked)
        target = target.replace("://", f"://{userinfo}@", 1) if userinfo else target
    return target, None


def parse_retry_after(retry_after: bytes | None, date: bytes | None) -> float | None:
    """Seconds a Retry-After asks for; a date is compared with the server's own clock where it tells it."""
    if retry_after is None:
        return None
    text = decode_header(retry_after).strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    until = _parse_http_date(text)
    if until is None:
        return None
    now = _parse_http_date(decode_header(date)) if date is not None else None
    return max(0.0, until - (time.time() if now is None else now))


def _parse_http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
