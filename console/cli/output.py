"""Writes lines to stdout and messages to stderr, in any encoding, to readers that may have gone."""

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterable
from typing import IO, BinaryIO, cast

from console.sanitize import clean


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout and flush. Raises BrokenPipeError where the reader is gone."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        sys.stdout.write(_escape_unencodable(text, sys.stdout.encoding))
        sys.stdout.flush()


def write_stderr(text: str) -> None:
    """Write a message to stderr; a closed stderr is ignored."""
    with contextlib.suppress(OSError):
        sys.stderr.write(_escape_unencodable(f"{text}\n", sys.stderr.encoding))
        sys.stderr.flush()


def open_stdout() -> BinaryIO:
    """Standard output for rows in UTF-8: as they are, or on a terminal without what would control it."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    return cast(BinaryIO, _CleanTerminal(sys.stdout.buffer))


class _CleanTerminal(io.RawIOBase):
    """Takes UTF-8; line feeds stay."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:  # type: ignore[override]
        lines = self._decoder.decode(data).replace("\r\n", "\n").split("\n")
        self._stream.write("\n".join(map(clean, lines)).encode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def redirect_to_devnull(stream: IO[str]) -> None:
    """Discard what is still to be written to a stream whose reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_unencodable(text: str, encoding: str | None) -> str:
    """The text with escapes for what the encoding lacks."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)
