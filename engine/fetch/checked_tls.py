"""TLS that may cost only so much: OpenSSL reads messages without content within one call, for as long as they come.

HelloRequest, KeyUpdate, session tickets and renegotiation cost a server a few bytes each, and the event loop up to
20 µs: at 3 MB/s such a server would stop all other requests of its node.
"""

import ssl
import time
from typing import Any

_SECONDS = 0.1
"""CPU time for one request: its handshake takes 1 to 10 ms, its response 0.1 ms."""
_SECONDS_PER_BYTE = 5e-8
"""Further CPU time for each byte of content; usual records take less than 0.001 µs a byte."""


class TlsFlood(ssl.SSLError):
    """A server sends many TLS messages without content."""

    reason = "too many messages without content"

    def __init__(self) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, self.reason)


class CheckedTls(ssl.SSLObject):
    """Raises TlsFlood when reading, or the handshake, takes too much CPU time."""

    _spent = 0.0
    _allowed = _SECONDS

    def do_handshake(self) -> None:
        """As of ssl.SSLObject."""
        started_at = time.thread_time()
        try:
            super().do_handshake()
        finally:
            self._count(started_at)

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        """As of ssl.SSLObject."""
        started_at = time.thread_time()
        read: Any = b""
        try:
            read = super().read(size, buffer)
            return read
        finally:
            self._allowed += (read if isinstance(read, int) else len(read)) * _SECONDS_PER_BYTE
            self._count(started_at)

    def write(self, data: Any) -> int:
        """As of ssl.SSLObject. Begins the next request, whose response may cost as much again."""
        self._spent, self._allowed = 0.0, _SECONDS
        return super().write(data)

    def _count(self, started_at: float) -> None:
        self._spent += time.thread_time() - started_at
        if self._spent > self._allowed:
            raise TlsFlood
