"""The failure of a fetch, and failures of connections in one line each. Imports no HTTP client."""

import errno
import socket
from typing import Literal

from crawl_engine.errors import CrawlError, one_line
from crawl_engine.urls import bare_host

FailureKind = Literal[
    "timeout",
    "connection",
    "dns",
    "tls",
    "too-large",
    "encoding",
    "protocol",
    "redirect",
    "url",
    "header",
    "variable",
    "address",
    "loader",
    "file",
    "proxy",
    "middleware",
]

FILES_NOT_ALLOWED = "`file:` URLs are read only with --allow-file"
"""Why a `file:` URL is refused."""
_DNS_NOT_FOUND = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class FetchFailed(CrawlError):
    """A request got no usable response. `retryable`: the same request may succeed later."""

    def __init__(self, reason: str, *, kind: FailureKind, retryable: bool, remedy: str = "") -> None:
        self.reason = one_line(reason)
        self.kind: FailureKind = kind
        self.retryable = retryable
        super().__init__(self.reason, remedy)


class StaleConnection(FetchFailed):
    """A kept connection served no further request: it was closed, or held what belongs to no request.

    The request may be sent twice. The chain sends it again on a new connection, once.
    """


class NoRoom(Exception):
    """This machine lacks something that a request needs: the job waits, which is no fault of its host.

    Without a text: a body got no room in the time that it may wait.
    """


class NoFileLeft(NoRoom):
    """The process or the system has no open file left for a connection: nothing was sent."""


class AddressRefused(FetchFailed):
    """The address guard refused a host before anything was sent to it. Never retryable."""

    def __init__(self, host: str, port: int, address: str, category: str) -> None:
        """`host`: as in a normalized URL. `address`: its spelled or resolved address. `category`: why it is guarded."""
        shown = f"[{host}]" if ":" in host and host[0] != "[" else host
        self.host_key = f"{bare_host(shown)}:{port}"
        owner = "" if address == shown.strip("[]") else f" of {shown}"
        super().__init__(
            f'address {address}{owner} is {category}; to allow it: hosts: {{"{self.host_key}": {{private: true}}}}',
            kind="address",
            retryable=False,
            remedy=f'If the host is yours, write `"{self.host_key}": {{private: true}}` below `hosts` in the defs.',
        )


class ProxiedNameRefused(AddressRefused):
    """A request through a proxy for an unnamed host, whose address the proxy hides from the guard."""

    def __init__(self, host: str, port: int) -> None:
        """`host`: as in a normalized URL."""
        self.host_key = f"{bare_host(host)}:{port}"
        FetchFailed.__init__(
            self,
            f"address of {self.host_key} is hidden by a proxy, and no locator names it; to allow it: "
            "private: true beside its proxy",
            kind="address",
            retryable=False,
            remedy="If you trust the host, write `private: true` beside its `proxy` below `hosts` in the defs.",
        )


_PLAIN_ANSWERS = ("wrong version number", "http request", "record layer failure", "packet length too long")
"""What OpenSSL says of an answer that is no TLS."""


def unresolved_host(host: str, error: OSError) -> FetchFailed:
    """The failure for a host without an address; a further attempt helps unless the resolver denies the host."""
    not_found = isinstance(error, socket.gaierror) and error.errno in _DNS_NOT_FOUND
    return FetchFailed(f"cannot resolve host {host}", kind="dns", retryable=not not_found)


def invalid_certificate(error: Exception) -> FetchFailed:
    """The failure where a certificate is not accepted."""
    detail = getattr(error, "verify_message", "") or str(error)
    return FetchFailed(f"TLS: invalid certificate: {detail}", kind="tls", retryable=False)


def tls_failure(error: BaseException | None) -> FetchFailed:
    """The failure of a handshake."""
    detail = str(getattr(error, "reason", None) or "handshake failed").replace("_", " ").lower()
    if detail in _PLAIN_ANSWERS:
        detail = "the server answers without TLS at this port; is its URL http://?"
    return FetchFailed(f"TLS: {detail}", kind="tls", retryable=False)


class HandshakeEnded(ConnectionResetError):
    """The server ended the connection before TLS stood."""


def handshake_ended() -> FetchFailed:
    """The failure where the server ends the connection before TLS stands, as one without TLS does."""
    return FetchFailed(
        "TLS: the server closed the connection; does it speak TLS at this port?", kind="connection", retryable=True
    )


def describe_os_error(number: int | None) -> str:
    """What an error number of a connection means."""
    match number:
        case errno.ECONNREFUSED:
            return "connection refused"
        case errno.ECONNRESET | errno.EPIPE:
            return "connection reset"
        case errno.ENETUNREACH | errno.EHOSTUNREACH:
            return "host unreachable"
        case errno.ETIMEDOUT:
            return "connection timed out"
    return "connection failed"
