"""Builds the request to send: headers, cookies, credentials, and the secrets of variables."""

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from multidict import CIMultiDict

from crawl_engine import urls
from crawl_engine.encodings import quote_form_text
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.late_regex import late_regex
from crawl_engine.model.host import FIXED_HEADERS, SAFE_HEADERS, HostAuth, HostRoute, HostRule
from crawl_engine.model.job import LeasedJob, Request
from crawl_engine.model.link import FORM_TYPE, JSON_TYPE
from crawl_engine.model.variables import UnusableVariable, decode_variables, render_secrets

_INVALID_HEADER_CHARACTER = late_regex(r"[\x00-\x08\x0a-\x1f\x7f]")
_INVALID_CREDENTIAL = late_regex(r"[\x00-\x1f\x7f]")
"""RFC 7617 and RFC 7616 exclude them."""
_NO_COOKIES: Mapping[str, str] = MappingProxyType({})


def build_request(
    url: str,
    request: Request,
    headers: Mapping[str, str],
    cookies: Mapping[str, str],
    *,
    from_defs: bool,
    auth: HostAuth | None = None,
    terms: RequestTerms | None = None,
) -> OutgoingRequest:
    """The request to send. Headers and cookies of `request` override `headers` and `cookies`, which are the host's.

    `from_defs`: the URL is a text of the defs, so its variables are expanded. A URL from a page is sent as it is.
    `auth`: the host's, unless the request has an `Authorization`.
    Raises `FetchFailed`: invalid URL, header or credential, or a variable that is not set.
    """
    expanded = expand_url(url) if from_defs else url
    target = urls.normalize(expanded)
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
        value = "; ".join(f"{name}={expand(value)}" for name, value in pairs.items())
        out["Cookie"] = _validated_header("Cookie", f"{out['Cookie']}; {value}" if "Cookie" in out else value)
    if request.userinfo:
        _add_basic_authorization(expand_url(request.userinfo), out)
    if "@" in target:
        target = _split_credentials(target, out)
    if auth is not None and auth.kind != "digest" and "Authorization" not in out:
        out["Authorization"] = _validated_header("Authorization", authorization_of(auth))
    body = b""
    if request.body is not None:
        body = _expand(request.body, BODY_ENCODERS.get(request.content_type or "")).encode()
    try:
        "".join(out.values()).encode()
    except UnicodeEncodeError:
        raise FetchFailed("invalid HTTP request", kind="url", retryable=False) from None
    outgoing = OutgoingRequest(request.method, target, out, body, terms)
    if request.in_browser:
        outgoing.route = urls.route_of(urls.normalize(expanded, keeps_route=True) or "")
    return outgoing


def authorization_of(auth: HostAuth) -> str:
    """The header of basic or bearer authentication. Raises `FetchFailed`."""
    if auth.kind == "bearer":
        return f"Bearer {expand(auth.credential).strip()}"
    user, password = user_and_password(auth)
    return f"Basic {b64encode(f'{user}:{password}'.encode('utf-8', 'replace')).decode()}"


def user_and_password(auth: HostAuth) -> tuple[str, str]:
    """The parts of a credential of basic or digest authentication. Raises `FetchFailed`; never quotes them."""
    user, colon, password = expand(auth.credential).partition(":")
    problem = ""
    if not colon:
        problem = "must be user:password"
    elif _INVALID_CREDENTIAL.search(user + password):
        problem = "contains a line break or control character"
    elif auth.kind == "digest" and ('"' in user or "\\" in user):
        problem = "has a user with a quote or backslash"
    if problem:
        raise FetchFailed(f"the credential of auth: {auth.kind} {problem}", kind="header", retryable=False)
    return user, password


def expand(text: str) -> str:
    """The text with its secrets. Raises `FetchFailed` naming a variable that is not usable."""
    return _expand(text)


def expand_url(url: str) -> str:
    """The URL, or a part of one, with its secrets percent-encoded. Raises `FetchFailed`.

    Normalization encodes the braces of variables in some parts as `%7B` and `%7D`; both forms are expanded.
    """
    return _expand(decode_variables(url), _encode_for_url)


def _encode_for_url(text: str) -> str:
    return quote(text, safe="")


def _encode_for_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


BODY_ENCODERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {FORM_TYPE: quote_form_text, JSON_TYPE: _encode_for_json}
)
"""How a variable is written in a body that the crawler has encoded; a `body` of the defs is sent as is."""


def _expand(text: str, encode: Callable[[str], str] | None = None) -> str:
    if "%{" not in text:
        return text
    try:
        return render_secrets(text, os.environ, encode)
    except UnusableVariable as error:
        remedy = "Set the variable in the environment that starts the crawl, or mend the file, and retry the jobs."
        raise FetchFailed(str(error), kind="variable", retryable=False, remedy=remedy) from None


def _add_header(out: CIMultiDict[str], name: str, value: str) -> None:
    if name.lower() not in FIXED_HEADERS:
        out.add(name, _validated_header(name, expand(value)))


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


def cookies_along(job: LeasedJob, group: str, url: str) -> tuple[tuple[str, str], ...]:
    """The cookies of its locator that a link of the job's page sends to a page of that group."""
    cookies = job.lineage.cookies
    return cookies if cookies and group == job.group and urls.origin(url) == urls.origin(job.url) else ()


class HostPart(NamedTuple):
    """What the rule of a host adds to a request."""

    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    auth: HostAuth | None = None
    route: HostRoute | None = None
    """How it travels: not a credential, and the same for robots.txt and sitemaps."""


NOTHING = HostPart(_NO_COOKIES, _NO_COOKIES)


def host_part(rule: HostRule, *, with_credentials: bool) -> HostPart:
    """What the rule adds; without credentials, only the route and the headers that are safe to send anywhere."""
    if with_credentials:
        return HostPart(rule.headers, rule.cookies, rule.auth, rule.route)
    safe = {name: value for name, value in rule.headers.items() if name.lower() in SAFE_HEADERS}
    return HostPart(safe, _NO_COOKIES, None, rule.route)


def may_carry_credentials(rule: HostRule, url: str, start_url: str, plain_hosts: frozenset[str]) -> bool:
    """Whether a request for `url` may carry the credentials of its host's rule.

    Over https always. Over http only where the defs ask for it: the page's locator (`start_url`) or another one
    (`plain_hosts`) names the host with http, or the rule names port 80. A link from an https page cannot ask.
    """
    if url.startswith("https:"):
        return True
    host = urls.host_of(url)
    return (
        host in plain_hosts
        or rule.name.endswith(":80")
        or (start_url.startswith("http:") and urls.host_of(start_url) == host)
    )
