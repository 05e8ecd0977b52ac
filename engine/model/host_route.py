"""How the requests for a host travel: authentication, proxies, TLS and HTTP/2, as the defs say."""

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
