"""Chooses the runs whose downloaded files limits no longer allow, and deletes what no other run needs."""

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from crawl_engine.model.file import FILES_FOLDER
from crawl_engine.model.run import Limits
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.history import PastRun, list_prunable, list_runs
from crawl_engine.store.tables.row import files

_BATCH = 500
"""Files of one transaction."""


class FileChoice(Struct, frozen=True):
    """The runs to prune, the oldest first."""

    runs: tuple[PastRun, ...]
    files: int
    """How many names of files go."""
    bytes: int
    """What they free: a file with several names is free once the last one goes."""
    left: int
    """What the files of all runs take afterwards."""


def choose_files(db: Database, data: Path, limits: Limits) -> FileChoice:
    """The runs beyond limits that have files no other run needs. The unfinished run and the last DONE one stay.

    `limits`: the age and number are those of runs, `max_bytes` counts the files of all runs. Raises OSError.
    """
    total, now = _measure_all(data), time.time()
    newest_first = list_runs(db)
    chosen = list_prunable(newest_first)
    if limits.older_than is not None:
        chosen = [run for run in chosen if now - run.created_at > limits.older_than]
    if limits.keep is not None:
        newest = {run.seq for run in newest_first[: limits.keep]}
        chosen = [run for run in chosen if run.seq not in newest]

    def measure(count: int) -> FileChoice:
        return _measure(db, data, tuple(chosen[:count]), total)

    if (max_bytes := limits.max_bytes) is None:
        return measure(len(chosen))
    return measure(bisect_left(range(len(chosen)), x=True, key=lambda count: measure(count).left <= max_bytes))


def prune_files(db: Database, data: Path, choice: FileChoice) -> Iterator[int]:
    """Delete files that no other run needs; yields after each batch how many. Raises OSError, DatabaseBusy.

    Only while no crawl runs. A file is forgotten before it is deleted; after a kill in between, the next call for its
    run deletes it, since no run has it in its list.
    """
    ids = [unneeded.id for unneeded in files.iterate_unneeded(db, [run.seq for run in choice.runs])]
    for start in range(0, len(ids), _BATCH):
        with db.transaction():
            files.delete(db, ids[start : start + _BATCH])
    for run in choice.runs:
        folder, listed = FileFolder(data, run.id), files.list_paths(db, run.seq)
        folder.remove_parts()
        unlisted = [path for path in _list_files(folder.path) if f"{FILES_FOLDER}/{path.name}" not in listed]
        for start in range(0, len(unlisted), _BATCH):
            batch = unlisted[start : start + _BATCH]
            for path in batch:
                path.unlink(missing_ok=True)
            yield len(batch)


def _measure(db: Database, data: Path, chosen: tuple[PastRun, ...], total: int) -> FileChoice:
    """Count the files of the chosen runs that no other run has, and those that no run has in its list."""
    unneeded = {(one.run, one.path) for one in files.iterate_unneeded(db, [run.seq for run in chosen])}
    going: list[Path] = []
    for run in chosen:
        listed = files.list_paths(db, run.seq)
        for path in _list_files(FileFolder(data, run.id).path):
            name = f"{FILES_FOLDER}/{path.name}"
            if (run.id, name) in unneeded or name not in listed:
                going.append(path)
    freed = _freed_bytes(going)
    return FileChoice(chosen, len(going), freed, total - freed)


def _freed_bytes(going: Iterable[Path]) -> int:
    """What is free once these names are gone."""
    names: Counter[tuple[int, int]] = Counter()
    freed = 0
    for path in going:
        status = path.stat()
        names[status.st_dev, status.st_ino] += 1
        if names[status.st_dev, status.st_ino] == status.st_nlink:
            freed += status.st_size
    return freed


def _measure_all(data: Path) -> int:
    """The bytes of the files of all runs; one with several names counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder in (data / "output").glob(f"*/{FILES_FOLDER}"):
        if not folder.parent.is_symlink():
            for path in _list_files(folder):
                status = path.stat()
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def _list_files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
