"""A host as the defs describe it: route, login, headers; and the classes of its answers."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

AuthKind = Literal["basic", "bearer", "digest"]


class HostAuth(Struct, frozen=True):
    """The authentication for the pages of a host."""

    kind: AuthKind
    credential: str
    """`user:password`, or the token of `bearer`; may hold `%{env.NAME}`."""

    def __repr__(self) -> str:
        return f"HostAuth({self.kind})"


class TlsRule(Struct, frozen=True, kw_only=True):
    """Which certificates are accepted from a host, and which one is shown to it. Files are absolute paths."""

    verify: bool = True
    ca: str | None = None
    """The authorities that are trusted; None: those of the system."""
    client: str | None = None
    """The client's certificate and its private key."""


class HostRoute(Struct, frozen=True, kw_only=True):
    """What the requests for a host need besides a plain connection."""

    proxies: tuple[str, ...] = ()
    """URLs, one of which each request takes; they may hold `%{env.NAME}`."""
    tls: TlsRule | None = None
    http2: bool = False

    def __repr__(self) -> str:
        return f"HostRoute({len(self.proxies)} proxies, tls={self.tls}, http2={self.http2})"


CookieJarMode = Literal["shared", "perNode", "off"]
"""Whose are the cookies that a site sets: of all nodes, of the node that got them, of nobody."""


class LoginRule(Struct, frozen=True, kw_only=True):
    """How to log in to a host."""

    url: str
    """Absolute, or relative to the host."""
    form: Mapping[str, str]
    """The fields to fill in; values may hold variables with secrets."""
    selector: str | None = None
    """Selects the form; None: the one that has the fields."""
    check: str | None = None
    """What a page has while the login lasts; None: nothing tells."""
    on_lost: Literal["relogin", "pause"] = "relogin"
    """What follows when it no longer lasts."""


SAFE_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "dnt",
        "pragma",
        "save-data",
        "upgrade-insecure-requests",
        "user-agent",
    }
)
"""Headers that are safe to send to any origin and to store as written. Any other header may hold a secret."""

FIXED_HEADERS = frozenset({"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
                           "upgrade", "proxy-connection", "proxy-authorization"})  # fmt: skip
"""Headers that defs cannot set: they follow from the URL and the body, or belong to one connection."""


STATUS_CLASSES = ("2xx", "3xx", "4xx", "429", "5xx", "none")
"""`4xx` is without 429; `none`: a request without an answer."""


def _status_class(status: int) -> str:
    """The class of a status; 0: there was no answer."""
    if status == 429:
        return "429"
    return f"{status // 100}xx" if 200 <= status <= 599 else "none"


def count_by_class(answers: Mapping[int, int]) -> dict[str, int]:
    """The answers of each class that has some, in the order of `STATUS_CLASSES`; `answers`: by status."""
    counts = dict.fromkeys(STATUS_CLASSES, 0)
    for status, count in answers.items():
        counts[_status_class(status)] += count
    return {name: count for name, count in counts.items() if count}
