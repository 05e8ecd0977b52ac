"""Bounded decompression of one Content-Encoding layer. A bomb costs at most `limit` bytes, never what it claims."""

import zlib

import brotli  # type: ignore[import-untyped]

from engine.fetch.errors import FetchFailed

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding: just what `unpack` reads."""

_GZIP_MAGIC = b"\x1f\x8b"

_ZSTD_WINDOW = 8 * 1024 * 1024
"""Bytes; what RFC 8878 asks a decoder on the web to support, and what a frame may make us hold."""

_ZSTD_CHUNK = 512
"""Bytes fed at a time: four of them can stand for 128 KiB, so a bite gives at most 16 MB before it is counted."""

_MAX_MEMBERS = 100
"""Streams that may follow each other in one body; honest servers send one."""


def decompress(raw: bytes, encoding: str, limit: int) -> bytes:
    """The body behind one Content-Encoding, which may be empty; an encoding nobody knows leaves it as it is.

    Raises `FetchFailed`: damaged or cut short, more than one layer, or more than `limit` bytes.
    """
    name = encoding.strip().lower()
    if not name or not raw:
        return raw
    if name in ("gzip", "x-gzip"):
        return _gunzip(raw, limit)
    if name == "br":
        return _unbrotli(raw, limit)
    if name == "deflate":
        return _inflate(raw, limit)
    if name == "zstd":
        return _unzstd(raw, limit)
    if "," in name:
        layers = [layer for layer in (part.strip() for part in name.split(",")) if layer not in ("", "identity")]
        if len(layers) > 1:
            raise FetchFailed(f"bad encoding {name} (only one layer is read)", kind="encoding", retryable=False)
        return decompress(raw, layers[0] if layers else "", limit)
    return raw


def body_too_large(limit: int) -> FetchFailed:
    """The failure of a body beyond the setting `max_body`."""
    return FetchFailed(
        f"body over {limit} bytes (max_body)",
        kind="too-large",
        retryable=False,
        remedy="Raise the setting max_body if such pages are wanted.",
    )


def _gunzip(raw: bytes, limit: int) -> bytes:
    content, rest = _zlib_stream(raw, 31, limit, "gzip")
    if not rest.startswith(_GZIP_MAGIC):
        return content  # bytes after the last member are padding, which browsers ignore too
    parts, size = [content], len(content)
    for _ in range(_MAX_MEMBERS):
        content, rest = _zlib_stream(rest, 31, limit, "gzip", used=size)
        size += len(content)
        parts.append(content)
        if not rest.startswith(_GZIP_MAGIC):
            return b"".join(parts)
    raise _bad_encoding("gzip")


def _inflate(raw: bytes, limit: int) -> bytes:
    # Servers send "deflate" both with the zlib header of the standard and, more often wrongly, without.
    with_header = len(raw) >= 2 and raw[0] & 0x0F == 8 and (raw[0] << 8 | raw[1]) % 31 == 0
    return _zlib_stream(raw, 15 if with_header else -15, limit, "deflate")[0]


def _zlib_stream(raw: bytes, wbits: int, limit: int, name: str, used: int = 0) -> tuple[bytes, bytes]:
    """One stream's content and the bytes after it."""
    stream = zlib.decompressobj(wbits)
    try:
        content = stream.decompress(raw, limit - used + 1)
    except zlib.error:
        raise _bad_encoding(name) from None
    if used + len(content) > limit:
        raise body_too_large(limit)
    if not stream.eof:
        raise _truncated_body(name)
    return content, stream.unused_data


def _unbrotli(raw: bytes, limit: int) -> bytes:
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    size = 0
    feed = raw
    try:
        while not stream.is_finished():
            part = stream.process(feed, output_buffer_limit=limit + 1 - size)
            feed = b""
            parts.append(part)
            size += len(part)
            if size > limit:
                raise body_too_large(limit)
            if not part and stream.can_accept_more_data() and not stream.is_finished():
                raise _truncated_body("br")
    except brotli.error:
        raise _bad_encoding("br") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unzstd(raw: bytes, limit: int) -> bytes:
    import zstandard  # 16 ms, and few servers send it

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    parts: list[bytes] = []
    size = position = 0
    try:
        for _ in range(_MAX_MEMBERS):
            frame = decompressor.decompressobj()
            while not frame.eof:
                if position >= len(raw):
                    raise _truncated_body("zstd")
                part = frame.decompress(raw[position : position + _ZSTD_CHUNK])
                position += _ZSTD_CHUNK
                size += len(part)
                if size > limit:
                    raise body_too_large(limit)
                parts.append(part)
            position = min(position, len(raw)) - len(frame.unused_data)
            if position >= len(raw):
                return b"".join(parts)
    except zstandard.ZstdError:
        pass
    raise _bad_encoding("zstd")


def _bad_encoding(name: str) -> FetchFailed:
    return FetchFailed(f"bad encoding {name}", kind="encoding", retryable=False)


def _truncated_body(name: str) -> FetchFailed:
    return FetchFailed(f"bad encoding {name} (cut short)", kind="encoding", retryable=True)
