"""The cookies of one site: those of the standard library, with a short way where a response changes only values."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.message import Message
from http.cookiejar import (  # type: ignore[attr-defined]  # `escape_path` is public, but its stub is missing
    Cookie,
    CookieJar,
    DefaultCookiePolicy,
    escape_path,
)
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request as UrllibRequest

from engine.fetch.request import OutgoingRequest

_MAX_SITE_COOKIES = 150
"""Otherwise a server that sets a new cookie on each page makes every request longer."""
_MAX_MEMOS = 500
"""Forms of a Set-Cookie that are remembered; a site whose form changes each time takes the long way."""
_MAX_REMEMBERED_URL = 10_000
"""Of a longer URL, httpx may read the origin alone."""
_MAX_ORIGINS = 200
_MAX_SHARED_CHARACTERS = 64_000
_DELETED_KEPT = 3600.0
"""Seconds for which the deletion of a cookie is passed on to other nodes."""
_REFRESH_SHARE = 20
"""A cookie that only lives longer is passed on after a twentieth of its Max-Age."""
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
"""A cookie with one of these is ignored (RFC 6265bis, 5.6): no request could send it."""
_MAX_COOKIE = 4_096
"""Characters of a name and its value (RFC 6265bis, 5.6); a longer cookie is ignored."""
_MAX_SENT_CHARACTERS = 8_000
"""Of one request, the oldest first. Usual servers refuse a longer header: one page could close its whole site."""
_MAX_AGE = re.compile(r";\s*max-age\s*=\s*([0-9]{1,9})\s*(?=;|$)", re.IGNORECASE)
_FIELDS = (
    "version", "name", "value", "port", "port_specified", "domain", "domain_specified", "domain_initial_dot", "path",
    "path_specified", "secure", "expires", "discard", "comment", "comment_url", "rfc2109",
)  # fmt: skip

_FIXED_FIELDS = tuple(name for name in _FIELDS if name not in ("value", "expires"))

CookieKey = tuple[str, str, str]
"""Domain, path and name."""


class _Memo(NamedTuple):
    """The cookie that a form of Set-Cookie, from one place of the site, has set."""

    cookie: Cookie
    max_age: int | None


class _Sent(NamedTuple):
    """The cookies for requests to one origin, in the order in which they are sent."""

    cookies: tuple[Cookie, ...]
    are_everywhere: bool
    """Whether they are for all paths."""
    are_plain: bool
    """Whether they are sent as names and values alone, as those of all sites of today."""
    until: float
    """The wall-clock second at which one of them expires."""


class SiteCookies:
    """The standard library decides which cookies are taken and sent; that takes 90 µs for each page.

    A response whose Set-Cookie differs from an earlier one in its value alone changes that value, and nothing is
    decided again: 4 µs. Not thread-safe.
    """

    def __init__(self, is_public_suffix: Callable[[str], bool]) -> None:
        """`is_public_suffix`: whether a domain is one, which no cookie may have as its Domain."""
        self._policy = _SitePolicy(is_public_suffix)
        self._jar = CookieJar(self._policy)
        self._memos: dict[tuple[str, str, str], _Memo] = {}
        self._sent: dict[str, _Sent] = {}
        self._changed_at: dict[CookieKey, float] = {}
        """Wall clock; deleted cookies are there, too, for a while."""

    def __len__(self) -> int:
        return len(self._jar)

    def take(self, request: OutgoingRequest, set_cookies: Sequence[str]) -> bool:
        """Take the values of the Set-Cookie headers of a response; returns whether that changed anything."""
        now = time.time()
        places = _split_target(request.target)
        set_cookies = [text for text in set_cookies if _is_usable(text)]
        found = []
        for text in set_cookies:
            pair, semicolon, attributes = text.partition(";")
            name, equals, value = pair.partition("=")
            memo = self._memos.get((_place_of(attributes, places), name, semicolon + attributes)) if equals else None
            if memo is None or (memo.cookie.expires is not None and memo.cookie.expires <= now):
                return self._take_slowly(request, set_cookies, places, now)
            found.append((memo, value.strip()))
        changed = False
        for (cookie, max_age), value in found:
            key = _key_of(cookie)
            if max_age is not None:
                cookie.expires = int(now) + max_age
            if cookie.value != value or (
                max_age is not None and now - self._changed_at.get(key, 0.0) > max_age / _REFRESH_SHARE
            ):
                cookie.value = value
                self._changed_at[key] = now
                changed = True
        return changed

    def header(self, request: OutgoingRequest) -> str:
        """The cookies for a request, as the Cookie header has them."""
        origin, _ = _split_target(request.target)
        sent = self._sent.get(origin)
        if sent is None or time.time() >= sent.until:
            sent = self._choose(origin)
        if not sent.are_plain:
            return self._compose(request)
        cookies: Iterable[Cookie] = sent.cookies
        if not sent.are_everywhere:
            path = escape_path(urlsplit(str(request.url)).path)
            path = path if path.startswith("/") else f"/{path}"
            cookies = [cookie for cookie in cookies if _is_below(path, cookie.path)]
        return "; ".join([f"{cookie.name}={cookie.value}" for cookie in cookies])

    def export(self) -> list[dict[str, Any]]:
        """The cookies, and which ones were deleted, as JSON values; the newest ones of a jar that is very large."""
        now = time.time()
        held = {_key_of(cookie): cookie for cookie in self._jar}
        entries: list[dict[str, Any]] = []
        left = _MAX_SHARED_CHARACTERS
        for key, changed_at in sorted(self._changed_at.items(), key=lambda item: item[1], reverse=True):
            cookie = held.get(key)
            if cookie is None:
                if now - changed_at < _DELETED_KEPT:
                    entries.append({"deleted": list(key), "at": changed_at})
                continue
            left -= len(cookie.name) + len(cookie.value or "") + len(cookie.path)
            if left < 0:
                break
            entries.append({"cookie": {name: getattr(cookie, name) for name in _FIELDS}, "at": changed_at})
        return entries

    def merge(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Take over what another node exported; of each cookie the newer one stays."""
        held = {_key_of(cookie): cookie for cookie in self._jar}
        for entry in entries:
            key: CookieKey
            if "deleted" in entry:
                domain, path, name = entry["deleted"]
                key = domain, path, name
            else:
                cookie = Cookie(**entry["cookie"], rest={})
                key = _key_of(cookie)
                if _CONTROL.search(f"{cookie.name}{cookie.value}{cookie.path}{cookie.domain}"):
                    continue
            if entry["at"] <= self._changed_at.get(key, 0.0):
                continue
            self._changed_at[key] = entry["at"]
            mine = held.get(key)
            if "cookie" not in entry:
                if mine is not None:
                    self._jar.clear(*key)
            elif mine is not None and all(getattr(mine, name) == getattr(cookie, name) for name in _FIXED_FIELDS):
                mine.value, mine.expires = cookie.value, cookie.expires  # its forms of Set-Cookie stay known
            else:
                self._jar.set_cookie(cookie)
        self._evict()
        self._forget_stale(time.time())

    def _take_slowly(
        self, request: OutgoingRequest, set_cookies: Sequence[str], places: tuple[str, str], now: float
    ) -> bool:
        before = self._values()
        asked: Any = UrllibRequest(str(request.url))
        cookies = self._jar.make_cookies(_Response(set_cookies), asked)  # type: ignore[arg-type]  # it needs `info`
        for cookie in cookies:
            if self._policy.set_ok(cookie, asked):
                self._jar.set_cookie(cookie)
        self._evict()
        after = self._values()
        for key in {*before, *after}:
            if before.get(key) != after.get(key):
                self._changed_at[key] = now
        self._forget_stale(now)
        if (
            len(cookies) == len(set_cookies) and len(request.target) < _MAX_REMEMBERED_URL
        ):  # else nobody knows which of them made which
            self._remember(set_cookies, cookies, places)
        return before != after

    def _remember(self, set_cookies: Sequence[str], cookies: Sequence[Cookie], places: tuple[str, str]) -> None:
        held = {id(cookie) for cookie in self._jar}
        if len(self._memos) > _MAX_MEMOS:
            self._memos.clear()
        for text, cookie in zip(set_cookies, cookies, strict=True):
            pair, semicolon, attributes = text.partition(";")
            name, equals, value = pair.partition("=")
            place = _place_of(attributes, places)
            fixed = equals and text.isascii() and not cookie.version and cookie.value == value.strip()
            if not fixed or id(cookie) not in held or (place == places[0] and not cookie.path_specified):
                continue
            ages = _MAX_AGE.findall(semicolon + attributes)
            if "max-age" in attributes.lower() and len(ages) != 1:
                continue
            memo = _Memo(cookie, int(ages[0]) if ages else None)
            self._memos[place, name, semicolon + attributes] = memo

    def _choose(self, origin: str) -> _Sent:
        asked: Any = UrllibRequest(f"{origin}/")
        self._jar.add_cookie_header(asked)  # drops those that have expired
        self._forget_stale(time.time())
        policy = self._policy
        chosen = [c for c in self._jar if policy.domain_return_ok(c.domain, asked) and policy.return_ok(c, asked)]
        chosen = _fit_header(chosen)
        chosen.sort(key=lambda cookie: len(cookie.path), reverse=True)
        expiries = [cookie.expires for cookie in self._jar if cookie.expires is not None]
        if len(self._sent) >= _MAX_ORIGINS:
            self._sent.clear()
        sent = self._sent[origin] = _Sent(
            tuple(chosen),
            all(cookie.path == "/" for cookie in chosen),
            all(cookie.value is not None and not cookie.version for cookie in chosen),
            min(expiries, default=float("inf")),
        )
        return sent

    def _compose(self, request: OutgoingRequest) -> str:
        asked: Any = UrllibRequest(str(request.url))
        self._jar.add_cookie_header(asked)
        return str(asked.get_header("Cookie", ""))

    def _evict(self) -> None:
        for _ in range(len(self._jar) - _MAX_SITE_COOKIES):
            oldest = next(iter(self._jar))
            self._jar.clear(oldest.domain, oldest.path, oldest.name)

    def _values(self) -> dict[CookieKey, tuple[str | None, float | None]]:
        return {_key_of(c): (c.value, c.expires) for c in self._jar}

    def _forget_stale(self, now: float) -> None:
        """After a change of which cookies there are: drop what is known of others."""
        held = {_key_of(c): id(c) for c in self._jar}
        alive = set(held.values())
        self._memos = {form: memo for form, memo in self._memos.items() if id(memo.cookie) in alive}
        self._sent.clear()
        self._changed_at = {
            key: at for key, at in self._changed_at.items() if key in held or now - at < _DELETED_KEPT
        }  # fmt: skip
        while len(self._changed_at) > 2 * _MAX_SITE_COOKIES:
            del self._changed_at[next(key for key in self._changed_at if key not in held)]


class _Response:
    """The headers of a response, as the cookie jar reads them."""

    def __init__(self, set_cookies: Sequence[str]) -> None:
        self._message = Message()
        for text in set_cookies:
            self._message["Set-Cookie"] = text

    def info(self) -> Message:
        return self._message


class _SitePolicy(DefaultCookiePolicy):
    """The rules of browsers: no Domain that is a public suffix, no subdomains without a Domain attribute."""

    def __init__(self, is_public_suffix: Callable[[str], bool]) -> None:
        super().__init__(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)
        self._is_public_suffix = is_public_suffix

    def set_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Whether a response to `request` may set a cookie with this Domain."""
        domain = cookie.domain.strip(".")
        # A host that is itself a public suffix may set cookies: no other host shares its jar.
        is_own_host = domain == urlsplit(request.full_url).hostname
        if cookie.domain_specified and not is_own_host and self._is_public_suffix(domain):
            return False
        return super().set_ok_domain(cookie, request)


def _is_usable(set_cookie: str) -> bool:
    return not _CONTROL.search(set_cookie) and len(set_cookie.partition(";")[0]) <= _MAX_COOKIE


def _fit_header(cookies: list[Cookie]) -> list[Cookie]:
    """The first cookies, as many as fit the header of a request."""
    left = _MAX_SENT_CHARACTERS
    for number, cookie in enumerate(cookies):
        left -= len(cookie.name) + len(cookie.value or "") + len("=; ")
        if left < 0:
            return cookies[:number]
    return cookies


def _key_of(cookie: Cookie) -> CookieKey:
    return cookie.domain, cookie.path, cookie.name


def _split_target(target: str) -> tuple[str, str]:
    """The origin of a normalized URL, and the URL up to the last `/` of its path."""
    slash = target.index("/", target.index("://") + 3)
    path = target[slash:].partition("?")[0]
    return target[:slash], target[: slash + path.rfind("/") + 1]


def _place_of(attributes: str, places: tuple[str, str]) -> str:
    """What decides, besides the attributes, where a cookie belongs: the origin; without a path its folder, too."""
    return places[0] if "path" in attributes.lower() else places[1]


def _is_below(path: str, cookie_path: str) -> bool:
    if path == cookie_path:
        return True
    return path.startswith(cookie_path) and (
        cookie_path.endswith("/") or path[len(cookie_path) : len(cookie_path) + 1] == "/"
    )
