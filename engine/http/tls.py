"""TLS contexts of hosts, and TLS that reads no more messages without content than a response needs."""

import ssl
from typing import Any, Self

from engine.http.errors import FetchFailed
from engine.model.host import TlsRule

_HEADER_BYTES = 5
_MOST_BYTES = _HEADER_BYTES + 2**14 + 2048
"""Of a record (RFC 5246, 6.2.3)."""
_RECORD_TYPES = range(20, 25)
_HANDSHAKE_BYTES = 128 * 1024
"""A chain of certificates may take 100 KiB."""
_FREE_BYTES = 32 * 1024
"""Without content, for one request: session tickets."""
_RECORD_BYTES = 80
"""The most that a record has besides its content."""
_FREE_RECORDS = 10_000
_BYTES_PER_RECORD = 64
"""Further records that content pays for; usual ones hold up to 16 KiB."""
_DEFAULT = TlsRule()
_MAX_KEPT = 100
_ONLY_HTTP1, _ALSO_HTTP2 = ["http/1.1"], ["h2", "http/1.1"]
"""What a handshake offers."""


class TlsFlood(ssl.SSLError):
    """A server sends more TLS messages than any response needs. `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, reason)
        self.reason = reason


class CheckedTls(ssl.SSLObject):
    """Raises TlsFlood. Each request that is written resets the count.

    OpenSSL reads messages without content within one call, for as long as they come: a flood of KeyUpdates would stop
    all other requests of a node. So it gets one record at a time; the others stay in the buffer of the event loop.
    Overrides a private method that `ssl` calls on `SSLContext.sslobject_class`; tests send such floods.
    """

    _incoming: ssl.MemoryBIO
    _record: ssl.MemoryBIO
    _partial = b""
    """What was received of a record, as long as it is incomplete."""
    _given = _content = _records = 0
    """Bytes given to OpenSSL, bytes of content and records that it gave, since the last request."""
    _has_ended = False

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **options: Any) -> Self:
        record = ssl.MemoryBIO()
        made: Self = super()._create(record, outgoing, **options)  # type: ignore[misc]
        made._incoming, made._record = incoming, record
        return made

    def do_handshake(self) -> None:
        while True:
            try:
                super().do_handshake()
                self._start_request()
                return
            except ssl.SSLWantReadError:
                if self._given > _HANDSHAKE_BYTES:
                    raise TlsFlood("too long a handshake") from None
                if not self._give():
                    raise

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        if not self.pending():
            self._give()
        while True:
            try:
                read: Any = super().read(size, buffer)
            except ssl.SSLWantReadError:
                self._check()
                if not self._give():
                    raise
                continue
            self._records += 1
            self._content += read if buffer is not None else len(read)
            self._check()
            return read

    def write(self, data: Any) -> int:
        self._start_request()
        return super().write(data)

    def _start_request(self) -> None:
        self._given = self._content = self._records = 0

    def _give(self) -> bool:
        """Give OpenSSL the next record, or the end; False: neither has arrived."""
        self._take(_HEADER_BYTES)
        if len(self._partial) >= _HEADER_BYTES:
            size = _HEADER_BYTES + int.from_bytes(self._partial[3:_HEADER_BYTES])
            if size > _MOST_BYTES or self._partial[0] not in _RECORD_TYPES:
                size = len(self._partial)  # not TLS: OpenSSL says so
            self._take(size)
            if len(self._partial) == size:
                self._given += self._record.write(self._partial)
                self._partial = b""
                return True
        if not self._incoming.eof or self._has_ended:
            return False
        self._has_ended = True
        self._record.write(self._partial)
        self._record.write_eof()
        return True

    def _take(self, size: int) -> None:
        """Have up to so many bytes of the next record."""
        missing = size - len(self._partial)
        if missing > 0:
            self._partial += self._incoming.read(missing)

    def _check(self) -> None:
        without_content = self._given - self._content
        if without_content > _FREE_BYTES + _RECORD_BYTES * self._records:
            raise TlsFlood("too many messages without content")
        if self._records > _FREE_RECORDS + self._content // _BYTES_PER_RECORD:
            raise TlsFlood("too many small records")


class TlsContexts:
    """One context for each rule. Files are read when a rule is first used."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[TlsRule, bool], ssl.SSLContext] = {}

    def find(self, rule: TlsRule | None, *, http2: bool) -> ssl.SSLContext:
        """The context. Raises FetchFailed if a file of the rule cannot be used any more."""
        key = (rule or _DEFAULT, http2)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= _MAX_KEPT:
                self._contexts.clear()
            context = self._contexts[key] = _make(*key)
        return context


def _make(rule: TlsRule, http2: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=rule.ca)
        if rule.client is not None:
            context.load_cert_chain(rule.client, password=lambda: "")  # a password is not asked for on a terminal
    except (OSError, ValueError) as error:
        file = rule.client if rule.ca is None else rule.ca if rule.client is None else f"{rule.ca} or {rule.client}"
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise FetchFailed(
            f"TLS: cannot use {file}: {str(reason).replace('_', ' ').lower()}",
            kind="tls",
            retryable=False,
            remedy="Restore the file, run `crawl-console check`, and retry the failed jobs.",
        ) from error
    if not rule.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = CheckedTls
    context.set_alpn_protocols(_ALSO_HTTP2 if http2 else _ONLY_HTTP1)
    return context
