"""Session cookies of a crawl, split by site and bounded in size; several threads may use them."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.message import Message
from functools import cache, lru_cache
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import Request as UrllibRequest

from crawl_engine import urls
from crawl_engine.http.exchange import OutgoingRequest

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_MAX_SITE_COOKIES = 150
"""Otherwise a server that sets a new cookie on each page makes every request longer."""
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
_FIELDS = (
    "version", "name", "value", "port", "port_specified", "domain", "domain_specified", "domain_initial_dot", "path",
    "path_specified", "secure", "expires", "discard", "comment", "comment_url", "rfc2109",
)  # fmt: skip

CookieKey = tuple[str, str, str]
"""Domain, path and name."""
_Value = tuple[str | None, float | None]
"""The value, and when it expires."""
_MAX_SITES = 5000


class SiteCookies:
    """The standard library decides which cookies are taken and sent. Not thread-safe."""

    def __init__(self, is_public_suffix: Callable[[str], bool]) -> None:
        """`is_public_suffix`: whether a domain is one, which no cookie may have as its Domain."""
        self._policy = _SitePolicy(is_public_suffix)
        self._jar = CookieJar(self._policy)
        self._changed_at: dict[CookieKey, float] = {}
        """Wall clock; deleted cookies are there, too, for a while."""

    def __len__(self) -> int:
        return len(self._jar)

    def take(self, request: OutgoingRequest, set_cookies: Sequence[str]) -> bool:
        """Take the values of the Set-Cookie headers of a response; returns whether that changed anything."""
        now = time.time()
        before = self._values()
        asked: Any = UrllibRequest(str(request.url))
        response: Any = _Response([text for text in set_cookies if _is_usable(text)])
        self._jar.extract_cookies(response, asked)
        self._evict()
        after = self._values()
        changed = [key for key in {*before, *after} if self._has_changed(key, before.get(key), after.get(key), now)]
        self._changed_at.update(dict.fromkeys(changed, now))
        self._forget_stale(now)
        return bool(changed)

    def header(self, request: OutgoingRequest) -> str:
        """The cookies for a request, as the Cookie header has them."""
        asked: Any = UrllibRequest(str(request.url))
        self._jar.add_cookie_header(asked)  # drops those that have expired
        header = str(asked.get_header("Cookie", ""))
        if len(header) <= _MAX_SENT_CHARACTERS:
            return header
        policy = self._policy
        chosen = [
            cookie
            for cookie in self._jar
            if policy.domain_return_ok(cookie.domain, asked)
            and policy.path_return_ok(cookie.path, asked)
            and policy.return_ok(cookie, asked)
        ]
        fitting = sorted(_fit_header(chosen), key=lambda cookie: len(cookie.path), reverse=True)
        return "; ".join(
            [cookie.name if cookie.value is None else f"{cookie.name}={cookie.value}" for cookie in fitting]
        )

    def list_fitting(self) -> list[Cookie]:
        """Those that have not expired, as many as fit the header of any host of the site, the oldest first."""
        fitting: list[Cookie] = []
        shared, own = 0, Counter[str]()
        for cookie in self._jar:
            size = _size_of(cookie)
            others = max(own.values(), default=0) if cookie.domain_specified else own[cookie.domain]
            if cookie.is_expired() or shared + others + size > _MAX_SENT_CHARACTERS:
                continue
            fitting.append(cookie)
            if cookie.domain_specified:
                shared += size
            else:
                own[cookie.domain] += size
        return fitting

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
        """Take over the export of another node; of each cookie the newer one stays."""
        held = {_key_of(cookie) for cookie in self._jar}
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
            if "cookie" not in entry:
                if key in held:
                    self._jar.clear(*key)
            else:
                self._jar.set_cookie(cookie)
        self._evict()
        self._forget_stale(time.time())

    def _has_changed(self, key: CookieKey, before: _Value | None, after: _Value | None, now: float) -> bool:
        if before is None or after is None or before[0] != after[0]:
            return before != after
        if before[1] == after[1] or after[1] is None or before[1] is None:
            return before != after
        return now - self._changed_at.get(key, 0.0) > (after[1] - now) / _REFRESH_SHARE

    def _evict(self) -> None:
        for _ in range(len(self._jar) - _MAX_SITE_COOKIES):
            oldest = next(iter(self._jar))
            self._jar.clear(oldest.domain, oldest.path, oldest.name)

    def _values(self) -> dict[CookieKey, _Value]:
        return {_key_of(c): (c.value, c.expires) for c in self._jar}

    def _forget_stale(self, now: float) -> None:
        """Drop the records of cookies that were deleted long ago."""
        held = {_key_of(cookie) for cookie in self._jar}
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
        left -= _size_of(cookie)
        if left < 0:
            return cookies[:number]
    return cookies


def _size_of(cookie: Cookie) -> int:
    return len(cookie.name) + len(cookie.value or "") + len("=; ")


def _key_of(cookie: Cookie) -> CookieKey:
    return cookie.domain, cookie.path, cookie.name


class SessionCookies:
    """The cookies of each site. One jar per site, because a jar searches all its domains for each request.

    A site is a registrable domain: the public suffix and one more label. Cookies never leave it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sites: dict[str, SiteCookies] = {}
        self._shared: set[str] = set()
        """Sites whose cookies go to other nodes: a session must not end because other sites set cookies."""

    def extract_cookies(self, request: OutgoingRequest, set_cookies: Sequence[str]) -> str:
        """Store the cookies of a response; returns the site whose cookies changed, or an empty text."""
        site = site_of(urls.host_of(request.target))
        with self._lock:
            cookies = self._sites.pop(site, None)
            if cookies is None:
                cookies = SiteCookies(_is_public_suffix)
            changed = cookies.take(request, set_cookies)
            if len(cookies) or changed:
                self._sites[site] = cookies  # at the end: the site that set cookies last is dropped last
            if len(self._sites) > _MAX_SITES + len(self._shared):
                del self._sites[next(site for site in self._sites if site not in self._shared)]
        return site if changed else ""

    def set_cookie_header(self, request: OutgoingRequest) -> None:
        """Add the site's cookies to the Cookie header. A cookie from the defs overrides one of the same name."""
        if not self._sites:
            return
        with self._lock:
            cookies = self._sites.get(site_of(urls.host_of(request.target)))
            stored = cookies.header(request) if cookies is not None else ""
        if not stored:
            return
        from_defs = request.headers.get("Cookie")
        if from_defs:
            overridden = {pair.partition("=")[0] for pair in from_defs.split("; ")}
            stored = "; ".join(pair for pair in stored.split("; ") if pair.partition("=")[0] not in overridden)
            stored = f"{stored}; {from_defs}" if stored else from_defs
        request.headers["Cookie"] = stored

    def list_fitting(self, host: str) -> list[Cookie]:
        """The cookies of all hosts of a host's site, as many as fit a header."""
        with self._lock:
            cookies = self._sites.get(site_of(host))
            return [] if cookies is None else cookies.list_fitting()

    def export(self, site: str) -> list[dict[str, Any]]:
        """The cookies of a site as JSON values, each with the time of its last change."""
        with self._lock:
            self._shared.add(site)
            cookies = self._sites.get(site)
            return [] if cookies is None else cookies.export()

    def merge(self, site: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Take over exported cookies of a site; of each cookie the newer one stays."""
        with self._lock:
            self._shared.add(site)
            cookies = self._sites.get(site)
            if cookies is None:
                cookies = self._sites[site] = SiteCookies(_is_public_suffix)
            cookies.merge(entries)


@lru_cache(maxsize=10_000)
def site_of(host: str) -> str:
    """The registrable domain of a host; the host itself for an address or a public suffix."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host
    return _public_suffixes().privatesuffix(host) or host


def _is_public_suffix(domain: str) -> bool:
    return _public_suffixes().is_public(domain)


@cache
def _public_suffixes() -> "PublicSuffixList":
    """The list that the package bundles."""
    from publicsuffixlist import PublicSuffixList  # only crawls with cookies need it

    return PublicSuffixList()
