"""The wire of plain hosts: HTTP/1.1 by httptools, over connections that are kept for their origin."""

import asyncio
import re
import select
import ssl
from collections.abc import Callable, Mapping
from functools import partial

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from crawl_engine import urls
from crawl_engine.http.address_guard import GuardedAddress, connect, connect_failure, end_in_order
from crawl_engine.http.errors import FailureKind, FetchFailed, StaleConnection, describe_os_error, handshake_ended
from crawl_engine.http.exchange import OutgoingRequest, WireBody, WireResponse
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.http.transports.loose_head import read_loosely
from crawl_engine.http.transports.tls import TlsContexts

_MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header; policies and cookies of real sites are long."""
_MAX_HEADERS = 512
_MAX_OVERHEAD = 512 * 1024
"""Bytes of a head, of the extension of a chunk, or of trailers."""
_MAX_INTERIM_RESPONSES = 100
_BUFFER_BYTES = 64 * 1024
"""Unread bytes of a body, as sent; twice as many pause its connection."""
_SWITCHING_PROTOCOLS = 101
_NO_CONTENT = 204
_WITHOUT_BODY = frozenset({_SWITCHING_PROTOCOLS, _NO_CONTENT, 304})
_WITHOUT_LENGTH = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose requests say nothing of a body that they lack."""
_LINE_END = re.compile(r"[\r\n\0]")
_Origin = tuple[str, bool]
"""What a connection is for, and whether that is exempt: one to a guarded address never serves another host."""


class PlainWire(httpx.AsyncBaseTransport):
    """Up to `connections` are in use. Sends each request once: retries are scheduled and counted by the lease."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        idle: IdleConnections,
        resolvers: Resolvers,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`headers`: of every request."""
        self._headers = {name.lower(): f"{name}: {value}\r\n" for name, value in headers.items()}
        self._resolvers = resolvers
        self._tls = tls
        self._tls_contexts = TlsContexts()
        self._slots = asyncio.Semaphore(connections)
        self._idle = idle

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises `FetchFailed`, `GuardedAddress`, `NoFileLeft`; cancelling it closes its connection."""
        assert isinstance(request, OutgoingRequest)
        origin = urls.origin(request.target), request.terms.exempt
        head = self._write_head(request, origin[0])
        await self._slots.acquire()
        connection = None if request.is_repeated else self._idle.take(origin)
        may_repeat = connection is not None and request.is_idempotent
        try:
            if connection is None:
                connection = await self._open(*origin)
            release = partial(self._take_back, origin, connection)
            body = PlainBody(connection, release, is_head=request.method == "HEAD", may_repeat=may_repeat)
            connection.transport.write(head + request.body)
            await body.read_head()
        except BaseException:
            self._slots.release()
            if connection is not None:
                connection.close()
            raise
        return WireResponse(body.status, tuple(body.headers), body, request)

    def _write_head(self, request: OutgoingRequest, origin: str) -> bytes:
        """The request up to its body. Raises FetchFailed."""
        own: dict[str, str] = {}
        is_valid = request.method.isascii() and request.method.replace("-", "").isalnum()
        for name, value in request.headers.items():
            own[name.lower()] = own.get(name.lower(), "") + f"{name}: {value}\r\n"
            is_valid &= _LINE_END.search(name + value) is None
        if not is_valid:  # middleware may set any
            raise FetchFailed("invalid HTTP request", kind="url", retryable=False)
        lines = "".join((self._headers | own).values())
        if request.body or request.method not in _WITHOUT_LENGTH:
            lines += f"Content-Length: {len(request.body)}\r\n"
        host, path = origin.partition("://")[2], request.target[len(origin) :] or "/"
        return f"{request.method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode()

    def _take_back(self, origin: _Origin, connection: "PlainConnection") -> None:
        self._slots.release()
        if connection.is_usable and not connection.transport.get_write_buffer_size():
            self._idle.keep(origin, connection)
        else:
            connection.close()

    async def _open(self, origin: str, exempt: bool) -> "PlainConnection":
        """A new connection. Raises FetchFailed, GuardedAddress, NoFileLeft."""
        host, _, port = urls.host_key(origin).rpartition(":")
        tls = None if origin.startswith("http:") else self._tls or self._tls_contexts.find(None, http2=False)
        connected = None
        try:
            connected = await connect(self._resolvers.find(exempt=exempt), host, int(port), exempt=exempt)
            _, connection = await asyncio.get_running_loop().create_connection(
                PlainConnection, sock=connected, ssl=tls, server_hostname=host.strip("[]") if tls else None
            )
        except GuardedAddress:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # uvloop raises RuntimeError, too
            if connected is not None and isinstance(error, ConnectionError | ssl.SSLEOFError):
                raise handshake_ended() from error
            raise connect_failure(error, host) from error
        return connection


class PlainConnection(asyncio.Protocol):
    """Serves one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.body: PlainBody | None = None  # of the response that it receives
        self.is_usable = True  # by another request
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is not a subclass
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        self._poll = poll.poll

    def can_serve(self) -> bool:
        """As in `KeptConnection`: what has arrived, the loop has not always read yet."""
        return self.is_usable and not self._poll(0)

    def data_received(self, data: bytes) -> None:
        if self.body is None:
            self.close()  # it would be taken for the next response
        else:
            self.body.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self.body is not None:
            self.body.cut(exc)

    def close(self) -> None:
        """Close at once: nothing that was written or may still come is of use."""
        self.is_usable, self.body = False, None
        self._end_in_order()
        self.transport.abort()

    def eof_received(self) -> None:
        """The server ends the connection in order; by TLS it says so."""
        self.is_usable = False
        if self.body is not None:
            self.body.end()
        self._end_in_order()  # the transport closes after it

    def _end_in_order(self) -> None:
        if not self.transport.is_closing():  # else its number may be another's
            end_in_order(self.transport.get_extra_info("socket"))


class PlainBody(WireBody):
    """The response to one request, which it parses, head and body."""

    def __init__(
        self, connection: PlainConnection, release: Callable[[], None], *, is_head: bool, may_repeat: bool
    ) -> None:
        """`release` is called once, at the end of the body or when the rest of it is discarded.

        `may_repeat`: the connection has served another request, and this one may be sent twice.
        """
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._connection = connection
        self._release: Callable[[], None] | None = release
        self._is_head = is_head
        self._may_repeat = may_repeat
        self._start = b""
        """Of the response, up to the end of its head."""
        self._problem = ""
        """Why the parser refuses the head."""
        self._awaits_head = False
        """Whether the rest of such a head is to come."""
        self._trailers: list[tuple[bytes, bytes]] = []
        self._interim_count = self._overhead = self._unread = 0
        self._pieces: list[bytes] = []
        self._has_head = self._lasts_until_end = self._is_complete = False
        self._failure: FetchFailed | None = None
        self._news = asyncio.Event()
        self._parser = self._open_parser()
        connection.body = self

    async def read_head(self) -> None:
        """Wait for the status and the headers. Raises FetchFailed."""
        while not self._has_head:
            self._news.clear()
            await self._news.wait()
        if self._failure is not None:
            raise self._failure
        if self._is_complete and not self._pieces:
            self.close()

    async def read_piece(self, size: int) -> bytes:
        while not self._pieces and not self._is_complete:
            self._news.clear()
            await self._news.wait()
        if self._failure is not None:
            raise self._failure
        transport = self._connection.transport
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = [data[size:]] if len(data) > size else []
        self._unread = max(0, len(data) - size)
        self.received += min(size, len(data))
        if self._is_complete and not self._pieces:
            self.close()
        elif self._unread < _BUFFER_BYTES and not (transport.is_reading() or transport.is_closing()):
            transport.resume_reading()
        return data[:size]

    @property
    def at_end(self) -> bool:
        return self._release is None

    def close(self) -> None:
        if self._release is not None:
            if self._pieces or not self._is_complete:
                self._connection.close()
            release, self._release = self._release, None
            release()

    def feed(self, data: bytes) -> None:
        """Parse what was received."""
        self._overhead += len(data)
        self._unread += len(data)
        if not self._has_head:
            self._start += data
        try:
            if self._awaits_head:
                self._read_loosely(len(data))
            else:
                self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._judge(error)
        if self._is_complete:
            del self._parser  # it refers to this object
        elif self._overhead > _MAX_OVERHEAD:
            self._fail(f"invalid HTTP response: more than {_MAX_OVERHEAD} bytes of headers", "protocol")
        elif self._unread >= 2 * _BUFFER_BYTES and self._pieces:
            self._connection.transport.pause_reading()
        self._news.set()

    def end(self) -> None:
        """Note that the server has ended the connection, and so a body without a length."""
        if self._has_head and self._lasts_until_end:
            self._is_complete = True
            self._connection.body = None
            self._news.set()

    def cut(self, error: Exception | None) -> None:
        """Note that the connection is gone before the end of the response."""
        if not self._has_head:
            number = getattr(error, "errno", None)
            self._fail(describe_os_error(number) if number else "connection closed before a response", "connection")
        else:
            self._fail("connection lost while reading the body", "connection")
        self._news.set()

    def _open_parser(self) -> HttpResponseParser:
        parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    def _judge(self, error: Exception) -> None:
        """What the parser does not read is behind the response, a head to be read loosely, or wrong."""
        if self.status == _SWITCHING_PROTOCOLS:
            return
        if self._is_complete:
            self._note_surplus()
            return
        problem = f"invalid HTTP response: {error.__context__ or error}"
        if self._has_head or self._problem or error.__context__ is not None:  # what exceeds a limit stays
            self._fail(problem, "protocol")
            return
        self._problem, self._awaits_head = problem, True
        try:
            self._read_loosely(len(self._start))
        except (HttpParserError, HttpParserUpgrade) as second:
            self._judge(second)

    def _read_loosely(self, new: int) -> None:
        """Parse a head that the parser refuses in a form that it takes, once the head is complete."""
        head = read_loosely(self._start, new)
        if head == self._start:
            self._fail(self._problem, "protocol")
        elif head is not None:
            self._connection.is_usable = self._awaits_head = False
            self.headers = []
            self._parser = self._open_parser()
            self._parser.feed_data(head)

    def on_message_begin(self) -> None:
        if self._is_complete:  # a response is behind the response
            self._note_surplus()

    def on_header(self, name: bytes, value: bytes) -> None:
        fields = self._trailers if self._has_head else self.headers
        if len(fields) == _MAX_HEADERS:
            raise ValueError("Too many headers received")
        if len(name) + len(value) > _MAX_HEADER_BYTES:
            raise ValueError(f"Got more than {_MAX_HEADER_BYTES} bytes when reading")
        if b"\0" in value:
            raise ValueError("Invalid HTTP header")
        fields.append((name.rstrip(b" "), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        self._overhead = 0
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200 and self.status != _SWITCHING_PROTOCOLS:
            self._interim_count += 1
            if self._interim_count > _MAX_INTERIM_RESPONSES:
                raise ValueError(f"more than {_MAX_INTERIM_RESPONSES} interim responses")
            self.headers = []
            return
        self._has_head = self._lasts_until_end = True
        self._start = b""
        if self._is_head or self.status in _WITHOUT_BODY:
            self.on_message_complete()
            if self.status == _NO_CONTENT and any(name.lower() == b"content-length" for name, _ in self.headers):
                self._connection.is_usable = False  # the content may follow
            return
        for name, value in self.headers:
            match name.lower():
                case b"content-length":
                    self.declared, self._lasts_until_end = int(value), False
                case b"transfer-encoding":
                    self._lasts_until_end = not value.lower().endswith(b"chunked")

    def on_body(self, data: bytes) -> None:
        if self._has_head and not self._is_complete:
            self._overhead = 0
            self._pieces.append(data)
        elif self._is_complete:
            self._note_surplus()
        else:
            self._connection.is_usable = False  # it is of an interim response

    def on_message_complete(self) -> None:
        if self._has_head and not self._is_complete:
            self._is_complete = True
            self._connection.body = None
            self._connection.is_usable &= self._parser.should_keep_alive() and self.status != _SWITCHING_PROTOCOLS

    def _note_surplus(self) -> None:
        """Note that more has come than the response: it ends where its head says."""
        self.has_surplus, self._connection.is_usable = True, False
        if self._may_repeat:
            self._fail("more than one response to a request", "protocol")  # it may be that of another request

    def _fail(self, reason: str, kind: FailureKind) -> None:
        is_stale = self._may_repeat and not self.received and (kind == "protocol" or not self._has_head)
        failure = StaleConnection if is_stale else FetchFailed
        self._failure = failure(reason, kind=kind, retryable=kind == "connection")
        self._has_head = self._is_complete = True
        self._connection.close()
