"""The cookies of a site in a browser: those that a page begins with, and what it has changed of them."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from crawl_engine import urls
from crawl_engine.browser.messages import BrowserCookie

if TYPE_CHECKING:  # the process of a browser saves the imports
    from http.cookiejar import Cookie

    from crawl_engine.http.exchange import OutgoingRequest

_DOTLESS_SUFFIX = ".local"
"""What the jar adds to names without a dot."""


def list_cookies(request: "OutgoingRequest", of_site: "Iterable[Cookie]") -> list[BrowserCookie]:
    """The cookies of a page: those of its site, with their domains and paths, overridden by those of the defs."""
    host = urls.host_of(request.target)
    pairs = [pair.partition("=") for pair in request.headers.get("Cookie", "").split("; ") if pair]
    written = [BrowserCookie(name=name, value=value, domain=host) for name, _, value in pairs]
    names = {one.name for one in written}
    return [*[_from_jar(one) for one in of_site if one.name not in names], *written]


def list_changes(request: "OutgoingRequest", sent: Sequence[BrowserCookie], now: Sequence[BrowserCookie]) -> list[str]:
    """What the page has changed, as its host would have set it. Other sites keep nothing here."""
    host, before = urls.host_of(request.target), {_key_of(one): one.value for one in sent}
    texts = [_to_set_cookie(one) for one in now if one.belongs_to(host) and before.get(_key_of(one)) != one.value]
    kept = {_key_of(one) for one in now}
    gone = [one for one in sent if _key_of(one) not in kept and one.belongs_to(host)]
    return [*texts, *[_to_set_cookie(one, expired=True) for one in gone]]


def to_playwright(cookie: BrowserCookie) -> Any:
    return {
        "name": cookie.name, "value": cookie.value, "domain": cookie.domain, "path": cookie.path,
        "expires": cookie.expires, "secure": cookie.secure, "httpOnly": cookie.http_only,
    }  # fmt: skip


def from_playwright(given: Any) -> BrowserCookie:
    return BrowserCookie(
        name=given["name"], value=given["value"], domain=given["domain"], path=given["path"],
        expires=given.get("expires", -1.0), secure=given.get("secure", False), http_only=given.get("httpOnly", False),
    )  # fmt: skip


def _from_jar(cookie: "Cookie") -> BrowserCookie:
    domain = cookie.domain
    if not cookie.domain_specified and domain.endswith(_DOTLESS_SUFFIX):
        domain = domain.removesuffix(_DOTLESS_SUFFIX)
    return BrowserCookie(
        name=cookie.name, value=cookie.value or "", domain=domain, path=cookie.path,
        expires=-1.0 if cookie.expires is None else float(cookie.expires), secure=cookie.secure,
    )  # fmt: skip


def _key_of(cookie: BrowserCookie) -> tuple[str, str, str]:
    return cookie.domain, cookie.path, cookie.name


def _to_set_cookie(cookie: BrowserCookie, *, expired: bool = False) -> str:
    text = f"{cookie.name}={'' if expired else cookie.value}; Path={cookie.path}"
    if cookie.domain.startswith("."):
        text += f"; Domain={cookie.domain[1:]}"
    if expired:
        text += "; Max-Age=0"
    elif cookie.expires > 0:
        text += f"; Max-Age={max(0, int(cookie.expires - time.time()))}"
    return text + ("; Secure" if cookie.secure else "")
