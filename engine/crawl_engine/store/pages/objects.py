"""Keeps large bodies as objects of a bucket or a shared folder; their pages say where they are."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from crawl_engine.errors import StorageError, UsageError
from crawl_engine.model.output_type import local_path_of
from crawl_engine.runtime.objects import Bucket, ObjectStoreFails
from crawl_engine.store.db.location import read_location
from crawl_engine.store.db.retry_busy import DatabaseBusy

MAX_ROW_BYTES = 16 * 1024
"""Larger frames are objects."""
_MARK = b"@"
"""The first byte of a place; a frame of zstd begins with another."""
_REQUEST_SECONDS = 8
"""Shorter than the time after which a node counts as stalled."""
_PROBE = ".crawl-console"


class BodyObjects:
    """The objects of a crawl. `url`: where new ones go; None: they stay in the table."""

    def __init__(self, url: str | None, crawl: Callable[[], str]) -> None:
        """`crawl`: what tells this crawl from others that use the same store."""
        self._url = url.rstrip("/") if url else None
        self._crawl = crawl
        self._folder = ""
        self._stores: dict[str, _Store] = {}

    def takes(self, frame: bytes | None) -> bool:
        """Whether a frame becomes an object; None: it is large."""
        return self._url is not None and (frame is None or len(frame) > MAX_ROW_BYTES)

    def place(self, page: int, digest: bytes) -> bytes:
        """What the row of a page has instead of its body.

        The id makes the object this page's alone: none that another page has just put is ever deleted.
        """
        name = digest.hex()
        self._folder = self._folder or f"{self._url}/{self._crawl()}"
        return _MARK + f"{self._folder}/{name[:2]}/{name}-{page}".encode()

    def is_place(self, frame: bytes) -> bool:
        """Whether the table has the place of an object instead of a frame."""
        return frame.startswith(_MARK)

    def put(self, objects: Sequence[tuple[bytes, bytes]]) -> None:
        """Put frames in their places, side by side. Raises DatabaseBusy if a store does not answer, StorageError."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(objects)) as pool:
            list(pool.map(lambda one: self._store_of(one[0]).put(_key_of(one[0]), one[1]), objects))

    def get(self, frame: bytes) -> bytes | None:
        """A frame that was read from the table, or its object; None if the object is missing."""
        return self._store_of(frame).get(_key_of(frame)) if self.is_place(frame) else frame

    def delete(self, places: Iterable[bytes]) -> None:
        """Delete objects, also those that were never put. Raises as `put` does."""
        by_store: defaultdict[_Store, list[str]] = defaultdict(list)
        for place in places:
            by_store[self._store_of(place)].append(_key_of(place))
        for store, keys in by_store.items():
            store.delete(keys)

    def _store_of(self, place: bytes) -> "_Store":
        url = place.decode().removeprefix(_MARK.decode()).rsplit("/", 3)[0]
        if url not in self._stores:
            self._stores[url] = _open(url)
        return self._stores[url]


def check_page_store(data: Path, url: str) -> None:
    """Raise UsageError if the data dir is not in PostgreSQL, or objects cannot be written, read and deleted."""
    if read_location(data) is None:
        raise UsageError(
            f"page_store: {url} is for a crawl in PostgreSQL, and this one is in files of its data directory",
            "Name a database with --store, or remove the setting page_store.",
        )
    key = f"{_PROBE}/{os.urandom(8).hex()}"
    try:
        store = _open(url.rstrip("/"))
        store.put(key, b"1")
        if store.get(key) != b"1":
            raise StorageError(f"{url}: an object that was written cannot be read", "")
        store.delete([key])
    except (StorageError, DatabaseBusy) as error:
        raise UsageError(f"page_store: {error.message}", "Check the setting page_store, and its store.") from None


def _key_of(place: bytes) -> str:
    """The part of a place behind the URL of the store: crawl, folder, name."""
    return "/".join(place.decode().rsplit("/", 3)[1:])


class _Store(ABC):
    """Methods raise DatabaseBusy if the store does not answer, StorageError if it refuses."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write an object durably, all or nothing."""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""

    @abstractmethod
    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""


class _FolderStore(_Store):
    """A folder that exists on every machine. It is never created: where it is not mounted, nothing is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, content: bytes) -> None:
        path = self._folder / key
        partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}.part")
        with self._translated():
            self._folder.stat()
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with partial.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    def get(self, key: str) -> bytes | None:
        with self._translated():
            self._folder.stat()
            try:
                return (self._folder / key).read_bytes()
            except FileNotFoundError:
                return None

    def delete(self, keys: Sequence[str]) -> None:
        with self._translated():
            self._folder.stat()
            for key in keys:
                (self._folder / key).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StorageError(f"{error.filename}: {error.strerror}", "Check its permissions.") from error
        except OSError as error:
            message = f"{error.filename or self._folder}: {error.strerror}"
            raise DatabaseBusy(message, "The folder of page_store must exist on every machine.") from error


class _BucketStore(_Store):
    """Objects below the path of a URL."""

    def __init__(self, url: str) -> None:
        self._bucket = Bucket(url, request_seconds=_REQUEST_SECONDS)

    def put(self, key: str, content: bytes) -> None:
        with _translated_failures():
            self._bucket.put(self._path(key), content)

    def get(self, key: str) -> bytes | None:
        with _translated_failures():
            return self._bucket.get(self._path(key))

    def delete(self, keys: Sequence[str]) -> None:
        with _translated_failures():
            self._bucket.delete([self._path(key) for key in keys])

    def _path(self, key: str) -> str:
        return f"{self._bucket.path}/{key}".lstrip("/")


@contextlib.contextmanager
def _translated_failures() -> Iterator[None]:
    try:
        yield
    except ObjectStoreFails as error:
        raise DatabaseBusy(error.message, "It is tried again; check the store.") from None


def _open(url: str) -> _Store:
    path = local_path_of(url)
    return _BucketStore(url) if path is None else _FolderStore(path)
