"""Copies a data dir while a crawl writes it; a crawl of the copy resumes where the copy was made.

What refers to something is copied before that: crawl.db, then pages.db, then files. The name of crawl.db appears last:
what a kill leaves has no run. Left out is what a start makes: doorbells, heartbeats, locks, keys.
"""

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawl_engine.append.formats.file_writer import fsync_dir
from crawl_engine.errors import StorageError, UsageError
from crawl_engine.runtime.disk_space import is_full
from crawl_engine.store.db.connector import Database, DatabaseBusy, is_immutable
from crawl_engine.store.db.schema import CRAWL, PAGES
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import nodes, runs, supervisors
from crawl_engine.store.transactions import delete_run

_LEFT_OUT = (CRAWL, PAGES, "queue.db", "keys.db", "supervisor.lock", "hosts.clock", "beats", "serve")
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")
_OUTPUT = "output"
_PARTIAL = f"{CRAWL}.partial"
_PIECE_BYTES = 1 << 20
_MAGIC_BYTES = 16
_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BackupResult(Struct, frozen=True):
    run: str
    state: str
    files: int
    bytes: int


def back_up(crawl: Database, target: Path, on_file: Callable[[int], None]) -> BackupResult:
    """Copy the data dir of an open database. `on_file` is called with 1 for each file.

    Raises UsageError for an unusable target, StorageError and OSError; no backup is left then.
    """
    data = crawl.path.parent
    if not isinstance(crawl, SqliteDatabase):
        raise UsageError(f"{data}: its store is in PostgreSQL", "Copy it with pg_dump, and data/output with cp.")
    is_new = _check_target(data, target)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        target.chmod(0o700)
        return _Copy(data, target, on_file).make(crawl)
    except BaseException as error:
        _empty(target)
        if is_new:
            with contextlib.suppress(OSError):
                target.rmdir()
        is_out_of_space = isinstance(error, OSError) and error.errno in _NO_SPACE
        if is_out_of_space or (isinstance(error, DatabaseBusy) and is_full(target.parent)):
            raise StorageError(
                f"{target}: the disk is full; no backup is left there", "Free some space, or name another folder."
            ) from error
        raise


class _Copy:
    """One copy in the making."""

    def __init__(self, data: Path, target: Path, on_file: Callable[[int], None]) -> None:
        self._data = data
        self._target = target
        self._on_file = on_file
        self._copied: dict[tuple[int, int], Path] = {}
        """The copy of each file with several names."""
        self._files = self._bytes = 0
        self._unfinished = ""
        """The id of the unfinished run; empty: there is none."""

    def make(self, crawl: SqliteDatabase) -> BackupResult:
        partial = self._target / _PARTIAL
        self._copy_database(crawl, partial)
        if (self._data / PAGES).exists():
            path = self._data / PAGES
            with contextlib.closing(SqliteDatabase.open(path, read_only=True, immutable=is_immutable(path))) as pages:
                self._copy_database(pages, self._target / PAGES)
        run = self._detach(partial)
        for path in sorted(self._data.iterdir()):
            if not path.name.startswith((*_LEFT_OUT, ".")):
                self._copy(path, self._target / path.name, follow=True)
        self._delete_runs(crawl, partial)
        os.sync()
        partial.rename(self._target / CRAWL)
        fsync_dir(self._target)
        return BackupResult(run.id, run.state, self._files, self._bytes)

    def _detach(self, partial: Path) -> runs.Run:
        """Let the copy know no process of this machine: a start of it would kill those of the original."""
        with contextlib.closing(SqliteDatabase.open(partial)) as copy:
            run = runs.latest(copy)
            assert run is not None, "the command has found one"
            current, unfinished = supervisors.current(copy), runs.latest_unfinished(copy)
            lost: list[int] = []
            if (self._target / PAGES).exists():
                with contextlib.closing(PageStore(self._target)) as pages:
                    lost = pages.list_lost(copy)
            with copy.transaction():
                if current is not None:
                    supervisors.end(copy, current.epoch, time.time())
                supervisors.set_helpers(copy, [])
                nodes.forget_processes(copy)
                if unfinished is not None:
                    outputs.forget_files(copy, unfinished.seq)
                documents.mark_pruned(copy, lost)
            self._unfinished = "" if unfinished is None else unfinished.id
        return run

    def _delete_runs(self, crawl: Database, partial: Path) -> None:
        """Delete the runs whose files were deleted before they were copied; the next start deletes their rows."""
        left = set(runs.list_ids(crawl))
        with contextlib.closing(SqliteDatabase.open(partial)) as copy:
            for run in runs.list_ids(copy):
                if run not in left and (gone := runs.get_by_id(copy, run)) is not None:
                    delete_run.begin(copy, gone.seq)

    def _copy(self, source: Path, target: Path, *, follow: bool = False) -> None:
        """Copy a file, link or folder; what is gone meanwhile, or of another kind, is left out."""
        try:
            status = source.stat() if follow else source.lstat()
            if stat.S_ISLNK(status.st_mode):
                target.symlink_to(source.readlink())
            elif stat.S_ISDIR(status.st_mode):
                target.mkdir(mode=0o700)
                for path in sorted(source.iterdir()):
                    if not path.name.startswith("."):  # locks, and files that are not complete yet
                        self._copy(path, target / path.name)
            elif stat.S_ISREG(status.st_mode):
                self._copy_file(source, target, status)
        except FileNotFoundError:
            return

    def _copy_file(self, source: Path, target: Path, status: os.stat_result) -> None:
        key = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and key in self._copied:
            os.link(self._copied[key], target)
            return
        with source.open("rb") as stream:
            magic = stream.read(_MAGIC_BYTES)
            is_database = magic == _SQLITE or magic[8:12] == _DUCKDB
            if is_database and source.parent.name == self._unfinished:
                return  # it may be ahead of the rows of this copy: a resumed run writes it again
            if magic == _SQLITE:
                with contextlib.closing(
                    SqliteDatabase.open(source, read_only=True, immutable=is_immutable(source))
                ) as db:
                    self._copy_database(db, target)
                return
            if source.name.endswith(_BESIDE_DATABASES) and source.with_name(source.name.rpartition("-")[0]).exists():
                return
            stream.seek(0)
            with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as copy:
                shutil.copyfileobj(stream, copy, _PIECE_BYTES)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        if status.st_nlink > 1:
            self._copied[key] = target
        self._count(target)

    def _copy_database(self, db: SqliteDatabase, target: Path) -> None:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        db.copy_to(target)
        self._count(target)

    def _count(self, target: Path) -> None:
        self._files += 1
        self._bytes += target.stat().st_size
        self._on_file(1)


def _check_target(data: Path, target: Path) -> bool:
    """Whether the target does not exist yet. Raises UsageError if it cannot take a backup."""
    real = target.resolve()
    for folder in (data, data / _OUTPUT):
        if real.is_relative_to(folder.resolve()):
            raise UsageError(f"{target}: inside the data directory {data}", "Name a folder elsewhere.")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target}: a file", "Name a new or empty folder.")
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target}: not empty; nothing was changed", "Name a new or empty folder.")
    return not target.exists()


def _empty(folder: Path) -> None:
    """Delete what is in a folder, the databases first."""
    with contextlib.suppress(OSError):
        (folder / CRAWL).unlink(missing_ok=True)
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)
