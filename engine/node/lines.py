"""Lines of text in the memory they were received in: decoded while they are read, so that they are not there twice."""

import codecs
from collections.abc import Iterator

from engine.model.record import Texts

_BLOCK_BYTES = 256 * 1024
_EAGER_BYTES = 64 * 1024
_LINE_FEED = b"\n"


class Lines:
    """The lines of a part, each ended by a line feed. One of more than 256 KB is the memory that holds it in UTF-8."""

    __slots__ = ("_count", "_part")

    def __init__(self, part: memoryview, count: int) -> None:
        self._part = part
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str | memoryview]:
        """Decode block by block. Raises ValueError where a line is not ended, or is no UTF-8."""
        start = 0
        while start < len(self._part):
            block = bytes(self._part[start : start + _BLOCK_BYTES])
            whole = block.rfind(_LINE_FEED) + 1
            if whole:
                yield from str(memoryview(block)[: whole - 1], "utf-8").split("\n")
            else:
                whole = _length_of_line(self._part[start:])
                yield self._part[start : start + whole - 1]
            start += whole


def read_lines(part: memoryview, count: int) -> Texts:
    """The lines of a part: decoded at once where they are small. Raises ValueError if they are not as many."""
    if len(part) > _EAGER_BYTES:
        lines = Lines(part, count)
        if sum(_is_utf8(line) for line in lines) != count:
            raise ValueError("lines are missing")
        return lines
    text = str(part, "utf-8")
    texts = tuple(text.split("\n"))[:-1]
    if len(texts) != count or (text and not text.endswith("\n")):
        raise ValueError("lines are missing")
    return texts


def as_text(line: str | memoryview) -> str:
    """A line as text, however long."""
    return line if isinstance(line, str) else str(line, "utf-8")


def _is_utf8(line: str | memoryview) -> bool:
    """True; raises UnicodeDecodeError, a ValueError, for a long line that is no UTF-8."""
    if not isinstance(line, str):
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(line), _BLOCK_BYTES):
            decoder.decode(line[start : start + _BLOCK_BYTES])
        decoder.decode(b"", final=True)
    return True


def _length_of_line(part: memoryview) -> int:
    """Of the first line, with its line feed. Copies a block at a time."""
    for start in range(0, len(part), _BLOCK_BYTES):
        line_feed = bytes(part[start : start + _BLOCK_BYTES]).find(_LINE_FEED)
        if line_feed >= 0:
            return start + line_feed + 1
    raise ValueError("a line is not ended")
