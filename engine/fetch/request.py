"""Builds the request to send: headers, cookies, credentials, `%{env.NAME}` variables."""

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import unquote

import httpx
from multidict import CIMultiDict

from engine import urls
from engine.fetch.errors import FetchFailed
from engine.model.headers import FIXED_HEADERS
from engine.model.job import Request
from engine.model.secret import decode_variables
from engine.model.variables import UnsetVariable, render_environment

_INVALID_HEADER_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class OutgoingRequest(httpx.Request):
    """An httpx request that carries the exact URL to send; httpx would re-encode it.

    It sets the public attributes itself: the constructor of `httpx.Request` adds headers and takes three times as long.
    """

    def __init__(self, method: str, target: str, headers: httpx.Headers, body: bytes, *, exempt: bool = False) -> None:
        self.method = method
        self.target = target
        """The URL as sent: normalized, without credentials or fragment, with all variables expanded."""
        self.headers = headers
        """Headers besides those of every request."""
        self.body = body
        self.exempt = exempt
        """Whether the host may be at a guarded address."""

    @cached_property
    def url(self) -> httpx.URL:  # type: ignore[override]  # an attribute there: parsing it again takes 10 µs
        """The URL for cookies; only its origin if httpx rejects a URL that browsers accept, such as a very long one."""
        try:
            return httpx.URL(self.target)
        except httpx.InvalidURL:
            return httpx.URL(urls.origin(self.target))

    @property
    def content(self) -> bytes:
        """The body."""
        return self.body

    def read(self) -> bytes:
        """The body."""
        return self.body

    async def aread(self) -> bytes:
        """The body."""
        return self.body


def build_request(
    url: str,
    request: Request,
    headers: Mapping[str, str],
    cookies: Mapping[str, str],
    *,
    from_defs: bool,
    exempt: bool = False,
) -> OutgoingRequest:
    """The request to send. Headers and cookies of `request` override `headers` and `cookies`, which are the host's.

    `from_defs`: the URL comes from the defs, so its variables are expanded. Never expand them in URLs from pages.
    `exempt`: the host may be at a guarded address.
    Raises `FetchFailed`: invalid URL or header, or a variable that is not set.
    """
    target = urls.normalize(expand_url_env(url) if from_defs and "env." in url else url)
    if target is None:
        raise FetchFailed("not an absolute http or https URL", kind="url", retryable=False)
    out: CIMultiDict[str] = CIMultiDict()
    if headers:
        for name, value in headers.items():
            _add_header(out, name, value)
    if request.headers:
        own: CIMultiDict[str] = CIMultiDict()
        for name, value in request.headers:
            _add_header(own, name, value)
        out.update(own)
    if request.content_type is not None:
        out["Content-Type"] = request.content_type
    if cookies or request.cookies:
        pairs = {**cookies, **dict(request.cookies)}
        value = "; ".join(f"{name}={expand_env(value)}" for name, value in pairs.items())
        out["Cookie"] = _validated_header("Cookie", f"{out['Cookie']}; {value}" if "Cookie" in out else value)
    if request.userinfo:
        _add_basic_authorization(expand_url_env(request.userinfo), out)
    if "@" in target:
        target = _split_credentials(target, out)
    body = expand_env(request.body).encode() if request.body is not None else b""
    try:
        encoded = httpx.Headers(list(out.items()), encoding="utf-8")
    except UnicodeEncodeError:
        raise FetchFailed("invalid HTTP request", kind="url", retryable=False) from None
    return OutgoingRequest(request.method, target, encoded, body, exempt=exempt)


def expand_env(text: str) -> str:
    """The text with each `%{env.NAME}` replaced. Raises `FetchFailed` naming a variable that is not set."""
    return _expand(text) if "%{" in text else text


def expand_url_env(url: str) -> str:
    """The URL with each `%{env.NAME}` replaced by its percent-encoded value.

    Normalization encodes the braces in some parts as `%7B` and `%7D`; both forms are expanded.
    """
    return _expand(decode_variables(url), quoted=True)


def _expand(text: str, *, quoted: bool = False) -> str:
    try:
        return render_environment(text, os.environ, quoted=quoted)
    except UnsetVariable as error:
        raise FetchFailed(
            str(error),
            kind="variable",
            retryable=False,
            remedy=f"Set {error.name} in the environment that starts the crawl, and retry the failed jobs.",
        ) from None


def _add_header(out: CIMultiDict[str], name: str, value: str) -> None:
    if name.lower() not in FIXED_HEADERS:
        out.add(name, _validated_header(name, expand_env(value)))


def _validated_header(name: str, value: str) -> str:
    if (
        _INVALID_HEADER_CHARACTER.search(value)
        or not name.isascii()
        or not name.isprintable()
        or ":" in name
        or " " in name
    ):
        raise FetchFailed(f"header {name} contains invalid characters", kind="header", retryable=False)
    return value


def _split_credentials(target: str, out: CIMultiDict[str]) -> str:
    """The URL without `user:password@`, which becomes Basic authorization unless that header is set."""
    userinfo = urls.userinfo_of(target)
    if not userinfo:
        return target
    _add_basic_authorization(userinfo, out)
    return urls.without_credentials(target)


def _add_basic_authorization(userinfo: str, out: CIMultiDict[str]) -> None:
    if "Authorization" not in out:
        user, _, password = userinfo.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}"
        out["Authorization"] = f"Basic {b64encode(pair.encode('utf-8', 'replace')).decode()}"
