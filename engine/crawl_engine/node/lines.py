"""A compact list of texts: packed bytes that are decoded line by line while read."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from typing import TypeVar

import zstandard
from msgspec import Struct

from crawl_engine.model.record import Count, Texts, as_text

_BLOCK_BYTES = 256 * 1024
_EAGER_CHARACTERS = 64 * 1024
_PACKED_FROM = 1_000_000
"""Bytes from which lines are compressed: most then take a tenth of the memory."""
_LEAST_GAIN = 4
"""Lines that do not become so many times smaller stay as they are: a long one is then read in its place."""
_PACKED_LEVEL, _MAX_WINDOW = 1, 1 << 23
_LINE_FEED = b"\n"
_LINE_END = re.compile(_LINE_FEED)
_PIECE_CHARACTERS = 250_000
_CHARACTERS_OF_OBJECT = 60
"""Bytes of a text object besides its characters."""

Item = TypeVar("Item")


class Lines(Struct, frozen=True):
    """Lines, each ended by a line feed. A line longer than a block is a view of its memory in UTF-8."""

    part: memoryview
    count: Count
    size: Count
    """Bytes of the lines when unpacked."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str | memoryview]:
        """Decode block by block. Raises ValueError for an unfinished line, invalid UTF-8, or damaged compression."""
        return self._lines_in_place() if self.size == len(self.part) else self._unpacked_lines()

    def check(self) -> None:
        """Raise ValueError if they cannot be read, or are not as many as they say."""
        if sum(map(_is_utf8, self)) != self.count:
            raise ValueError("lines are missing")

    def _lines_in_place(self) -> Iterator[str | memoryview]:
        start = 0
        while start < self.size:
            block = bytes(self.part[start : start + _BLOCK_BYTES])
            end = block.rfind(_LINE_FEED)
            if end >= 0:
                yield from _decode(memoryview(block)[:end])
                start += end + 1
                continue
            ended = _LINE_END.search(self.part, start + len(block))
            if ended is None:
                raise ValueError("a line is not ended")
            yield from _decode(self.part[start : ended.start()])
            start = ended.end()

    def _unpacked_lines(self) -> Iterator[str | memoryview]:
        rest = BytesIO()
        for block in self._unpacked_blocks():
            whole = block.rfind(_LINE_FEED) + 1
            if not whole:
                rest.write(block)
                continue
            if rest.tell():
                end = block.find(_LINE_FEED)
                rest.write(block[:end])
                yield from _decode(rest.getbuffer())
                rest, block, whole = BytesIO(), block[end + 1 :], whole - end - 1
            if whole:
                yield from _decode(memoryview(block)[: whole - 1])
            rest.write(memoryview(block)[whole:])
        if rest.tell():
            raise ValueError("a line is not ended")

    def _unpacked_blocks(self) -> Iterator[bytes]:
        left = self.size
        try:
            with zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(self.part) as reader:
                while left and (block := reader.read(min(_BLOCK_BYTES, left))):
                    left -= len(block)
                    yield block
                if left or reader.read(1):
                    raise ValueError("packed lines have another size")
        except (zstandard.ZstdError, MemoryError) as error:
            raise ValueError("lines cannot be unpacked") from error


PackedTexts = tuple[str, ...] | Lines


class LineWriter:
    """Collects lines in hardly more memory than their bytes."""

    def __init__(self) -> None:
        self._part = bytearray()
        self._lines: list[str] = []
        self._count = 0
        self._left = _PIECE_CHARACTERS

    def __len__(self) -> int:
        return self._count

    def add(self, line: str) -> None:
        """Add a line, which holds no line feed."""
        self._lines.append(line)
        self._count += 1
        self._left -= len(line) + _CHARACTERS_OF_OBJECT
        if self._left <= 0:
            self._flush()

    def finish(self) -> PackedTexts:
        if not self._part:
            return tuple(self._lines)
        self._flush()
        return Lines(memoryview(self._part), self._count, len(self._part))

    def _flush(self) -> None:
        for line in self._lines:
            self._part += line.encode() + _LINE_FEED
        self._lines, self._left = [], _PIECE_CHARACTERS


def pack_lines(texts: Texts) -> PackedTexts:
    """The texts, which hold no line feed: as they are if they are short, as lines otherwise, compressed if many."""
    if sum(map(len, texts)) < _EAGER_CHARACTERS:
        return texts if isinstance(texts, tuple) else tuple(map(as_text, texts))
    text = "\n".join(map(as_text, texts))
    joined = f"{text}\n".encode()
    size = len(joined)
    if size >= _PACKED_FROM:
        packed = zstandard.ZstdCompressor(level=_PACKED_LEVEL).compress(joined)
        joined = packed if len(packed) * _LEAST_GAIN <= size else joined
    return Lines(memoryview(joined), len(texts), size)


def unpacked_size(texts: PackedTexts) -> int:
    """The bytes of the texts, each with a line feed."""
    if isinstance(texts, Lines):
        return texts.size
    return len("\n".join(texts).encode()) + 1 if texts else 0


def cut_in_pieces(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Pieces of at most `most` items, which end earlier if their lengths reach a million characters."""
    piece: list[Item] = []
    left = _PIECE_CHARACTERS
    for item in items:
        piece.append(item)
        left -= length(item)
        if len(piece) >= most or left <= 0:
            yield piece
            piece, left = [], _PIECE_CHARACTERS
    if piece:
        yield piece


def take_first(pieces: Iterator[tuple[Item, ...]]) -> tuple[tuple[Item, ...], Iterator[tuple[Item, ...]] | None]:
    """The first piece, and an iterator over the later ones, or None."""
    first, second = next(pieces, ()), next(pieces, None)
    return first, None if second is None else chain((second,), pieces)


def _decode(lines: memoryview) -> Iterator[str | memoryview]:
    if len(lines) > _BLOCK_BYTES:  # a single piece
        yield lines
    else:
        yield from str(lines, "utf-8").split("\n")


def _is_utf8(line: str | memoryview) -> bool:
    """True; raises UnicodeDecodeError, a ValueError, for a long line that is not UTF-8."""
    if not isinstance(line, str):
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(line), _BLOCK_BYTES):
            decoder.decode(line[start : start + _BLOCK_BYTES])
        decoder.decode(b"", final=True)
    return True
