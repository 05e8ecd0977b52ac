"""Deletes runs whole: out of the list of runs, then rows, files and unused documents, in small steps.

The links `current` and `latest` lead to another run before the folder of theirs goes. After a kill at any point the
next call deletes the rest.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from crawl_engine.append.formats.file_writer import fsync_dir
from crawl_engine.append.loop.output_dir import CURRENT, LATEST, link_output
from crawl_engine.errors import StorageError
from crawl_engine.model.content_digest import key_digest
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.data_dir import has_store
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import deleted_runs, runs
from crawl_engine.store.transactions import delete_run, unused

_FILES = 500
"""Files of one step."""
_BUSY_SECONDS = 30.0


def delete_left(
    db: Database,
    data: Path,
    *,
    with_documents: bool,
    with_orphans: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Delete what is left of the runs whose deletion has begun; yields after each step how much it deleted.

    `with_documents`: no job is leased, and the lock of the data dir is held. Without it, unused documents stay for a
    later call. `with_orphans`: a call before may have been cut short between documents and their bodies.
    Raises StorageError, DatabaseBusy.
    """
    left = deleted_runs.list_open(db)
    for run in left:
        _release_links(db, data, run.id)
        yield from delete_run.delete_batches(db, run.seq, key_digest)
        yield from _delete_folder(data / "output" / run.id)
    if left and with_documents:
        if has_store(data, PAGES):
            with contextlib.closing(PageStore(data, busy_seconds=_BUSY_SECONDS)) as pages:
                yield from unused.delete_unused(db, pages, stop=stop)
                if with_orphans and not stop():
                    yield pages.delete_orphans(db)
        if not stop():
            for run in left:
                delete_run.complete(db, run.seq)


def _release_links(db: Database, data: Path, id_: str) -> None:
    """Point the links that lead to a run to another one; without another one, remove them."""
    output = data.absolute() / "output"
    with_folder = [run for run in runs.list_ids(db) if (output / run).is_dir()]
    done = [run for run in runs.list_done_ids(db) if run in with_folder]
    try:
        for name, targets in ((CURRENT, with_folder), (LATEST, done or with_folder)):
            link = output / name
            if not link.is_symlink() or link.readlink() != Path(id_):
                continue
            if targets:
                link_output(output, name, targets[0])
            else:
                link.unlink(missing_ok=True)
                fsync_dir(output)
    except OSError as error:
        raise _folder_error(output, error) from error


def _delete_folder(folder: Path) -> Iterator[int]:
    """Delete a folder with all that is in it; yields after some files."""
    deleted = 0
    try:
        if folder.is_symlink():
            folder.unlink()
        for path, folders, files in os.walk(folder, topdown=False):
            here = Path(path)
            for name in (*files, *(name for name in folders if (here / name).is_symlink())):
                (here / name).unlink(missing_ok=True)
                deleted += 1
                if deleted % _FILES == 0:
                    yield _FILES
            with contextlib.suppress(FileNotFoundError):
                here.rmdir()
    except OSError as error:
        raise _folder_error(folder, error) from error


def _folder_error(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{error.filename or folder}: {error.strerror}", "The run is deleted but for its files; run the command again."
    )
