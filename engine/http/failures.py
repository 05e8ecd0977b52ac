"""Turns errors of connections into failed fetches, for all transports: one line each, without the URL."""

import errno
import socket

from yarl import URL

from engine.http.address_guard import guarded_category, literal_address
from engine.http.errors import AddressRefused, FetchFailed

_DNS_NOT_FOUND = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def refuse_guarded_literal(url: URL) -> None:
    """Raise AddressRefused if the host is a guarded address: no resolver sees an address."""
    address = literal_address(url.host_subcomponent or "")
    category = None if address is None else guarded_category(address)
    if address is not None and category is not None:
        raise to_refusal(url, address, category)


def to_refusal(url: URL, address: str, category: str) -> AddressRefused:
    """The refusal of a URL because of an address of its host."""
    return AddressRefused(url.host_subcomponent or "", url.port or 0, address, category)


def unresolved_host(host: str, error: OSError) -> FetchFailed:
    """The failure where a host has no address; a further attempt helps unless the resolver says there is none."""
    not_found = isinstance(error, socket.gaierror) and error.errno in _DNS_NOT_FOUND
    return FetchFailed(f"cannot resolve host {host}", kind="dns", retryable=not not_found)


def invalid_certificate(error: Exception) -> FetchFailed:
    """The failure where a certificate is not accepted."""
    detail = getattr(error, "verify_message", "") or str(error)
    return FetchFailed(f"TLS: invalid certificate: {detail}", kind="tls", retryable=False)


def tls_failure(error: BaseException | None) -> FetchFailed:
    """The failure of a handshake."""
    detail = getattr(error, "reason", None) or "handshake failed"
    return FetchFailed(f"TLS: {str(detail).replace('_', ' ').lower()}", kind="tls", retryable=False)


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
