"""Decompression: lossless, limited, and safe for any input."""

import gzip
import os
import time
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.http.decompress import open_decompressor
from crawl_engine.http.errors import FetchFailed

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=5),
    "zstd": zstandard.compress,
}
packers = pytest.mark.parametrize("name", PACKERS)


def decompress(raw: bytes, encoding: str, limit: int) -> bytes:
    decompressor = open_decompressor(encoding, limit) if raw else None
    return raw if decompressor is None else b"".join([*decompressor.feed(raw), *decompressor.finish()])


@packers
@given(content=st.binary(max_size=3000), times=st.integers(1, 40))
def test_compressed_bodies_round_trip(name: str, content: bytes, times: int) -> None:
    page = content * times
    assert decompress(PACKERS[name](page), name, max(len(page), 1)) == page


@packers
@given(raw=st.binary(max_size=300))
def test_any_bytes_return_a_body_or_fail(name: str, raw: bytes) -> None:
    for body in (raw, PACKERS[name](raw)[:-1], PACKERS[name](raw) + raw):
        try:
            assert len(decompress(body, name, 1000)) <= 1000
        except FetchFailed as failed:
            assert failed.kind in ("encoding", "too-large")


@packers
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_may_arrive_in_any_pieces(name: str, size: int) -> None:
    page = b"".join(f"line {number} of a page\n".encode() for number in range(20_000))
    raw = PACKERS[name](page[:5000]) if size == 1 else PACKERS[name](page)
    decompressor = open_decompressor(name, len(page))
    assert decompressor is not None
    pieces = [piece for at in range(0, len(raw), size) for piece in decompressor.feed(raw[at : at + size])]
    pieces += decompressor.finish()
    assert b"".join(pieces) == (page[:5000] if size == 1 else page)
    assert max(map(len, pieces)) <= 64 * 1024, "memory is asked for in small pieces"


@pytest.mark.parametrize("size", [1, 2, 30])
def test_members_may_be_split_anywhere(size: int) -> None:
    for name, pack in (("gzip", gzip.compress), ("zstd", zstandard.compress)):
        raw = pack(b"one ") + pack(b"two ") + pack(b"three")
        decompressor = open_decompressor(name, 100)
        assert decompressor is not None
        pieces = [piece for at in range(0, len(raw), size) for piece in decompressor.feed(raw[at : at + size])]
        assert b"".join([*pieces, *decompressor.finish()]) == b"one two three"


@packers
def test_the_limit_is_exact(name: str) -> None:
    packed = PACKERS[name](b"x" * 100_000)
    assert len(decompress(packed, name, 100_000)) == 100_000
    with pytest.raises(FetchFailed, match=r"body over 99999 bytes \(max_body\)"):
        decompress(packed, name, 99_999)


@packers
def test_a_bomb_fails_fast(name: str) -> None:
    bomb = PACKERS[name](b"\0" * 100_000_000)
    start = time.thread_time()
    with pytest.raises(FetchFailed, match="max_body"):
        decompress(bomb, name, 1_000_000)
    assert time.thread_time() - start < 1


@packers
def test_a_truncated_body_is_retryable(name: str) -> None:
    with pytest.raises(FetchFailed, match="truncated") as failed:
        decompress(PACKERS[name](b"some page " * 50)[:-3], name, 10_000)
    assert failed.value.retryable


def test_concatenated_members_are_one_body() -> None:
    assert decompress(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip", 7) == b"one two"
    assert decompress(zstandard.compress(b"one ") + zstandard.compress(b"two"), "zstd", 7) == b"one two"
    with pytest.raises(FetchFailed, match="body over 6 bytes"):
        decompress(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip", 6)


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_thousand_members_are_one_body_and_as_many_of_nothing_are_read(
    name: str, pack: Callable[[bytes], bytes]
) -> None:
    lines = [f"line {number}\n".encode() for number in range(1_000)]
    assert decompress(b"".join(map(pack, lines)), name, 20_000) == b"".join(lines)
    assert decompress(pack(b"page") + pack(b"") * 1_000, name, 4) == b"page"


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("inner", PACKERS)
@pytest.mark.parametrize("outer", PACKERS)
def test_two_layers_are_read(outer: str, inner: str, size: int) -> None:
    page = b"some page " * 500
    raw = PACKERS[outer](PACKERS[inner](page))
    decompressor = open_decompressor(f"{inner}, identity, {outer}", len(page))
    assert decompressor is not None
    pieces = [piece for at in range(0, len(raw), size) for piece in decompressor.feed(raw[at : at + size])]
    assert b"".join([*pieces, *decompressor.finish()]) == page


@packers
def test_each_of_two_layers_is_limited(name: str) -> None:
    for page in (bytes(10_000_000), os.urandom(60_000)):  # the inner layer exceeds it, or the outer one
        with pytest.raises(FetchFailed, match="max_body"):
            decompress(PACKERS[name](gzip.compress(page)), f"gzip, {name}", 50_000)
    with pytest.raises(FetchFailed, match="truncated"):
        decompress(PACKERS[name](gzip.compress(b"some page " * 50)[:-3]), f"gzip, {name}", 10_000)


def test_padding_after_gzip_is_ignored() -> None:
    assert decompress(gzip.compress(b"page") + b"\0\0\0\0", "gzip", 10) == b"page"


@pytest.mark.parametrize(("name", "empty"), [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstandard.compress(b""))])
def test_too_many_members_are_rejected_fast(name: str, empty: bytes) -> None:
    start = time.thread_time()
    with pytest.raises(FetchFailed, match=f"bad encoding {name}"):
        decompress(empty * (5_000_000 // len(empty)), name, 20_000_000)
    assert time.thread_time() - start < 2


@pytest.mark.parametrize("name", ["", "identity", "none", "utf-8", "identity, ", "compress"])
def test_an_unknown_encoding_leaves_the_body_unchanged(name: str) -> None:
    assert decompress(b"page", name, 10) == b"page"


def test_identity_does_not_count_as_a_layer() -> None:
    assert decompress(gzip.compress(b"page"), "identity, gzip", 10) == b"page"


@pytest.mark.parametrize("name", ["zstd", "br", "gzip"])
def test_a_bomb_gives_its_output_in_small_pieces(name: str) -> None:
    raw = PACKERS[name](bytes(10_000_000))
    decompressor = open_decompressor(name, 20_000_000)
    assert decompressor is not None
    assert max(map(len, decompressor.feed(raw))) <= 256 * 1024
