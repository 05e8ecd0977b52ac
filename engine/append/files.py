"""Outputs that are plain files: cut to the durable length, written, flushed, replaced. Knows no format, no table."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from engine.append.writer import Batch, Encoder, Extent
from engine.store.tables.outputs import Output


class FileWriter:
    """Writes the bytes an encoder makes to `path`. `mode` is what a new file may be (octal permissions)."""

    def __init__(self, path: Path, encoder: Encoder, *, mode: int = 0o600) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}.rebuild")
        self._encoder = encoder
        self._mode = mode
        self._file: int | None = None
        self._inode = 0
        self._prepared: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it holds the file open."""
        return self._file is not None

    def restore(self, output: Output) -> bool:
        """Cut the file to its durable length; False where it is missing, shorter, or another file."""
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is None or found.st_ino != output.inode or found.st_size < output.bytes:
            self.close()
            return False
        if (self._file is None or self._inode != found.st_ino) and not self._opened(output.bytes):
            self.close()
            return False
        if found.st_size > output.bytes:
            os.ftruncate(self._handle(), output.bytes)
        return True

    def append(self, output: Output, batch: Batch) -> Extent:
        """Write rows at the durable end, and flush them to the disk."""
        file = self._handle()
        size = _write(file, self._encoder.rows(row for _, row in batch), output.bytes)
        os.fsync(file)
        return Extent(size, output.rows + len(batch), self._inode)

    def prepare(self, batches: Iterable[Batch]) -> Extent:
        """Write header and rows to a file beside, flushed to the disk."""
        self._drop_prepared()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prepared = os.open(self._beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, self._mode)
        try:
            size, rows = _write(self._prepared, self._encoder.header(), 0), 0
            for batch in batches:
                size = _write(self._prepared, self._encoder.rows(row for _, row in batch), size)
                rows += len(batch)
            os.fsync(self._prepared)
        except BaseException:
            self._drop_prepared()
            raise
        return Extent(size, rows, os.fstat(self._prepared).st_ino)

    def adopt(self) -> None:
        """Give the prepared file its name."""
        self._beside.replace(self._path)
        flush_folder(self._path.parent)
        self.close()
        self._file, self._prepared = self._prepared, None
        self._inode = os.fstat(self._handle()).st_ino

    def close(self) -> None:
        """Let go of the file; what is not yet recorded in it is cut off when it is restored."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def _opened(self, size: int) -> bool:
        """Open the file; False where it cannot be ours, since the number of a deleted file's inode is used again."""
        self.close()
        self._file = file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._inode = os.fstat(file).st_ino
        if self._prepared is None:
            self._beside.unlink(missing_ok=True)
        header = self._encoder.header()
        return os.pread(file, len(header), 0) == header and (size == 0 or os.pread(file, 1, size - 1) == b"\n")

    def _handle(self) -> int:
        assert self._file is not None, "restore() comes first"
        return self._file

    def _drop_prepared(self) -> None:
        file, self._prepared = self._prepared, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)
            with contextlib.suppress(OSError):
                self._beside.unlink(missing_ok=True)


def inode_of(path: str) -> int | None:
    """The number of the file that has this name now; None: there is none."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(file: int, data: bytes, at: int) -> int:
    """Write all of `data` at a place; returns the place behind it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        at += written
        rest = rest[written:]
    return at
