"""A real SOCKS5 proxy on loopback, with or without a password; it can fail on purpose."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

from .proxy import ForwardProxy, copy_bytes


class SocksProxy(ForwardProxy):
    """`reply`: what it answers to each request instead of connecting. `asked` has `name:port` of each."""

    def __init__(self, credentials: str = "") -> None:
        super().__init__(credentials)
        self.reply = 0
        self.answer = b""
        """Its first answer, in place of a valid one."""
        self.pause = 0.0
        """Seconds between two bytes of its answers."""

    @property
    def url(self) -> str:
        return f"socks5://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if await self._greet(reader, writer):
                await self._connect(reader, writer)
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if self.silent:
            await asyncio.sleep(60)
        if self.answer:
            await self._send(writer, self.answer)
            return False
        method = 2 if self.credentials else 0
        if method not in methods:
            await self._send(writer, b"\x05\xff")
            return False
        await self._send(writer, bytes((5, method)))
        if not method:
            return True
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        (length,) = await reader.readexactly(1)
        given = f"{user.decode()}:{(await reader.readexactly(length)).decode()}"
        await self._send(writer, bytes((1, given != self.credentials)))
        return given == self.credentials

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            (length,) = await reader.readexactly(1)
            host = (await reader.readexactly(length)).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await reader.readexactly(size))
        port = int.from_bytes(await reader.readexactly(2))
        self.asked.append(f"{host}:{port}")
        bound = b"\x03\x05proxy\x00\x50" if self.reply == 0 and self.pause else b"\x01\0\0\0\0\0\x50"
        if self.reply:
            await self._send(writer, bytes((5, self.reply, 0)) + bound)
            return
        far_reader, far_writer = await asyncio.open_connection(self.names.get(host, host), port)
        await self._send(writer, bytes((5, 0, 0)) + bound)
        await asyncio.gather(copy_bytes(reader, far_writer), copy_bytes(far_reader, writer))

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for byte in data if self.pause else ():
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(self.pause)
        if not self.pause:
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def serve_socks(credentials: str = "") -> Iterator[SocksProxy]:
    proxy = SocksProxy(credentials)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
