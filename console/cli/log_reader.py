"""Follows a log file that may be truncated, deleted, rotated or created again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from engine.errors import StorageError

_BLOCK = 1 << 16
_MAX_LINE_BYTES = 1 << 20
"""Longer lines are split."""


class LogFile:
    """Follows a file. After a truncation, or when another file takes its name, it is read from the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial = b""

    def seek_last_lines(self, lines: int) -> None:
        """Seek to the last `lines` lines, read block by block from the end."""
        self._open()
        if self._file is None:
            return
        start, missing = self._file.seek(0, os.SEEK_END), lines + 1
        while start and missing:
            size = min(_BLOCK, start)
            start = self._file.seek(start - size)
            block = self._file.read(size)
            ends = [at for at, byte in enumerate(block) if byte == 10][-missing:]
            missing -= len(ends)
            if not missing:
                start += ends[0] + 1
        self._file.seek(start)

    def read(self, *, include_partial: bool) -> Iterator[str]:
        """Lines written since the last call; a last line without newline if `include_partial`. Raises StorageError."""
        try:
            self._open()
            yield from self._read_new()
            if self._replaced():
                yield from self._flush_partial()
                self.close()
                self._open()
                yield from self._read_new()
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}", "Fix its permissions.") from error
        if include_partial:
            yield from self._flush_partial()

    def close(self) -> None:
        """Close the file; the next read starts at its beginning."""
        if self._file is not None:
            self._file.close()
        self._file, self._partial = None, b""

    def _open(self) -> None:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return

    def _read_new(self) -> Iterator[str]:
        while self._file is not None and (block := self._file.read(_BLOCK)):
            *lines, self._partial = (self._partial + block).split(b"\n")
            for line in lines:
                yield _decode_line(line)
            if len(self._partial) > _MAX_LINE_BYTES:
                yield from self._flush_partial()

    def _replaced(self) -> bool:
        if self._file is None:
            return False
        opened = os.fstat(self._file.fileno())
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return False
        replaced = (opened.st_dev, opened.st_ino) != (current.st_dev, current.st_ino)
        return replaced or current.st_size < self._file.tell()

    def _flush_partial(self) -> Iterator[str]:
        if self._partial:
            rest, self._partial = self._partial, b""
            yield _decode_line(rest)


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r").expandtabs()
