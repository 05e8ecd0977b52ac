"""Compressed files: any tool reads the pieces as one stream, and a cut behind a piece leaves a whole file."""

import gzip
import io
from collections.abc import Callable

import pytest
import zstandard

from crawl_engine.append.formats.compression import DecompressionFailed, decompress_into
from crawl_engine.append.formats.writer import create_encoder

ROWS = [f'{{"a":{number}}}' for number in range(50)]


def read_zstd(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        return reader.read()


READERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": read_zstd}


@pytest.mark.parametrize("method", ["gzip", "zstd"])
@pytest.mark.parametrize("type_", ["csv", "jsonl", "scoopi"])
def test_the_pieces_are_one_stream_that_can_be_cut_behind_each(method: str, type_: str) -> None:
    settings = {"columns": ["a"], "delimiter": ","}
    packed, plain = create_encoder(type_, {**settings, "compression": method}), create_encoder(type_, settings)
    data, expected = packed.header(), plain.header()
    assert data, "an empty file is not a compressed one"
    assert packed.header() == data
    for start in range(0, 50, 10):
        assert READERS[method](data) == expected
        data += packed.rows(ROWS[start : start + 10])
        expected += plain.rows(ROWS[start : start + 10])
    assert READERS[method](data) == expected
    assert packed.rows([]) == b""
    target = io.BytesIO()
    decompress_into(io.BytesIO(data + b"not recorded"), method, target, length=len(data))
    assert target.getvalue() == expected


@pytest.mark.parametrize("method", ["gzip", "zstd"])
def test_damage_is_noticed(method: str) -> None:
    data = bytearray(create_encoder("jsonl", {"columns": ["a"], "compression": method}).rows(ROWS))
    data[len(data) // 2] ^= 0x55
    with pytest.raises(DecompressionFailed):
        decompress_into(io.BytesIO(bytes(data)), method, io.BytesIO(), length=len(data))
