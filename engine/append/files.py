"""Outputs that are plain files: cut to the durable length, written, flushed, replaced. Knows no format, no table."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from engine.append.writer import Batch, Encoder, FileState
from engine.store.tables.outputs import Output


class FileWriter:
    """Writes the bytes an encoder makes to `path`. `mode` is what a new file may be (octal permissions)."""

    def __init__(self, path: Path, encoder: Encoder, *, mode: int = 0o600) -> None:
        self._path = path
        self._temp_path = path.with_name(f".{path.name}.rebuild")
        self._encoder = encoder
        self._mode = mode
        self._fd: int | None = None
        self._inode = 0
        self._prepared_fd: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it holds the file open."""
        return self._fd is not None

    def restore(self, output: Output) -> bool:
        """Cut the file to its durable length; False where it is missing, shorter, or another file."""
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found is None or found.st_ino != output.inode or found.st_size < output.bytes:
            self.close()
            return False
        if (self._fd is None or self._inode != found.st_ino) and not self._open_verified(output.bytes):
            self.close()
            return False
        if found.st_size > output.bytes:
            os.ftruncate(self._require_fd(), output.bytes)
        return True

    def append(self, output: Output, batch: Batch) -> FileState:
        """Write rows at the durable end, and flush them to the disk."""
        file = self._require_fd()
        size = _write_all(file, self._encoder.rows(row for _, row in batch), output.bytes)
        os.fsync(file)
        return FileState(size, output.rows + len(batch), self._inode)

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Write header and rows to a file beside, flushed to the disk."""
        self._drop_prepared()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prepared_fd = os.open(self._temp_path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, self._mode)
        try:
            size, rows = _write_all(self._prepared_fd, self._encoder.header(), 0), 0
            for batch in batches:
                size = _write_all(self._prepared_fd, self._encoder.rows(row for _, row in batch), size)
                rows += len(batch)
            os.fsync(self._prepared_fd)
        except BaseException:
            self._drop_prepared()
            raise
        return FileState(size, rows, os.fstat(self._prepared_fd).st_ino)

    def swap_in(self) -> None:
        """Give the prepared file its name."""
        self._temp_path.replace(self._path)
        fsync_dir(self._path.parent)
        self.close()
        self._fd, self._prepared_fd = self._prepared_fd, None
        self._inode = os.fstat(self._require_fd()).st_ino

    def close(self) -> None:
        """Let go of the file; what is not yet recorded in it is cut off when it is restored."""
        file, self._fd = self._fd, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def _open_verified(self, size: int) -> bool:
        """Open the file; False where it cannot be ours, since the number of a deleted file's inode is used again."""
        self.close()
        self._fd = file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._inode = os.fstat(file).st_ino
        if self._prepared_fd is None:
            self._temp_path.unlink(missing_ok=True)
        header = self._encoder.header()
        return os.pread(file, len(header), 0) == header and (size == 0 or os.pread(file, 1, size - 1) == b"\n")

    def _require_fd(self) -> int:
        assert self._fd is not None, "restore() comes first"
        return self._fd

    def _drop_prepared(self) -> None:
        file, self._prepared_fd = self._prepared_fd, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)
            with contextlib.suppress(OSError):
                self._temp_path.unlink(missing_ok=True)


def inode_of(path: str) -> int | None:
    """The number of the file that has this name now; None: there is none."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def fsync_dir(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(file: int, data: bytes, at: int) -> int:
    """Write all of `data` at a place; returns the place behind it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        at += written
        rest = rest[written:]
    return at
