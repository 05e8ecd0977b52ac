"""A client that reads nothing of its answer is cut off, and little is kept for it until then."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from crawl_console.web import server
from crawl_console.web.access import Access
from crawl_console.web.watch import Crawls

_PIECE = b"x" * 1_000
_MOST = 100_000
"""Bytes that small buffers of the kernel and of the server hold at most; by itself the kernel takes megabytes."""


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_stream_that_is_not_read_is_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: socket.AddressFamily
) -> None:
    monkeypatch.setattr(server, "_READ_SECONDS", 0.2)
    sent = 0
    left = asyncio.Event()

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.create_task(_await_end(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": _PIECE, "more_body": True})
            sent += len(_PIECE)
            await asyncio.sleep(0)
        left.set()

    async def serve() -> None:
        config = uvicorn.Config(stream, http=server._ClientProtocol, ws="none", lifespan="off", log_config=None)
        own = server._Server(config, Crawls({}), Access(lambda: "token", 1, set()), "http://x.test", None)
        listener = socket.socket(family)
        listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "web"))
        listener.listen()
        serving = asyncio.create_task(own.serve([listener]))
        with socket.socket(family) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(listener.getsockname())
            client.sendall(b"GET / HTTP/1.1\r\nHost: x.test\r\n\r\n")
            try:
                async with asyncio.timeout(60):
                    await left.wait()
            finally:
                own.should_exit = True
                await serving

    asyncio.run(serve())
    assert 0 < sent < _MOST


async def _await_end(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
