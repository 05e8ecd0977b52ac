"""Compresses files by their ending: each piece of bytes is a gzip member or a zstd frame of its own.

So a file can be appended to, and cut off behind any piece; every tool for gzip or zstd reads it as one stream.
"""

import gzip
import io
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from crawl_engine.append.formats.writer import RowEncoder

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3
_COPY_BYTES = 256 * 1024


class CompressedEncoder(RowEncoder):
    """Compresses what another encoder gives. `method`: `gzip` or `zstd`."""

    def __init__(self, encoder: RowEncoder, method: str) -> None:
        self._encoder = encoder
        self._compress = compressor(method)

    @property
    def has_footer(self) -> bool:
        return self._encoder.has_footer

    def header(self) -> bytes:
        """The first piece. It exists without a header, too: an empty file is not a compressed one."""
        return self._compress(self._encoder.header())

    def rows(self, rows: Iterable[str]) -> bytes:
        data = self._encoder.rows(rows)
        return self._compress(data) if data else b""

    def footer(self) -> bytes:
        return self._compress(self._encoder.footer())


class DecompressionFailed(Exception):
    """Bytes are not whole gzip members or zstd frames."""


def decompress_into(source: BinaryIO, method: str, target: BinaryIO, *, length: int) -> None:
    """Write the decompressed form of the first `length` bytes of a file. Raises DecompressionFailed and OSError."""
    import zstandard

    part = io.BufferedReader(_FirstBytes(source, length))
    try:
        if method == "gzip":
            with gzip.GzipFile(fileobj=part) as reader:
                shutil.copyfileobj(reader, target, _COPY_BYTES)
        else:
            with zstandard.ZstdDecompressor().stream_reader(part, read_across_frames=True) as frames:
                shutil.copyfileobj(frames, target, _COPY_BYTES)
    except (gzip.BadGzipFile, zlib.error, EOFError, zstandard.ZstdError) as error:
        raise DecompressionFailed(str(error)) from error


class _FirstBytes(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, stream: BinaryIO, length: int) -> None:
        self._stream = stream
        self._rest = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(min(len(buffer), self._rest))
        buffer[: len(data)] = data
        self._rest -= len(data)
        return len(data)


def compressor(method: str) -> Callable[[bytes], bytes]:
    """A function that makes a gzip member or a zstd frame."""
    return _METHODS[method]


def _compress_gzip(data: bytes) -> bytes:
    return gzip.compress(data, _GZIP_LEVEL, mtime=0)


def _compress_zstd(data: bytes) -> bytes:
    import zstandard

    compressed: bytes = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)
    return compressed


_METHODS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": _compress_gzip, "zstd": _compress_zstd}
