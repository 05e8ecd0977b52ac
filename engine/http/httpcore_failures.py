"""Turns what httpcore, h11, h2 and OpenSSL raise into failed fetches, in one line each."""

import socket
import ssl
from collections.abc import Iterator

import h2.errors
import h2.events
import h2.exceptions
import httpcore

from engine.errors import one_line
from engine.http.errors import FetchFailed
from engine.http.failures import describe_os_error, invalid_certificate, tls_failure, unresolved_host
from engine.http.read_meter import FloodDetected

_NO_TLS_FAILURES = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLZeroReturnError, ssl.SSLEOFError)
"""They say that the connection needs more bytes, or has ended."""
_BODY_CUT = "peer closed connection"


def to_fetch_failed(error: Exception, *, host: str, in_body: bool = False) -> FetchFailed:
    """The failure. `in_body`: it came while the body was read. Never quotes the URL or what the server sent."""
    if isinstance(error, FetchFailed):
        return error
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, ssl.CertificateError):
            return invalid_certificate(cause)
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _NO_TLS_FAILURES):
            return tls_failure(cause)
        if isinstance(cause, FloodDetected):
            return FetchFailed(f"invalid HTTP response: {cause}", kind="protocol", retryable=False)
        if isinstance(cause, socket.gaierror):
            return unresolved_host(host, cause)
    ended = _describe_end(chain, in_body=in_body)
    if ended is not None:
        return FetchFailed(ended, kind="connection", retryable=True)
    return FetchFailed(f"invalid HTTP response: {_describe_protocol(chain)}", kind="protocol", retryable=False)


def _describe_end(chain: list[BaseException], *, in_body: bool) -> str | None:
    """How the connection ended, where a further attempt may have more luck; None: it is the response that is wrong."""
    lost = "connection lost while reading the body" if in_body else None
    for cause in chain:
        detail = cause.args[0] if cause.args else None
        if isinstance(cause, h2.exceptions.TooManyStreamsError):
            return "the server accepts no further stream"
        if isinstance(detail, h2.events.StreamReset):
            return f"the server reset the stream ({_error_name(detail.error_code)})"
        if isinstance(detail, h2.events.ConnectionTerminated):
            return f"the server closed the connection ({_error_name(detail.error_code)})"
        if isinstance(cause, httpcore.RemoteProtocolError):
            text = str(detail)
            if text.startswith(("Server disconnected", _BODY_CUT)):
                return lost or "connection closed before a response"
        if isinstance(cause, OSError) and cause.errno is not None:
            return lost or describe_os_error(cause.errno)
    if isinstance(chain[0], httpcore.NetworkError | httpcore.ConnectionNotAvailable | OSError):
        return lost or "connection failed"
    return None


def _describe_protocol(chain: list[BaseException]) -> str:
    for cause in chain:
        detail = cause.args[0] if cause.args else None
        if isinstance(cause, h2.exceptions.H2Error) or isinstance(detail, h2.exceptions.H2Error):
            return "a violation of HTTP/2"
        if isinstance(cause, httpcore.RemoteProtocolError):
            return one_line(str(detail).partition("(")[0].partition(":")[0])
    return "it cannot be read"


def _error_name(code: object) -> str:
    try:
        return h2.errors.ErrorCodes(code).name  # type: ignore[arg-type]
    except ValueError:
        return f"error {code}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, from the outermost inwards."""
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
