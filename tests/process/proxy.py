"""A real forward proxy on loopback: CONNECT and absolute URLs, with or without a password; it can fail on purpose."""

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class ForwardProxy:
    """`status`: what it answers instead of serving; `silent`: it never answers."""

    def __init__(self, credentials: str = "") -> None:
        self.credentials = credentials
        self.status: str | None = None
        self.silent = False
        self.asked: list[str] = []
        """`CONNECT host:port`, or `GET http://…`."""
        self.heads: list[str] = []
        self.connections = 0
        self.port = 0
        self.names: dict[str, str] = {}
        """Names that only the proxy resolves, for example `shop.test` to `127.0.0.1`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", port, limit=2**20, ssl=tls), self._loop
        ).result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        def end() -> None:
            self._server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.02, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
            head: bytes | None = await reader.readuntil(b"\r\n\r\n")
            while head is not None:
                head = await self._serve_one(head.decode("latin-1"), reader, writer)
        writer.close()

    async def _serve_one(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Serve one request; returns the head of the next one."""
        method, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
        self.asked.append(f"{method} {target}")
        self.heads.append(head)
        if self.silent:
            await asyncio.sleep(60)
        status = self.status
        if self.credentials:
            wanted = f"proxy-authorization: basic {base64.b64encode(self.credentials.encode()).decode()}".lower()
            if wanted not in head.lower():
                status = "407 Proxy Authentication Required"
        if status is not None:
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return await reader.readuntil(b"\r\n\r\n")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(self.names.get(host, host.strip("[]")), int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(copy_bytes(reader, far_writer), copy_bytes(far_reader, writer))
            return None
        url = urlsplit(target)
        host = url.hostname or ""
        far_reader, far_writer = await asyncio.open_connection(self.names.get(host, host), url.port or 80)
        lines = [line for line in head.split("\r\n")[1:] if line and not line.lower().startswith("proxy-")]
        path = target.split("/", 3)[3] if target.count("/") > 2 else ""
        far_writer.write((f"{method} /{path} HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
        far_writer.write(await reader.readexactly(length))
        # until the far end closes, or the client asks for more
        copying = asyncio.ensure_future(copy_bytes(far_reader, writer))
        next_head = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
        try:
            await asyncio.wait((copying, next_head), return_when=asyncio.FIRST_COMPLETED)
            return next_head.result() if next_head.done() else None
        finally:
            copying.cancel()
            next_head.cancel()
            far_writer.close()


async def copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


@contextlib.contextmanager
def serve_proxy(credentials: str = "", tls: ssl.SSLContext | None = None) -> Iterator[ForwardProxy]:
    proxy = ForwardProxy(credentials)
    proxy.open(tls=tls)
    try:
        yield proxy
    finally:
        proxy.close()
