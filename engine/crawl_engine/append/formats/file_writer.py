"""Writes outputs that are plain files: truncates, appends, flushes, replaces. Does not encode rows."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawl_engine.append.formats.writer import Batch, FileState, RowEncoder
from crawl_engine.runtime.private_file import create_draft
from crawl_engine.store.tables.output.outputs import Output


class FileWriter:
    """Writes the bytes of an encoder to `path`. A file with a footer is written whole; to others rows are appended."""

    def __init__(self, path: Path, encoder: RowEncoder, *, mode: int = 0o600, ending: bytes = b"\n") -> None:
        """`mode`: the permissions of a new file. `ending`: the last bytes of each row; empty: any."""
        self._path = path
        self._temp_path = path.with_name(f".{path.name}.rebuild")
        self._encoder = encoder
        self._mode = mode
        self._ending = ending
        self._fd: int | None = None
        self._inode = 0
        self._prepared_fd: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._fd is not None

    @property
    def is_whole(self) -> bool:
        """Whether the file has a footer."""
        return self._encoder.has_footer

    def restore(self, output: Output) -> bool:
        """Cut the file to its durable length; False if it is missing, shorter, or another file.

        One with a footer is never cut.
        """
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None or status.st_ino != output.inode or status.st_size < output.bytes:
            self.close()
            return False
        if (self._fd is None or self._inode != status.st_ino) and not self._open_verified(output.bytes):
            self.close()
            return False
        if status.st_size > output.bytes:
            if self.is_whole:
                self.close()
                return False
            os.ftruncate(self._require_fd(), output.bytes)
        return True

    def append(self, output: Output, batch: Batch) -> FileState:
        """Write rows at the durable end, and flush them to disk."""
        fd = self._require_fd()
        size = _write_all(fd, self._encoder.rows(row for _, row in batch), output.bytes)
        os.fsync(fd)
        return FileState(size, output.rows + len(batch), self._inode)

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Write header, rows and footer to a temporary file, flushed to disk."""
        self._drop_prepared()
        self._path.parent.mkdir(mode=0o700 if self._mode == 0o600 else 0o777, parents=True, exist_ok=True)
        self._prepared_fd = create_draft(self._temp_path, self._mode)
        try:
            size, rows = _write_all(self._prepared_fd, self._encoder.header(), 0), 0
            for batch in batches:
                size = _write_all(self._prepared_fd, self._encoder.rows(row for _, row in batch), size)
                rows += len(batch)
            if self._encoder.has_footer:
                size = _write_all(self._prepared_fd, self._encoder.footer(), size)
            os.fsync(self._prepared_fd)
        except BaseException:
            self._drop_prepared()
            raise
        return FileState(size, rows, os.fstat(self._prepared_fd).st_ino)

    def swap_in(self) -> None:
        """Rename the prepared file to the output's name."""
        self._temp_path.replace(self._path)
        fsync_dir(self._path.parent)
        self.close()
        self._fd, self._prepared_fd = self._prepared_fd, None
        self._inode = os.fstat(self._require_fd()).st_ino

    def close(self) -> None:
        """Close the file; the next `restore` cuts off everything beyond the record."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _open_verified(self, size: int) -> bool:
        """Open the file; False if its content shows another file: inode numbers are reused."""
        self.close()
        self._fd = fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._inode = os.fstat(fd).st_ino
        if self._prepared_fd is None:
            self._temp_path.unlink(missing_ok=True)
        header = self._encoder.header()
        if self.is_whole:
            return True  # its length is compared
        return os.pread(fd, len(header), 0) == header and (not size or self._ends_whole(fd, size))

    def _ends_whole(self, fd: int, size: int) -> bool:
        return os.pread(fd, len(self._ending), size - len(self._ending)) == self._ending

    def _require_fd(self) -> int:
        assert self._fd is not None, "restore() comes first"
        return self._fd

    def _drop_prepared(self) -> None:
        fd, self._prepared_fd = self._prepared_fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)
            with contextlib.suppress(OSError):
                self._temp_path.unlink(missing_ok=True)


class FileFormat(Struct, frozen=True):
    """An output type whose files are streams of bytes. `encoder` creates the encoder from an output's settings."""

    encoder: Callable[[Mapping[str, Any]], RowEncoder]
    is_quoted: bool = False
    """Whether a row may hold line breaks, between double quotes."""

    def create_writer(self, output: Output, *, run: str, mode: int) -> FileWriter:  # noqa: ARG002 - of databases
        """The writer of an output."""
        ending = b"" if output.settings.get("compression") else b"\n"
        return FileWriter(Path(output.path), self.create_encoder(output.settings), mode=mode, ending=ending)

    def create_encoder(self, settings: Mapping[str, Any]) -> RowEncoder:
        """The encoder for rows of an output with these settings."""
        encoder, method = self.encoder(settings), settings.get("compression")
        if method is None:
            return encoder
        from crawl_engine.append.formats.compression import CompressedEncoder

        return CompressedEncoder(encoder, method)


def inode_of(path: str) -> int | None:
    """The inode of the file with this name; None if it is missing."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def fsync_dir(folder: Path) -> None:
    """Make renames in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes, at: int) -> int:
    """Write all of `data` at an offset; returns the offset behind it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, at)
        at += written
        rest = rest[written:]
    return at
