"""The start of a compressed body: cut at the limit, whole where it is shorter, refused where it ends too early."""

import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from crawl_engine.http.decompress import decompress_start
from crawl_engine.http.errors import FetchFailed

CONTENT = b"".join(b"Disallow: /%d\n" % n for n in range(20_000))


def _raw_deflate(content: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(content) + stream.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "DEFLATE": _raw_deflate,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_the_start_is_cut_at_the_limit(encoding: str) -> None:
    raw = ENCODERS[encoding](CONTENT)
    assert decompress_start(raw, encoding, 100_000) == CONTENT[:100_000]
    assert decompress_start(raw, encoding, len(CONTENT)) == CONTENT
    assert decompress_start(raw, encoding, len(CONTENT) + 1) == CONTENT


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_body_that_was_cut_while_reading_counts_as_far_as_it_goes(encoding: str) -> None:
    raw = ENCODERS[encoding](CONTENT)[:20_000]
    assert CONTENT.startswith(decompress_start(raw, encoding, len(raw)))


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_body_that_ends_too_early_is_refused(encoding: str) -> None:
    raw = ENCODERS[encoding](CONTENT)
    with pytest.raises(FetchFailed, match="truncated"):
        decompress_start(raw[:-20], encoding, 10 * len(CONTENT))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert decompress_start(bomb, "gzip", 1000) == bytes(1000)


def test_invalid_data_are_refused() -> None:
    with pytest.raises(FetchFailed, match="bad encoding gzip"):
        decompress_start(b"plain text" * 100, "gzip", 500)
    assert decompress_start(b"plain", "unknown", 500) == b"plain"
