"""Writes an output as one object of a store: its file is written beside, then put as a whole."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from crawl_engine.append.formats.writer import Batch, FileState, Writer
from crawl_engine.append.replaced_file import open_replacement
from crawl_engine.model.output_type import local_path_of
from crawl_engine.runtime.objects import Bucket
from crawl_engine.store.tables.output.outputs import Output

_SPOOL = ".objects"


class _Target(Protocol):
    """Where an object is. Methods raise OSError or StorageError."""

    def find(self) -> tuple[int, int] | None:
        """The size and the identity of the object; None if it does not exist or must not be read."""

    def put(self, file: Path) -> int:
        """Put a file in the place of the object, atomically; returns the identity of the new object."""


class ObjectWriter(Writer):
    """Writes one object. `writer` writes its file at `spool`, which is deleted when it was put."""

    is_whole = True

    def __init__(self, target: _Target, writer: Writer, spool: Path) -> None:
        self._target = target
        self._writer = writer
        self._spool = spool
        self._is_checked = False

    @property
    def is_open(self) -> bool:
        """Whether the object was compared with its record."""
        return self._is_checked

    def restore(self, output: Output) -> bool:
        """Whether the object is the recorded one. The first one of a run replaces that of an earlier run later."""
        if not self._is_checked:
            found = self._target.find()
            self._is_checked = output.inode is None or found == (output.bytes, output.inode)
        return self._is_checked

    def append(self, output: Output, batch: Batch) -> FileState:
        """Never called."""
        raise NotImplementedError

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Write the file to be put."""
        rows = self._writer.prepare(batches).rows
        self._writer.swap_in()
        self._writer.close()
        return FileState(self._spool.stat().st_size, rows, 0)

    def swap_in(self) -> int:
        """Put the file."""
        identity = self._target.put(self._spool)
        self._spool.unlink()
        self._is_checked = True
        return identity

    def close(self) -> None:
        """Compare the object again before the next write."""
        self._writer.close()
        self._is_checked = False


class _FolderTarget:
    """A file of any file system, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_size, status.st_ino

    def put(self, file: Path) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, open_replacement(self._path) as stream:
            shutil.copyfileobj(source, stream)
        return self._path.stat().st_ino


class _StoreTarget:
    """An object of a bucket. Its credentials and its endpoint come from the environment."""

    def __init__(self, url: str) -> None:
        self._bucket = Bucket(url)

    def find(self) -> tuple[int, int] | None:
        found = self._bucket.head(self._bucket.path)
        return None if found is None else (int(found["size"]), _identity_of(found))

    def put(self, file: Path) -> int:
        return _identity_of(self._bucket.put(self._bucket.path, file))


def create_object_writer(output: Output, folder: Path, create: Callable[[Output], Writer]) -> ObjectWriter:
    """The writer of an output whose path is a URL. `create`: the writer of its file. `folder`: that of the run.

    Raises UsageError if a library is not installed.
    """
    spool = folder / _SPOOL / f"{output.id}-{os.path.basename(output.path)}"  # noqa: PTH119 - of a URL
    path = local_path_of(output.path)
    target = _StoreTarget(output.path) if path is None else _FolderTarget(path)
    return ObjectWriter(target, create(replace(output, path=str(spool))), spool)


def _identity_of(found: Any) -> int:
    """A number for the entity tag."""
    tag = str(found["e_tag"] or "")
    return int.from_bytes(hashlib.blake2b(tag.encode(), digest_size=6).digest())
