"""One request as it goes out: headers, cookies, credentials and `%{env.NAME}` put together. Sends nothing."""

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import httpx
from multidict import CIMultiDict

from engine import urls
from engine.fetch.errors import FetchFailed
from engine.model.job import Request
from engine.model.variables import render

_ENCODED_VARIABLE = re.compile(r"%%7B(env\.[^{}%]*)%7D", re.IGNORECASE)
_FRAMING_HEADERS = frozenset({"connection", "content-length", "transfer-encoding"})
_INVALID_HEADER_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class OutgoingRequest(httpx.Request):
    """An httpx request that is made of what the wire needs; URL and headers are parsed once somebody asks for them.

    A plain `httpx.Request` parses its URL at 8 µs, which nobody looks at unless cookies are about.
    """

    def __init__(self, method: str, target: str, headers: CIMultiDict[str], body: bytes) -> None:
        self.method = method
        self.target = target
        """The URL as sent: normalized, without credentials or fragment, all variables filled in."""
        self.extra_headers = headers
        """Headers beside those of every request."""
        self.extensions: dict[str, Any] = {}
        self._content = body

    def __getattr__(self, name: str) -> Any:
        made: Any
        if name == "url":
            made = httpx.URL(self.target)
        elif name == "headers":
            made = httpx.Headers(list(self.extra_headers.items()))
        elif name == "stream":
            made = httpx.ByteStream(self._content)
        else:
            raise AttributeError(name)
        setattr(self, name, made)
        return made


def build_request(
    url: str, request: Request, headers: Mapping[str, str], cookies: Mapping[str, str], *, from_defs: bool
) -> OutgoingRequest:
    """The request to send. Those of `request` win over `headers` and `cookies`, which are the host's.

    `from_defs`: the URL was written by the user, so its variables may be filled in. A page must never get them to be.
    Raises `FetchFailed`: an invalid URL or header, a variable that is not set.
    """
    target = urls.normalize(expand_url_env(url) if from_defs and "env." in url else url)
    if target is None:
        raise FetchFailed("not an absolute http or https URL", kind="url", retryable=False)
    wire: CIMultiDict[str] = CIMultiDict()
    if headers:
        for name, value in headers.items():
            _add_header(wire, name, value)
    if request.headers:
        mine: CIMultiDict[str] = CIMultiDict()
        for name, value in request.headers:
            _add_header(mine, name, value)
        wire.update(mine)
    if request.content_type is not None:
        wire["Content-Type"] = request.content_type
    if cookies or request.cookies:
        pairs = {**cookies, **dict(request.cookies)}
        written = "; ".join(f"{name}={expand_env(value)}" for name, value in pairs.items())
        wire["Cookie"] = _validated_header("Cookie", f"{wire['Cookie']}; {written}" if "Cookie" in wire else written)
    if "@" in target:
        target = _split_credentials(target, wire)
    body = expand_env(request.body).encode() if request.body is not None else b""
    return OutgoingRequest(request.method, target, wire, body)


def expand_env(text: str) -> str:
    """The text with each `%{env.NAME}` replaced. Raises `FetchFailed` naming a variable that is not set."""
    return render(text, _lookup_env) if "%{" in text else text


def expand_url_env(url: str) -> str:
    """The URL with each `%{env.NAME}` replaced; a value is one piece of it, so it is percent-encoded.

    Normalizing wrote the braces of some parts as `%7B` and `%7D`: both forms are read.
    """
    return render(_ENCODED_VARIABLE.sub(r"%{\1}", url), _lookup_quoted_env)


def _lookup_env(name: str) -> str | None:
    if not name.startswith("env."):
        return None
    variable = name.removeprefix("env.")
    value = os.environ.get(variable)
    if value is None:
        raise FetchFailed(
            f"environment variable {variable} is not set",
            kind="variable",
            retryable=False,
            remedy=f"Set {variable} in the environment that starts the crawl, and retry the failed jobs.",
        )
    return value


def _lookup_quoted_env(name: str) -> str | None:
    value = _lookup_env(name)
    return None if value is None else quote(value, safe="")


def _add_header(wire: CIMultiDict[str], name: str, value: str) -> None:
    if name.lower() not in _FRAMING_HEADERS:  # the length and the framing are the client's
        wire.add(name, _validated_header(name, expand_env(value)))


def _validated_header(name: str, value: str) -> str:
    if (
        _INVALID_HEADER_CHARACTER.search(value)
        or not name.isascii()
        or not name.isprintable()
        or ":" in name
        or " " in name
    ):
        raise FetchFailed(f"header {name} holds characters no header may hold", kind="header", retryable=False)
    return value


def _split_credentials(target: str, wire: CIMultiDict[str]) -> str:
    """The URL without `user:password@`, which become Basic authorization unless the user wrote a header for it."""
    userinfo = urls.userinfo_of(target)
    if not userinfo:
        return target
    if "Authorization" not in wire:
        user, _, password = userinfo.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}"
        wire["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return urls.without_credentials(target)
