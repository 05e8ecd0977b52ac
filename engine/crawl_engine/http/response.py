"""The response to one request, and the parsing of its Location header."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.errors import one_line
from crawl_engine.model.host import REDACTED, RequestedSignature
from crawl_engine.model.retry_policy import REDIRECT_STATUSES

MAX_HEADERS = 512
MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header."""
MAX_ALL_HEADERS_BYTES = 256 * 1024
FILE_STATUSES = (200, 206)
"""The statuses of an answer that is a file, or a part of one."""
_ASCII = "".join(map(chr, range(128)))
_COOKIE_HEADERS = frozenset({"set-cookie", "set-cookie2"})
_WHOLE_URLS = frozenset({"location", "content-location"})
_URL_HEADERS = frozenset({"refresh", "link"})
_SECRET_HEADERS = _COOKIE_HEADERS | _WHOLE_URLS | _URL_HEADERS | frozenset(
    {"authorization", "proxy-authorization", "authentication-info", "proxy-authentication-info", "cookie",
     "x-auth-token", "x-csrf-token", "x-xsrf-token", "x-amz-security-token"}
)  # fmt: skip
_USERINFO = re.compile(r"(https?:[/\\]*|[/\\]{2,})[^/\\?#\s<>\"]*@", re.IGNORECASE)
"""The credentials in an absolute or protocol-relative URL, wherever it stands in a header."""


class FetchResponse(Struct):
    """An HTTP response of any status."""

    url: str
    """The requested URL without credentials, with environment variables not expanded."""
    status: int
    headers: tuple[tuple[str, str], ...]
    """In received order, names in lower case."""
    body: bytes
    """Decompressed; empty for a redirect, and for an error status whose body could not be read."""
    received: int
    """Bytes of the body as sent, also for a redirect."""
    elapsed: float
    """Seconds from sending to the last byte."""
    content_type: str
    location: str | None
    """The redirect's target, normalized, without credentials: those in a Location are not sent."""
    location_problem: str | None
    """Why the redirect's target cannot be followed."""
    retry_after: float | None
    """Seconds the server asks to wait, > 0, not capped."""
    exceeds_rate: bool = False
    """Whether it says that the crawler asks too often."""
    refusal: str | None = None
    """Why it is a refusal of the crawler, not a page."""
    refuses_host: bool = False
    """Whether that concerns all pages of the host."""
    challenge_answer: str | None = None
    """The `Authorization` by which the same request answers the challenge of this response, once."""
    requested_signature: RequestedSignature | None = None
    """The signature that this response asks for: the same request is sent with it, once."""
    is_signed: bool = False
    """Whether its request was."""
    loaded_url: str | None = None
    """The URL that a plugin loader was led to, normalized, without credentials; None: it is `url`."""
    notes: tuple[str, ...] = ()
    """What a browser was refused for the page."""
    cookie_header: str = ""
    """The cookies of its request."""
    changed_site: str = ""
    """The site whose session cookies it changed."""
    is_file: bool = False
    """Whether its content is in the part of a file, and `body` is only the beginning of it."""
    has_surplus: bool = False
    """Whether more came than the body, which ends where its length says."""
    file_problem: str | None = None
    """Why it is not the requested file."""

    def __repr__(self) -> str:
        return f"FetchResponse({self.status} {self.url})"  # it may answer a challenge with credentials

    @property
    def is_answered_again(self) -> bool:
        """Whether the same request follows, with what this response asks for."""
        return self.challenge_answer is not None or self.requested_signature is not None

    def take_body(self) -> bytes:
        """The body, which is empty from now on: a large one must not stay in memory for the sake of its headers."""
        taken, self.body = self.body, b""
        return taken


def decode_header(value: bytes) -> str:
    """A header value as text: UTF-8 if valid, else latin-1, the former HTTP default."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def decode_headers(pairs: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers as texts, names in lower case."""
    try:
        return tuple([(name.decode().lower(), value.decode()) for name, value in pairs])
    except UnicodeDecodeError:
        return tuple([(decode_header(name).lower(), decode_header(value)) for name, value in pairs])


def join_values(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The list in all headers of a name (lower case), as one header would hold it (RFC 9110, 5.3)."""
    return b", ".join([value for key, value in pairs if key.lower() == name])


def redact_headers(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The headers to store, names in lower case: without the values of cookies and tokens, and credentials in URLs."""
    if _SECRET_HEADERS.isdisjoint([name for name, _ in headers]):
        return headers
    return tuple([(name, _redact_value(name, value)) for name, value in headers])


def _redact_value(name: str, value: str) -> str:
    if name not in _SECRET_HEADERS:
        return value
    if name in _WHOLE_URLS:
        return urls.without_credentials(_USERINFO.sub(r"\1", value))
    if name in _URL_HEADERS:
        return _USERINFO.sub(r"\1", value)
    if name in _COOKIE_HEADERS:
        pair, separator, attributes = value.partition(";")
        cookie, equals, _ = pair.partition("=")
        return f"{cookie if equals else ''}{equals}{REDACTED}{separator}{attributes}"
    return REDACTED


def redirect_target(
    status: int, location: bytes | None, sent_url: str, route: str | None = None
) -> tuple[str | None, str | None]:
    """The target of a redirect, or the problem with it; (None, None) for other statuses.

    `sent_url` is the URL on the wire, without credentials. `route`: that of the URL, which the target has unless it has
    one of its own; None: URLs have no routes.
    """
    if status not in REDIRECT_STATUSES:
        return None, None
    if not location:
        return None, "redirect without a Location"
    # Keep the bytes of the server, in any encoding, as browsers do.
    reference = location.decode() if location.isascii() else quote(location, safe=_ASCII)
    target = urls.join(sent_url, reference, keeps_route=route is not None)
    if target is None:
        return None, not_followed(reference)
    if route and "#" not in reference:
        target += route
    return urls.without_credentials(target), None


def not_followed(target: str) -> str:
    """Why a redirect to no http URL is not followed."""
    return one_line(f"redirect to a URL that is not http or https: {urls.without_credentials(target)}")


def check_status(status: Any) -> int:
    """The status, if it is that of a final response. Raises ValueError."""
    if type(status) is not int or not 200 <= status <= 599:
        raise ValueError(f"status must be a number from 200 to 599, not {status!r:.40}")
    return status


def check_headers(headers: Sequence[tuple[Any, Any]]) -> tuple[tuple[str, str], ...]:
    """The headers, names in lower case, if a server could have sent them. Raises ValueError."""
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"more than {MAX_HEADERS} headers")
    for name, value in headers:
        if type(name) is not str or type(value) is not str:
            raise ValueError("the names and values of headers must be texts")
        if not name or not name.isascii() or not name.isprintable() or any(char in name for char in ' :"'):
            raise ValueError(f"{name!r:.60} cannot be the name of a header")
        if len(name) + len(value) > MAX_HEADER_BYTES:
            raise ValueError(f"header {name!r:.60} has more than {MAX_HEADER_BYTES:,} bytes")
        if any(char in value for char in "\r\n\0"):
            raise ValueError(f"header {name!r:.60} contains a line feed")
    if sum(len(name) + len(value) for name, value in headers) > MAX_ALL_HEADERS_BYTES:
        raise ValueError(f"the headers have more than {MAX_ALL_HEADERS_BYTES:,} bytes")
    return tuple([(name.lower(), value) for name, value in headers])
