"""Decompresses up to two Content-Encoding layers as they arrive, with a limit on the output."""

import sys
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Protocol

import brotli  # type: ignore[import-untyped]

from crawl_engine.http.errors import FetchFailed

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding: the encodings that `open_decompressor` knows."""

_GZIP_MAGIC = b"\x1f\x8b"

_STEP = 64 * 1024
"""Most bytes of input and output per step: behind each of many streams the rest of the input is copied."""

_LARGEST_PIECE = 1024 * 1024
"""More than a decompressor gives at once: Brotli may pass its step."""

_ZSTD_WINDOW_LOG = 23
"""8 MiB: the size that RFC 8878 recommends to support, and the most a frame may make us allocate."""

_MAX_MEMBERS = 3_000
"""Concatenated streams in one body: servers that flush often send many. Empty ones take 0.2 s in all."""
_MAX_LAYERS = 2
"""A server that compresses a file which is compressed already. Each layer has the limit: three could hide 10 GiB."""


class Decompressor(Protocol):
    """Decompresses one body as it arrives.

    Both methods raise `FetchFailed`: invalid or truncated data, or more output than the limit.
    """

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes of the body; yields the output in pieces."""

    def finish(self) -> Iterator[bytes]:
        """Note that the body is complete; yields the rest of the output."""


def open_decompressor(encoding: str, limit: int) -> Decompressor | None:
    """The decompressor for a Content-Encoding; None for an empty or unknown one. `limit`: bytes of output.

    Raises `FetchFailed` for more than two layers.
    """
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > _MAX_LAYERS:
        text = f"bad encoding {', '.join(names)} (only {_MAX_LAYERS} layers are supported)"
        raise FetchFailed(text, kind="encoding", retryable=False)
    layers = [layer for name in reversed(names) if (layer := _open_layer(name, limit)) is not None]
    return _Layers(*layers) if len(layers) > 1 else layers[0] if layers else None


def _open_layer(name: str, limit: int) -> Decompressor | None:
    if name in ("gzip", "x-gzip"):
        return _GzipDecompressor(_Output(limit))
    if name == "br":
        return _BrotliDecompressor(_Output(limit))
    if name == "deflate":
        return _DeflateDecompressor(_Output(limit))
    if name == "zstd":
        return _ZstdDecompressor(_Output(limit))
    return None


def decompress_start(raw: bytes, encoding: str, limit: int) -> bytes:
    """Decompresses at most the first `limit` bytes of a body that was read for at most `limit` bytes.

    Raises `FetchFailed`: invalid data, or a shorter body that ends too early.
    """
    decompressor = open_decompressor(encoding, limit + _LARGEST_PIECE) if raw else None
    if decompressor is None:
        return raw[:limit]
    parts, size = list[bytes](), 0
    for part in decompressor.feed(raw):
        parts.append(part)
        size += len(part)
        if size >= limit:
            return b"".join(parts)[:limit]
    if len(raw) < limit:
        parts += decompressor.finish()
    return b"".join(parts)[:limit]


def body_too_large(limit: int) -> FetchFailed:
    """The failure of a body larger than the setting `max_body`."""
    return FetchFailed(
        f"body over {limit} bytes (max_body)",
        kind="too-large",
        retryable=False,
        remedy="Raise the setting max_body; large feeds need more of parse_limit and parse_memory, too.",
    )


class _Output:
    """Counts the output of one body."""

    __slots__ = ("_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    @property
    def step(self) -> int:
        """Bytes to decompress next: one more than the limit leaves, so that a longer body shows."""
        return min(_STEP, self._limit - self._size + 1)

    def count(self, piece: bytes) -> bytes:
        """The piece. Raises `FetchFailed` if it exceeds the limit."""
        self._size += len(piece)
        if self._size > self._limit:
            raise body_too_large(self._limit)
        return piece


class _Layers:
    """What one decompressor gives, another decompresses."""

    def __init__(self, outer: Decompressor, inner: Decompressor) -> None:
        self._outer = outer
        self._inner = inner

    def feed(self, data: bytes) -> Iterator[bytes]:
        for piece in self._outer.feed(data):
            yield from self._inner.feed(piece)

    def finish(self) -> Iterator[bytes]:
        for piece in self._outer.finish():
            yield from self._inner.feed(piece)
        yield from self._inner.finish()


class _GzipDecompressor:
    """One or more gzip members. What follows the last one is ignored, as browsers do."""

    def __init__(self, output: _Output) -> None:
        self._output = output
        self._stream = zlib.decompressobj(31)
        self._members = 1
        self._after_member = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _STEP):
            yield from self._feed(data[at : at + _STEP])

    def _feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream.eof:
                # two bytes tell whether another member follows
                data = self._after_member = self._after_member + data
                if len(data) < len(_GZIP_MAGIC) or not data.startswith(_GZIP_MAGIC):
                    self._after_member = data[: len(_GZIP_MAGIC)]
                    return
                self._members += 1
                if self._members > _MAX_MEMBERS:
                    raise _bad_encoding("gzip")
                self._stream, self._after_member = zlib.decompressobj(31), b""
            yield from _inflate(self._stream, data, self._output, "gzip")
            data = self._stream.unused_data

    def finish(self) -> Iterator[bytes]:
        if not self._stream.eof:
            raise _truncated_body("gzip")
        return iter(())


class _DeflateDecompressor:
    """Servers send "deflate" with the zlib header that the standard requires, or, often, without it."""

    def __init__(self, output: _Output) -> None:
        self._output = output
        self._stream: zlib._Decompress | None = None
        self._start = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            data = self._start = self._start + data
            if len(data) < 2:
                return
        yield from self._inflate(data)

    def finish(self) -> Iterator[bytes]:
        if self._stream is None:
            yield from self._inflate(self._start)
        if self._stream is None or not self._stream.eof:
            raise _truncated_body("deflate")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            with_header = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._stream, self._start = zlib.decompressobj(15 if with_header else -15), b""
        if not self._stream.eof:
            yield from _inflate(self._stream, data, self._output, "deflate")


def _inflate(stream: "zlib._Decompress", data: bytes, output: _Output, name: str) -> Iterator[bytes]:
    """The output for the next bytes of a zlib stream, up to its end."""
    while not stream.eof:
        step = output.step
        try:
            piece = stream.decompress(data, step)
        except zlib.error:
            raise _bad_encoding(name) from None
        if piece:
            yield output.count(piece)
        data = stream.unconsumed_tail
        if len(piece) < step and not data:
            return


class _BrotliDecompressor:
    def __init__(self, output: _Output) -> None:
        self._output = output
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        stream = self._stream
        try:
            while not stream.is_finished():
                piece = stream.process(data, output_buffer_limit=self._output.step)
                data = b""
                if piece:
                    yield self._output.count(piece)
                elif stream.can_accept_more_data():
                    return
        except brotli.error:
            raise _bad_encoding("br") from None

    def finish(self) -> Iterator[bytes]:
        if not self._stream.is_finished():
            raise _truncated_body("br")
        return iter(())


class _ZstdDecompressor:
    """One or more zstd frames, and nothing else."""

    def __init__(self, output: _Output) -> None:
        if sys.version_info >= (3, 14):  # loaded here: few servers use it
            from compression import zstd
        else:
            from backports import zstd

        self._output = output
        self._error = zstd.ZstdError
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._open_frame = partial(zstd.ZstdDecompressor, options=options)
        self._frame = self._open_frame()
        self._frames = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _STEP):
            yield from self._feed(data[at : at + _STEP])

    def _feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                if self._frame.eof:
                    if not data:
                        return
                    self._frames += 1
                    if self._frames > _MAX_MEMBERS:
                        raise _bad_encoding("zstd")
                    self._frame = self._open_frame()
                step = self._output.step
                piece = self._frame.decompress(data, step)
                data = self._frame.unused_data if self._frame.eof else b""
                if piece:
                    yield self._output.count(piece)
                if not self._frame.eof and self._frame.needs_input:
                    return
        except self._error:
            raise _bad_encoding("zstd") from None

    def finish(self) -> Iterator[bytes]:
        if not self._frame.eof:
            raise _truncated_body("zstd")
        return iter(())


def _bad_encoding(name: str) -> FetchFailed:
    return FetchFailed(f"bad encoding {name}", kind="encoding", retryable=False)


def _truncated_body(name: str) -> FetchFailed:
    return FetchFailed(f"bad encoding {name} (truncated)", kind="encoding", retryable=True)
