"""Unpacks compressed and archived documents, in memory and in extraction processes alone."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from io import BytesIO
from typing import IO, Any, NamedTuple

from crawl_engine.errors import plural, quote_text
from crawl_engine.extract.documents.document_types import DocumentTooLarge, DocumentUnreadable, is_tar

MAX_MEMBERS = 100_000
_STEP = 1_000_000
_LARGEST_WINDOW = 1 << 27
"""Bytes that a frame of zstd may make us allocate: the most that its program reads without being told."""
_IGNORED = ("__MACOSX/", ".")
"""What archivers add: the beginnings of their names."""
_SHOWN = 3
_DAMAGED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, KeyError)


class Member(NamedTuple):
    """A file in an archive, or what a compressed file holds."""

    name: str
    """As it is written there; it never becomes a path."""
    read: Callable[[], bytes]
    """Raises DocumentUnreadable."""


class UnpackedFiles(NamedTuple):
    members: list[Member]

    def find(self, pattern: str) -> list[Member]:
        """The members whose name, or its last part, matches a pattern with `*` and `?`."""
        return [
            one
            for one in self.members
            if fnmatchcase(one.name, pattern) or fnmatchcase(one.name.rpartition("/")[2], pattern)
        ]

    def describe(self) -> str:
        """What it holds: `3 files, such as a.csv, b.csv`."""
        names = ", ".join(quote_text(one.name) for one in self.members[:_SHOWN])
        return f"{plural(len(self.members), 'file')}{', such as ' + names if names else ''}"


def unpack(body: bytes, name: str) -> UnpackedFiles:
    """What a body holds; `name`: of its file, such as `feed.csv.gz`.

    Raises DocumentUnreadable, and DocumentTooLarge for more than `MAX_MEMBERS` files.
    """
    opened = next((reader for start, reader in _COMPRESSED.items() if body.startswith(start)), None)
    if opened is not None:
        content = _read_all(lambda: opened(BytesIO(body)))
        inner = name.rpartition(".")[0] if name.rpartition(".")[2].lower() in _SUFFIXES else name
        if not is_tar(content):
            return UnpackedFiles([Member(inner, lambda: content)])
        body = content
    try:
        return UnpackedFiles(list(_list_tar(body) if is_tar(body) else _list_zip(body)))
    except _DAMAGED as error:
        raise DocumentUnreadable(f"is damaged: {error}") from error


def _open_zstd(file: IO[bytes]) -> Any:
    import zstandard  # few pages need it

    reader = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    content, left = BytesIO(), file.read()
    while left:
        frame = reader.decompressobj()
        for at in range(0, len(left), _STEP):
            try:
                content.write(frame.decompress(left[at : at + _STEP]))
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            if frame.eof:
                left = frame.unused_data + left[at + _STEP :]
                break
        else:
            raise EOFError("it ends too early")
    content.seek(0)
    return content


_COMPRESSED: Mapping[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}
"""By the first bytes, what reads it."""
_SUFFIXES = frozenset({"gz", "bz2", "xz", "zst", "tgz"})


def _read_all(open_: Callable[[], Any]) -> bytes:
    """The whole of what it opens. The memory of the process bounds it. Raises DocumentUnreadable."""
    content = BytesIO()
    try:
        with open_() as reader:
            while piece := reader.read(_STEP):
                content.write(piece)
    except _DAMAGED as error:
        raise DocumentUnreadable(f"is damaged: {error}") from error
    except RuntimeError as error:  # of zipfile
        raise DocumentUnreadable("is encrypted" if "encrypted" in str(error) else str(error)) from error
    return content.getvalue()


def _list_zip(body: bytes) -> Iterator[Member]:
    archive = zipfile.ZipFile(BytesIO(body))
    for entry in _limited(archive.infolist()):
        if not entry.is_dir() and _is_wanted(entry.filename):
            yield Member(entry.filename, lambda entry=entry: _read_all(lambda: archive.open(entry)))  # type: ignore[misc]


def _list_tar(body: bytes) -> Iterator[Member]:
    archive = tarfile.open(fileobj=BytesIO(body), mode="r:")  # noqa: SIM115  # members are read later
    for entry in _limited(archive):
        if entry.isfile() and _is_wanted(entry.name):
            yield Member(entry.name, lambda entry=entry: _read_all(lambda: archive.extractfile(entry)))  # type: ignore[misc]


def _limited(entries: Any) -> Iterator[Any]:
    for number, entry in enumerate(entries):
        if number >= MAX_MEMBERS:
            raise DocumentTooLarge(f"the archive has more than {MAX_MEMBERS:,} files")
        yield entry


def _is_wanted(name: str) -> bool:
    return not name.startswith(_IGNORED[0]) and not name.rpartition("/")[2].startswith(_IGNORED[1])
