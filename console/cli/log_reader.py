"""A log file read on and on, whatever becomes of it: cut short, deleted, made anew. Knows no run and no screen."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from engine.errors import StorageError

_BLOCK = 1 << 16
_MAX_LINE_BYTES = 1 << 20
"""Bytes of a line; what is longer is cut into several."""


class LogFile:
    """A file read on and on. Cut short it is read from its start, and so is another one that took its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial = b""

    def seek_last_lines(self, lines: int) -> None:
        """Go to the last lines of what is there, unless they are very long."""
        self._open()
        if self._file is not None:
            size = self._file.seek(0, os.SEEK_END)
            start = self._file.seek(max(0, size - _BLOCK))
            ends = [at for at, byte in enumerate(self._file.read(_BLOCK)) if byte == 10]
            self._file.seek(start + ends[-lines - 1] + 1 if len(ends) > lines else start)

    def read(self, *, include_partial: bool) -> Iterator[str]:
        """Lines written since; `whole`: also one that has no end yet. Raises StorageError."""
        try:
            self._open()
            yield from self._read_new()
            if self._replaced():
                yield from self._flush_partial()
                self.close()
                self._open()
                yield from self._read_new()
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}", "Mend its permissions.") from error
        if include_partial:
            yield from self._flush_partial()

    def close(self) -> None:
        """Let the file go; what is read next begins at its start."""
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
        ours = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino) or there.st_size < self._file.tell()

    def _flush_partial(self) -> Iterator[str]:
        if self._partial:
            rest, self._partial = self._partial, b""
            yield _decode_line(rest)


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r").expandtabs()
