"""Decompresses one Content-Encoding layer, with a limit on the output."""

import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]

from engine.fetch.errors import FetchFailed

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding: the encodings that `decompress` reads."""

_GZIP_MAGIC = b"\x1f\x8b"

_ZSTD_WINDOW = 8 * 1024 * 1024
"""Bytes; the size that RFC 8878 recommends to support, and the most a frame may make us allocate."""

_ZSTD_CHUNK = 512
"""Input bytes per step: four can expand to 128 KiB, so a step returns at most 16 MB before the size check."""

_START_CHUNK = 512
"""Input bytes per step where only the start of a body is needed."""

_MAX_MEMBERS = 100
"""Concatenated streams in one body; normal servers send one."""


def decompress(raw: bytes, encoding: str, limit: int) -> bytes:
    """Decompresses a body. Returns it unchanged for an empty or unknown encoding.

    Raises `FetchFailed`: invalid or truncated data, more than one layer, or more than `limit` bytes.
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
            raise FetchFailed(f"bad encoding {name} (only one layer is supported)", kind="encoding", retryable=False)
        return decompress(raw, layers[0] if layers else "", limit)
    return raw


def decompress_start(raw: bytes, encoding: str, limit: int) -> bytes:
    """Decompresses at most the first `limit` bytes of a body that was read for at most `limit` bytes.

    Raises `FetchFailed`: invalid data, or a shorter body that ends too early.
    """
    try:
        return decompress(raw, encoding, limit)
    except FetchFailed as failure:
        if failure.kind != "too-large" and len(raw) < limit:
            raise
    parts, size = list[bytes](), 0
    for part in _decompress_steps(raw, encoding.strip().lower()):
        parts.append(part)
        size += len(part)
        if size >= limit:
            break
    return b"".join(parts)[:limit]


def _decompress_steps(raw: bytes, name: str) -> Iterator[bytes]:
    """The content of the first stream, in small parts, as far as it goes."""
    step: Callable[[bytes], bytes]
    if name == "br":
        step = brotli.Decompressor().process
    elif name == "zstd":
        import zstandard

        step = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj().decompress
    else:
        with_header = name != "deflate" or _has_zlib_header(raw)
        step = zlib.decompressobj((15 if name == "deflate" else 31) if with_header else -15).decompress
    try:
        for start in range(0, len(raw), _START_CHUNK):
            yield step(raw[start : start + _START_CHUNK])
    except Exception as error:  # each library has its own; zstandard's is imported late
        raise _bad_encoding(name) from error


def body_too_large(limit: int) -> FetchFailed:
    """The failure of a body larger than the setting `max_body`."""
    return FetchFailed(
        f"body over {limit} bytes (max_body)",
        kind="too-large",
        retryable=False,
        remedy="Raise the setting max_body to fetch such pages.",
    )


def _gunzip(raw: bytes, limit: int) -> bytes:
    content, rest = _zlib_stream(raw, 31, limit, "gzip")
    if not rest.startswith(_GZIP_MAGIC):
        return content  # ignore bytes after the last member, as browsers do
    parts, size = [content], len(content)
    for _ in range(_MAX_MEMBERS):
        content, rest = _zlib_stream(rest, 31, limit, "gzip", used=size)
        size += len(content)
        parts.append(content)
        if not rest.startswith(_GZIP_MAGIC):
            return b"".join(parts)
    raise _bad_encoding("gzip")


def _inflate(raw: bytes, limit: int) -> bytes:
    # Servers send "deflate" with the zlib header that the standard requires, or, often, without it.
    return _zlib_stream(raw, 15 if _has_zlib_header(raw) else -15, limit, "deflate")[0]


def _has_zlib_header(raw: bytes) -> bool:
    return len(raw) >= 2 and raw[0] & 0x0F == 8 and (raw[0] << 8 | raw[1]) % 31 == 0


def _zlib_stream(raw: bytes, wbits: int, limit: int, name: str, used: int = 0) -> tuple[bytes, bytes]:
    """The content of one stream, and the bytes after it."""
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
    chunk = raw
    try:
        while not stream.is_finished():
            part = stream.process(chunk, output_buffer_limit=limit + 1 - size)
            chunk = b""
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
    import zstandard  # takes 16 ms, and few servers use it

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
    return FetchFailed(f"bad encoding {name} (truncated)", kind="encoding", retryable=True)
