"""Hostile HTTP: drips, endless bodies, storms of headers, compression bombs, false lengths, resets, redirects."""

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable, Iterator

import brotli
import zstandard

from tests.hostile.answer import Connection, HostileAnswer, Send

_HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
_PAGE = b"<b>x</b>" + b"<p>text</p>" * 1_000
_SLOW = ("drip", "endless", "stall", "length-more", "chunk-no-end", "redirect")
_ENDLESS = 4_000_000_000


def answers() -> Iterator[HostileAnswer]:
    """All of this module."""
    for make in (_slow, _heads, _compressed, _lengths, _resets, _redirects, _statuses):
        for name, send in make().items():
            yield HostileAnswer(
                name=name,
                send=send,
                body=send.body if isinstance(send, _Encoded) else None,
                slow=name.startswith(("slow", "drip", "endless", "stall", "redirect")),
            )


def _raw(*parts: bytes) -> Send:
    async def send(connection: Connection) -> None:
        for part in parts:
            await connection.send(part)

    return send


def _forever(head: bytes, piece: bytes, pause: float = 0.0) -> Send:
    async def send(connection: Connection) -> None:
        await connection.send(head)
        sent = 0
        while sent < _ENDLESS:
            await connection.send(piece)
            sent += len(piece)
            await asyncio.sleep(pause)

    return send


def _then_stall(head: bytes) -> Send:
    async def send(connection: Connection) -> None:
        await connection.send(head)
        await asyncio.sleep(60)

    return send


def _slow() -> dict[str, Send]:
    length = b"Content-Length: 100000\r\n\r\n"
    return {
        "stall-unanswered": _then_stall(b""),
        "stall-in-head": _then_stall(b"HTTP/1.1 200 O"),
        "stall-in-body": _then_stall(_HTML + length + b"<b>x</b>"),
        "stall-in-chunk": _then_stall(_HTML + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n<b>"),
        "drip-head": _forever(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", 0.05),
        "drip-headers": _forever(b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n", 0.05),
        "drip-body": _forever(_HTML + length, b"x", 0.05),
        "drip-chunks": _forever(_HTML + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.05),
        "drip-gzip": _forever(_HTML + b"Content-Encoding: gzip\r\n" + length, b"\x1f", 0.05),
        "endless-body": _forever(_HTML + b"\r\n", b"<p>text</p>" * 9_000),
        "endless-chunks": _forever(_HTML + b"Transfer-Encoding: chunked\r\n\r\n", b"8\r\n<b>x</b>\r\n" * 4_000),
        "endless-headers": _forever(_HTML, b"X-Header: value\r\n" * 4_000),
        "endless-header": _forever(_HTML + b"X-Header: ", b"value" * 12_000),
        "endless-status": _forever(b"HTTP/1.1 200 ", b"OK" * 30_000),
        "endless-continue": _forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
        "endless-hints": _forever(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1_000),
        "endless-trailers": _forever(_HTML + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-T: t\r\n" * 4_000),
        "endless-extension": _forever(_HTML + b"Transfer-Encoding: chunked\r\n\r\n8;", b"x=y;" * 9_000),
    }


def _heads() -> dict[str, Send]:
    end = b"Content-Length: 8\r\n\r\n<b>x</b>"
    noise = random.Random(1).randbytes(100_000)
    return {
        "headers-10000": _raw(_HTML + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + end),
        "header-1-mb": _raw(_HTML + b"X-Big: " + b"y" * 1_000_000 + b"\r\n" + end),
        "header-blank": _raw(_HTML + b": no name\r\n" + end),
        "header-folded": _raw(_HTML + b"X-A: a\r\n b\r\n\tc\r\n" + end),
        "header-nul": _raw(_HTML + b"X-A: a\0b\x1b[31m\r\n" + end),
        "header-latin": _raw(_HTML + b"X-\xff: \xfe\r\n" + end),
        "cookie-giant": _raw(_HTML + b"Set-Cookie: a=" + b"x" * 60_000 + b"\r\n" + end),
        "cookies-many": _raw(_HTML + b"".join(b"Set-Cookie: c%d=x\r\n" % n for n in range(90)) + end),
        "cookie-odd": _raw(_HTML + b"Set-Cookie: =;;;=\0; Domain=.; Max-Age=-9e99\r\n" + end),
        "type-giant": _raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=" + b"x" * 8_000 + b"\r\n" + end),
        "garbage": _raw(noise),
        "garbage-ssh": _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
        "garbage-tls": _raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + noise[:500]),
        "garbage-http2": _raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise[:100]),
        "garbage-http09": _raw(_PAGE),
        "version-odd": _raw(b"HTTP/9.9 200 OK\r\n" + end),
    }


class _Encoded:
    """Sends a body under a `Content-Encoding`."""

    def __init__(self, encoding: str, body: Callable[[], bytes]) -> None:
        self.encoding = encoding
        self.body = body

    async def __call__(self, connection: Connection) -> None:
        await connection.respond(await connection.make(self.body), headers={"Content-Encoding": self.encoding})


def _compressed() -> dict[str, Send]:
    zeros = bytes(10_000_000)

    def gzip_bomb(megabytes: int = 500) -> bytes:
        packer = zlib.compressobj(9, wbits=31)
        return b"".join(packer.compress(zeros) for _ in range(megabytes // 10)) + packer.flush()

    def zstd_bomb() -> bytes:
        packer = zstandard.ZstdCompressor(level=3).compressobj()
        return b"".join(packer.compress(zeros) for _ in range(100)) + packer.flush()

    def brotli_bomb() -> bytes:
        packer = brotli.Compressor(quality=1)
        return b"".join(packer.process(zeros) for _ in range(50)) + bytes(packer.finish())

    tree = b"<p a=1 b=2>" * 800_000
    return {
        "bomb-gzip": _Encoded("gzip", gzip_bomb),
        "bomb-gzip-nested": _Encoded("gzip, gzip, gzip", lambda: gzip.compress(gzip.compress(gzip_bomb()))),
        "bomb-gzip-named-once": _Encoded("gzip", lambda: gzip.compress(gzip_bomb(100))),
        "bomb-gzip-members": _Encoded("gzip", lambda: gzip.compress(b"<b>x</b>") * 100_000),
        "bomb-zstd": _Encoded("zstd", zstd_bomb),
        "bomb-brotli": _Encoded("br", brotli_bomb),
        "bomb-tree": _Encoded("gzip", lambda: gzip.compress(tree)),
        "encoding-lies": _Encoded("gzip", lambda: _PAGE),
        "encoding-cut": _Encoded("gzip", lambda: gzip.compress(_PAGE)[:-20]),
        "encoding-garbage": _Encoded("br", lambda: random.Random(2).randbytes(90_000)),
        "encoding-unknown": _Encoded("x-lzma", lambda: _PAGE),
        "encoding-storm": _Encoded(", ".join(["gzip"] * 500), lambda: gzip.compress(_PAGE)),
        "encoding-deflate": _Encoded("deflate", lambda: zlib.compress(_PAGE)[:50]),
    }


def _lengths() -> dict[str, Send]:
    chunked = _HTML + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        "length-more": _raw(_HTML + b"Content-Length: 999999999\r\n\r\n" + _PAGE),
        "length-less": _raw(_HTML + b"Content-Length: 8\r\n\r\n" + _PAGE * 50),
        "length-two": _raw(_HTML + b"Content-Length: 8\r\nContent-Length: 80\r\n\r\n" + _PAGE),
        "length-negative": _raw(_HTML + b"Content-Length: -1\r\n\r\n" + _PAGE),
        "length-words": _raw(_HTML + b"Content-Length: many\r\n\r\n" + _PAGE),
        "length-huge": _raw(_HTML + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n" + _PAGE),
        "length-and-chunked": _raw(
            _HTML + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        ),
        "chunk-garbage": _raw(chunked + b"zz\r\n" + _PAGE),
        "chunk-negative": _raw(chunked + b"-8\r\n<b>x</b>\r\n0\r\n\r\n"),
        "chunk-huge": _raw(chunked + b"f" * 300 + b"\r\n" + _PAGE),
        "chunk-no-end": _raw(chunked + b"8\r\n<b>x</b>\r\n"),
        "chunks-tiny": _raw(chunked + b"1\r\nx\r\n" * 400_000 + b"0\r\n\r\n"),
    }


def _resets() -> dict[str, Send]:
    def after(data: bytes) -> Send:
        async def send(connection: Connection) -> None:
            if data:
                await connection.send(data)
                await asyncio.sleep(0.05)
            connection.reset()

        return send

    return {
        "reset-at-once": after(b""),
        "reset-in-head": after(b"HTTP/1.1 2"),
        "reset-after-head": after(_HTML + b"Content-Length: 100\r\n\r\n"),
        "reset-in-body": after(_HTML + b"Content-Length: 90000\r\n\r\n" + _PAGE),
        "reset-in-chunk": after(_HTML + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n" + _PAGE),
    }


def _redirect(target: Callable[[Connection], str], status: str = "302 Found") -> Send:
    async def send(connection: Connection) -> None:
        await connection.respond(status=status, headers={"Location": target(connection)})

    return send


def _redirects() -> dict[str, Send]:
    async def storm(connection: Connection) -> None:
        await connection.respond(_PAGE * 500, status="301 Moved", headers={"Location": f"{connection.path}/x"})

    return {
        "redirect-loop": _redirect(lambda connection: connection.path),
        "redirect-deeper": _redirect(lambda connection: f"{connection.path}/x"),
        "redirect-bodies": storm,
        "redirect-longer": _redirect(lambda connection: f"{connection.path}/{'x' * 900}"),
        "redirect-giant": _redirect(lambda connection: f"/redirect-giant/{'x' * 60_000}"),
        "redirect-file": _redirect(lambda _: "file:///etc/passwd"),
        "redirect-script": _redirect(lambda _: "javascript:alert(1)"),
        "redirect-invalid": _redirect(lambda _: "http://[::1"),
        "redirect-empty": _redirect(lambda _: ""),
        "redirect-metadata": _redirect(lambda _: "http://169.254.169.254/latest/meta-data/"),
        "redirect-refused": _redirect(lambda _: "http://127.0.0.1:1/"),
        "redirect-307": _redirect(lambda connection: connection.path, "307 Temporary Redirect"),
    }


def _statuses() -> dict[str, Send]:
    def status(line: str, body: bytes = _PAGE, **headers: str) -> Send:
        async def send(connection: Connection) -> None:
            await connection.respond(body, status=line, headers={k.replace("_", "-"): v for k, v in headers.items()})

        return send

    early = b"HTTP/1.1 102 Processing\r\n\r\n"
    return {
        "status-204": status("204 No Content", b""),
        "status-205": status("205 Reset Content"),
        "status-206": status("206 Partial Content", Content_Range="bytes 0-7/999"),
        "status-304": status("304 Not Modified", b""),
        "status-999": status("999 Odd"),
        "status-000": status("000 None"),
        "status-429-for-ever": status("429 Too Many Requests", Retry_After="99999999"),
        "status-503-odd-wait": status("503 Unavailable", Retry_After="-1e99"),
        "status-1xx-storm": _raw(early * 9_000 + _HTML + b"Content-Length: 8\r\n\r\n<b>x</b>"),
        "status-101": status("101 Switching Protocols", b""),
    }
