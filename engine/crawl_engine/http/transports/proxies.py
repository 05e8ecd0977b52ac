"""Reads the URLs of proxies, takes them in turn, and lets those that fail rest."""

import logging
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.request import expand, expand_url
from crawl_engine.model.retry_policy import retryable_status

_log = logging.getLogger(__name__)
_FIRST_REST, _LONGEST_REST = 1.0, 300.0
_MAX_DOUBLINGS = 16
PROXY_REFUSES = 407
_SOCKS_PORT = "1080"
_PROXY_FAILURES = frozenset({PROXY_REFUSES, 502, 503})
"""Statuses of a CONNECT by which the proxy itself says that it cannot serve."""


class Proxy(Struct, frozen=True):
    """A proxy. Its text shows no credentials."""

    scheme: str
    host: str
    port: int
    user_and_password: tuple[str, str] = ("", "")

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS5, and not HTTP."""
        return self.scheme in ("socks5", "socks5h")

    @property
    def authorization(self) -> str:
        """The value of Proxy-Authorization; empty without credentials."""
        pair = ":".join(self.user_and_password)
        return f"Basic {b64encode(pair.encode('utf-8', 'replace')).decode()}" if pair != ":" else ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self})"


class ProxyFailed(Exception):
    """A proxy did not serve: nothing was sent to the host. The text says why, without the name of the proxy."""

    @classmethod
    def by_status(cls, status: int) -> "ProxyFailed":
        """The failure of a proxy that answers with this status itself."""
        return cls(f"HTTP {status}, it refuses the credentials" if status == PROXY_REFUSES else f"HTTP {status}")


class _ProxyState(Struct):
    failures: int = 0
    rests_until: float = 0.0
    failed_at: float = 0.0
    reason: str = ""


class ProxyRotation:
    """Which proxy a request takes: each list in turn, without those that rest. In the memory of one node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._states: dict[Proxy, _ProxyState] = {}
        self._next: dict[tuple[Proxy, ...], int] = {}

    def candidates(self, proxies: tuple[Proxy, ...]) -> Iterator[tuple[Proxy, float]]:
        """The proxies to try for one request, one after another, each with the time at which it is chosen."""
        start = self._next.get(proxies, 0)
        self._next[proxies] = (start + 1) % len(proxies)
        for proxy in (*proxies[start:], *proxies[:start]):
            now = self._clock()
            if self._state(proxy).rests_until <= now:
                yield proxy, now

    def mark_served(self, proxy: Proxy) -> None:
        """Note that a proxy has served a request."""
        state = self._states.get(proxy)
        if state is not None and state.failures:
            _log.info("proxy %s serves again", proxy)
            state.failures, state.rests_until = 0, 0.0

    def mark_failed(self, proxy: Proxy, chosen_at: float, reason: str) -> None:
        """Let a proxy rest, twice as long as the last time. Requests that failed together count as one."""
        state, now = self._state(proxy), self._clock()
        state.reason = reason
        if state.failures and chosen_at <= state.failed_at:
            return
        rest = min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(state.failures, _MAX_DOUBLINGS))
        state.failures += 1
        state.failed_at, state.rests_until = now, now + rest
        _log.warning("proxy %s rests for %g s: %s", proxy, rest, reason)

    def failure(self, proxies: Sequence[Proxy]) -> FetchFailed:
        """The failure of a request for which all proxies rest."""
        first, count = proxies[0], len(proxies)
        text = f"proxy {first}: {self._state(first).reason}"
        if count > 1:
            text = f"all {count} proxies fail: {'; '.join(f'{one}: {self._state(one).reason}' for one in proxies)}"
        remedy = "Start the proxy or change `proxy` of the host, and retry the failed jobs."
        return FetchFailed(text, kind="proxy", retryable=True, remedy=remedy)

    def _state(self, proxy: Proxy) -> _ProxyState:
        return self._states.setdefault(proxy, _ProxyState())


def tunnel_failure(proxy: Proxy, authority: str, status: int) -> Exception:
    """The failure of a CONNECT to a host (`name:port`) by the status of its answer."""
    if status in _PROXY_FAILURES:
        return ProxyFailed.by_status(status)
    text = f"proxy {proxy} refuses a tunnel to {authority}: HTTP {status}"
    return FetchFailed(text, kind="proxy", retryable=retryable_status(status))


def read_proxy(text: str) -> Proxy:
    """The proxy of a URL of the defs, its variables expanded. Raises FetchFailed, which quotes nothing of it."""
    written, userinfo = urls.split_userinfo(text.strip())
    socks, url = urls.split_socks(expand(written).strip())  # a variable may be the whole URL
    normalized = None if re.search(r"[\x00-\x20\x7f]", url) else urls.normalize(url)
    if normalized is None or normalized.partition("://")[2].partition("/")[2]:
        is_other = re.match(r"(?!https?:)[a-z0-9+.-]+://", url, re.IGNORECASE) is not None
        problem = (
            "has a scheme other than http, https, socks5 and socks5h"
            if is_other
            else "is not a URL such as http://HOST:PORT"
        )
        raise FetchFailed(
            f"the proxy of the host {problem}",
            kind="proxy",
            retryable=False,
            remedy="Correct `proxy` in the defs, or the environment variable that it names, and retry the failed jobs.",
        )
    name, _, port = urls.host_key(normalized).rpartition(":")
    userinfo = expand_url(userinfo) or urls.userinfo_of(normalized)
    if socks and not re.search(r":[0-9]+/?$", url):
        port = _SOCKS_PORT
    user, _, password = userinfo.partition(":")
    return Proxy(socks or normalized.partition(":")[0], name, int(port), (unquote(user), unquote(password)))
