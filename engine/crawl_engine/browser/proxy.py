"""The proxy through which browsers reach the network: counts bytes, opens what the defs allow."""

import asyncio
import base64
import contextlib
import hmac
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct, field

from crawl_engine.browser.far_ends import HEAD_BYTES, FarEnd, FarEnds, HostAccess
from crawl_engine.http.errors import AddressRefused, FetchFailed, NoFileLeft
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.proxies import PROXY_REFUSES, Proxy, ProxyFailed

_PIECE_BYTES = 64 * 1024
_HEAD_SECONDS = 30.0
_MAX_INTERIM = 20
_WANTED = b'Proxy-Authenticate: Basic realm="crawl"\r\n'
_REFUSED = str(PROXY_REFUSES).encode()
_END = b"\r\n\r\n"
_LONGEST_HEAD = 4_000_000
"""Bytes of a head that are read so that its sender can be told that it is too long."""
_HOP_HEADERS = frozenset({b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive"})


class ProxyPass(Struct, eq=False):
    """What one page may do: its key, how it reaches hosts, and its bytes."""

    limit: int
    """Bytes that may come for it."""
    find_access: Callable[[str], HostAccess]
    """What the defs say of a host (`name:port`)."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    received: int = 0
    refused: list[str] = field(default_factory=list)
    """The hosts that the address guard refused."""
    failures: dict[str, FetchFailed] = field(default_factory=dict)
    """By host, why the last connection to it did not open."""
    streams: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def is_used_up(self) -> bool:
        return self.received > self.limit

    def close(self) -> None:
        """Cut its connections."""
        for stream in self.streams:
            stream.transport.abort()


class _Request(Struct):
    """The head of a request to the proxy."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]

    @property
    def content_length(self) -> int:
        """Bytes of its body. Raises ValueError for one without a length."""
        if any(name.lower() == b"transfer-encoding" for name, _ in self.headers):
            raise ValueError("a body without a length")
        return next((int(value) for name, value in self.headers if name.lower() == b"content-length"), 0)

    @property
    def key(self) -> str:
        """The user of its Proxy-Authorization."""
        for name, value in self.headers:
            if name.lower() == b"proxy-authorization":
                with contextlib.suppress(ValueError):
                    user, _, _ = base64.b64decode(value.strip().rpartition(b" ")[2]).partition(b":")
                    return user.decode("ascii", "replace")
        return ""


class ForwardProxy:
    """On loopback, for one event loop. A request needs the key of an open pass."""

    def __init__(self, resolvers: Resolvers) -> None:
        self._far_ends = FarEnds(resolvers)
        self._server: asyncio.Server | None = None
        self._passes: dict[str, ProxyPass] = {}

    async def open(self, page: ProxyPass) -> str:
        """Admit a page; returns the address of the proxy."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        self._passes[page.key] = page
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    def close(self, page: ProxyPass) -> None:
        """End all that a page still loads."""
        self._passes.pop(page.key, None)
        page.close()

    async def aclose(self) -> None:
        for page in list(self._passes.values()):
            self.close(page)
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                request = _parse(await _read_head(reader))
            page = self._find(request.key)
            if page is None:
                await _answer(writer, b"407 Proxy Authentication Required", _WANTED)
            else:
                await self._forward(page, request, reader, writer)
        except _HeadTooLong:
            with contextlib.suppress(OSError):
                await _answer(writer, b"431 Request Header Fields Too Large")
        except (OSError, EOFError, ValueError, TimeoutError):
            pass
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _find(self, key: str) -> ProxyPass | None:
        return next((page for own, page in self._passes.items() if hmac.compare_digest(own, key)), None)

    async def _forward(
        self, page: ProxyPass, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        is_tunnel = request.method == b"CONNECT"
        parts = urlsplit(b"//" + request.target if is_tunnel else request.target)
        host, port = (parts.hostname or b"").decode("ascii").lower(), parts.port or 80
        if not host or (not is_tunnel and parts.scheme != b"http"):
            await _answer(writer, b"400 Bad Request")
            return
        if page.is_used_up:
            return
        far = await self._open(page, f"[{host}]" if ":" in host else host, port, is_tunnel=is_tunnel)
        if far is None:
            if is_tunnel:  # of other requests, an answer would be that of the host
                await _answer(writer, b"502 Bad Gateway")
            return
        server_reader, server_writer = far.reader, far.writer
        if page.key not in self._passes:  # it was closed meanwhile
            server_writer.close()
            return
        page.streams.update((writer, server_writer))
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                sending = asyncio.create_task(_copy(reader, server_writer))
            else:
                server_writer.write(_request_head(request, parts.path or b"/", parts.query, far.forwarder))
                await _copy_body(reader, server_writer, request.content_length)
                try:
                    answer = await _read_answer(server_reader)
                except _HeadTooLong:
                    text = f"invalid HTTP response: more than {HEAD_BYTES:,} bytes of headers"
                    page.failures[f"{host}:{port}"] = FetchFailed(text, kind="protocol", retryable=False)
                    return
                if far.forwarder is not None and answer.split(b" ", 2)[1] == _REFUSED:
                    self._far_ends.note_refusal(far)
                    page.failures[f"{host}:{port}"] = _refused_by(far.forwarder)
                    return
                writer.write(answer)
                sending = asyncio.create_task(_await_end(reader))
            receiving = asyncio.create_task(self._receive(page, server_reader, writer))
            try:
                await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
                if is_tunnel and sending.done() and not receiving.done():
                    await receiving  # the browser may have ended its side alone
            finally:
                sending.cancel()
                receiving.cancel()
        finally:
            page.streams.difference_update((writer, server_writer))
            server_writer.close()

    async def _open(self, page: ProxyPass, host: str, port: int, *, is_tunnel: bool) -> FarEnd | None:
        key = f"{host}:{port}"
        try:
            return await self._far_ends.open(page.find_access(key), host, port, is_tunnel=is_tunnel)
        except FetchFailed as failure:
            page.failures[key] = failure
            if isinstance(failure, AddressRefused):
                page.refused.append(key)
        except NoFileLeft as error:
            page.failures[key] = FetchFailed(str(error), kind="connection", retryable=True)
        return None

    async def _receive(self, page: ProxyPass, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            page.received += len(piece)
            if page.is_used_up:
                page.close()
                return
            writer.write(piece)
            await writer.drain()


class _HeadTooLong(Exception):
    """A head has more than HEAD_BYTES."""


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """The head of a request or of an answer. Raises _HeadTooLong once it has come whole: its sender hears an answer."""
    try:
        return await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        seen, left = b"", _LONGEST_HEAD
        while _END not in seen and left > 0 and (piece := await reader.read(_PIECE_BYTES)):
            seen, left = seen[-len(_END) :] + piece, left - len(piece)
        raise _HeadTooLong from None


def _refused_by(proxy: Proxy) -> FetchFailed:
    return FetchFailed(f"proxy {proxy}: {ProxyFailed.by_status(PROXY_REFUSES)}", kind="proxy", retryable=True)


def _parse(head: bytes) -> _Request:
    """Raises ValueError."""
    first, *lines = head[:-4].split(b"\r\n")
    method, target, _ = first.split(b" ")
    pairs = [line.partition(b":") for line in lines]
    return _Request(method, target, [(name, value.strip()) for name, _, value in pairs])


def _request_head(request: _Request, path: bytes, query: bytes, forwarder: Proxy | None) -> bytes:
    """The head for the server, or for a proxy: one request a connection, so that each is judged."""
    target = path + (b"?" + query if query else b"") if forwarder is None else request.target
    lines = [name + b": " + value for name, value in request.headers if name.lower() not in _HOP_HEADERS]
    if forwarder is not None and forwarder.authorization:
        lines.append(b"Proxy-Authorization: " + forwarder.authorization.encode())
    return b"\r\n".join([request.method + b" " + target + b" HTTP/1.1", *lines, b"Connection: close", b"", b""])


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """The head of the final answer, which ends the connection: each request is judged anew."""
    interim = 0
    while (head := await _read_head(reader)).partition(b" ")[2].startswith(b"1"):
        if (interim := interim + 1) > _MAX_INTERIM:
            raise ValueError("no final answer")
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _HOP_HEADERS]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _copy_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    while length > 0 and (piece := await reader.read(min(length, _PIECE_BYTES))):
        length -= len(piece)
        writer.write(piece)
        await writer.drain()


async def _await_end(reader: asyncio.StreamReader) -> None:
    """Wait until the browser closes its connection; what it sends before is no request of ours."""
    with contextlib.suppress(OSError):
        while await reader.read(_PIECE_BYTES):
            pass


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: bytes, header: bytes = b"") -> None:
    writer.write(b"HTTP/1.1 " + status + b"\r\n" + header + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
