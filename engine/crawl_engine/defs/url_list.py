"""Reads lists of URLs, one per line, from a file or standard input."""

import os
import re
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from crawl_engine.errors import UsageError
from crawl_engine.late_regex import late_regex

_CREDENTIALS = late_regex(r"[^/:]*:.*@", re.DOTALL)
"""What stands before `@` in a path that is a mistyped URL."""


_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PIECE_BYTES = 1 << 16


class ListUnreadable(UsageError):
    """The system refused to open or read a list; it may succeed later."""


class ListPosition(NamedTuple):
    """A place between two lines of a file: the bytes and the lines before it."""

    offset: int = 0
    line: int = 0


class UrlList:
    """The lines of a list from a position on: number and text. Skips blank lines and lines that start with #."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = ListPosition()
        """Before the line that was given last; at the end of the list: behind it."""
        self.size: int | None = None
        """In bytes; None: it is not a regular file, or not open yet."""
        self.stamp = ""
        """Changes when the file does; empty: its content is not known to stay."""

    def read_from(self, position: ListPosition, stamp: str) -> Iterator[tuple[int, str]]:
        """The lines behind `position`, of a file with that stamp; of another file, all. Raises ListUnreadable."""
        try:
            with Path(self.path).open("rb") as file:
                offset, number = self.start(file, position, stamp)
                for raw in file:
                    self.position = ListPosition(offset, number)
                    offset, number = offset + len(raw), number + 1
                    for part in raw.splitlines() if b"\r" in raw else (raw,):
                        text = part.decode("utf-8", "replace").strip().removeprefix("\ufeff")
                        if text and text[0] != "#":
                            yield number, text
                self.position = ListPosition(offset, number)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def start(self, file: BinaryIO, position: ListPosition, stamp: str) -> ListPosition:
        """Go to where the file is read on; returns that position."""
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            self.size = status.st_size
            self.stamp = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
            require_utf8(self.path, file.read(2))
            self.position = position if stamp == self.stamp else ListPosition()
            file.seek(self.position.offset)
        return self.position


def require_utf8(path: str, start: bytes) -> None:
    """Raise UsageError if a list that starts with these bytes is in UTF-16, as spreadsheets write it."""
    if start in _UTF16:
        raise UsageError(f"{shown_path(path)}:1: the file is in UTF-16", "Save it as UTF-8.")


def unreadable(path: str, error: OSError) -> ListUnreadable:
    """The error of a list that the system refused to read."""
    return ListUnreadable(f"{shown_path(path)}: {error.strerror}", "Check the path of the list and its permissions.")


def read_urls(path: str) -> Iterator[tuple[int, str]]:
    """Line number and URL of a file's lines, or of stdin for `-`; skips blank lines and lines that start with #.

    Raises ListUnreadable.
    """
    if path == "-":
        return (entry for entry in read_stdin() if entry is not None)
    return UrlList(path).read_from(ListPosition(), "")


def read_stdin(wait: float | None = None) -> Iterator[tuple[int, str] | None]:
    """The lines of standard input, as `read_urls` gives them. Raises ListUnreadable.

    `wait`: the seconds to wait for input, after which None stands for a line that has not come; None: without end.
    """
    rest, number, is_open = b"", 0, True
    while is_open:
        try:
            if wait is not None and not select.select([sys.stdin], [], [], wait)[0]:
                yield None
                continue
            piece = (
                os.read(sys.stdin.fileno(), _PIECE_BYTES) if wait is not None else sys.stdin.buffer.read(_PIECE_BYTES)
            )
        except OSError as error:
            raise unreadable("-", error) from error
        is_open = bool(piece)
        whole, newline, rest = (rest + piece).rpartition(b"\n") if is_open else (rest, b"", b"")  # the last line
        for raw in (whole + newline).splitlines():
            number += 1
            text = raw.decode("utf-8", "replace").strip().removeprefix("\ufeff")
            if text and text[0] != "#":
                yield number, text


def shown_path(path: str) -> str:
    """The path of a list for messages: relative to the current folder if it is in it, without credentials."""
    shown = Path(path)
    return _CREDENTIALS.sub("…@", str(shown.relative_to(Path.cwd()) if shown.is_relative_to(Path.cwd()) else shown))
