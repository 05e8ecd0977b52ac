"""The proxy of browsers: heads that are too long, bytes and connections of a page that are too many."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from crawl_engine.browser.far_ends import HEAD_BYTES, HostAccess
from crawl_engine.browser.proxy import ForwardProxy, ProxyPass
from crawl_engine.http.transports.guard import Resolvers

pytestmark = pytest.mark.asyncio
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client:
    """A page at the proxy, and a server of its own."""

    def __init__(self, page: ProxyPass, proxy: str, port: int) -> None:
        self.page, self.port = page, port
        self._host, _, self._port = proxy.removeprefix("http://").rpartition(":")
        self._key = base64.b64encode(f"{page.key}:-".encode()).decode()

    async def open(self, first: str, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        lines = [first, f"Proxy-Authorization: Basic {self._key}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        return reader, writer

    async def get(self, *headers: str) -> bytes:
        reader, writer = await self.open(f"GET http://127.0.0.1:{self.port}/ HTTP/1.1", *headers)
        answer = await reader.read()
        writer.close()
        return answer

    async def tunnel(self) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """The status line of the proxy, and the tunnel."""
        reader, writer = await self.open(f"CONNECT 127.0.0.1:{self.port} HTTP/1.1")
        return (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0], reader, writer


@asynccontextmanager
async def serve(answer: Handler, limit: int = 1_000_000) -> AsyncIterator[Client]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = ForwardProxy(Resolvers())
    page = ProxyPass(limit, lambda _: HostAccess(is_exempt=True))
    try:
        yield Client(page, await proxy.open(page), server.sockets[0].getsockname()[1])
    finally:
        await proxy.aclose()
        server.close()


async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


async def test_a_request_with_a_head_that_is_too_long_is_answered() -> None:
    async with serve(answer_ok) as client:
        assert (await client.get("Cookie: " + "v" * 1000)).endswith(b"\r\n\r\nok")
        answer = await client.get("Cookie: " + "v" * 5 * HEAD_BYTES)
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_an_answer_with_a_head_that_is_too_long_says_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 2 * HEAD_BYTES + b"\r\n\r\nok")
        writer.close()

    async with serve(answer) as client:
        assert await client.get() == b""
        [failure] = client.page.failures.values()
        assert failure.reason == "invalid HTTP response: more than 131,072 bytes of headers"
