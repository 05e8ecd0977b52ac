"""Chooses the runs that the limits of a data dir no longer allow, the oldest first."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from crawl_engine.model.run import Limits
from crawl_engine.store.db.connector import Database, connect_for_reading
from crawl_engine.store.db.schema import CRAWL, PAGES
from crawl_engine.store.read.history import PastRun, list_prunable, list_runs

_LOGS = ("-wal", "-shm")
"""Files beside a database: they come and go, and are not counted."""
_ENTRIES = 1_000
"""Files of one step of a measurement."""


class RunSize(Struct, frozen=True):
    """A run, and about how many bytes it takes without its documents."""

    past: PastRun
    bytes: int


def choose_runs(db: Database, data: Path, limits: Limits, now: float, *, last_done: int | None = None) -> list[RunSize]:
    """The runs to delete, the oldest first. `last_done`: as in `list_prunable`."""
    past_runs = list_runs(db)
    newest = {past.seq for past in past_runs[: limits.keep]} if limits.keep is not None else set()
    excess = 0 if limits.max_bytes is None else measure_bytes(data) - limits.max_bytes
    share = _bytes_per_record(db, past_runs)
    chosen = []
    for past in list_prunable(past_runs, last_done):
        is_old = limits.older_than is not None and now - past.created_at > limits.older_than
        is_surplus = limits.keep is not None and past.seq not in newest
        if is_old or is_surplus or excess > 0:
            size = _measure_run(data, past, share)
            chosen.append(size)
            excess -= size.bytes
    return chosen


def measure_runs(db: Database, data: Path, chosen: Iterable[PastRun]) -> list[RunSize]:
    """About how many bytes runs take: their output folders, and their shares of crawl.db by pages and rows."""
    share = _bytes_per_record(db, list_runs(db))
    return [_measure_run(data, past, share) for past in chosen]


def _measure_run(data: Path, past: PastRun, share: float) -> RunSize:
    return RunSize(past, sum(_walk(data / "output" / past.id, set())) + int(share * _count_records(past)))


def _bytes_per_record(db: Database, past_runs: Iterable[PastRun]) -> float:
    """The bytes of crawl.db for a page or row."""
    total = sum(map(_count_records, past_runs))
    return db.used_bytes / total if total else 0.0


def _count_records(past: PastRun) -> int:
    return past.done + past.failed + past.rows


def measure_bytes(data: Path) -> int:
    """The bytes of a data dir: all its files, without write-ahead logs and what is free in the databases."""
    return sum(iterate_bytes(data))


def iterate_bytes(data: Path) -> Iterator[int]:
    """The parts of `measure_bytes`, one after some files each."""
    seen = set[tuple[int, int]]()
    yield from _walk(data, seen)
    if (data / "output").is_symlink():
        yield from _walk(data / "output", seen)
    for name in (CRAWL, PAGES):
        if (data / name).exists():
            db = connect_for_reading(data / name)
            try:
                yield db.used_bytes
            finally:
                db.close()


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[int]:
    """The bytes of the files in a folder, one part after some files each; a file with several names counts once."""
    total, count, root = 0, 0, str(folder)
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(_LOGS) or (path == root and name in (CRAWL, PAGES)):
                continue
            try:
                status = os.stat(os.path.join(path, name))  # noqa: PTH116, PTH118 - much faster
            except OSError:
                continue
            if status.st_nlink == 1 or (status.st_dev, status.st_ino) not in seen:
                total += status.st_size
            if status.st_nlink > 1:
                seen.add((status.st_dev, status.st_ino))
            count += 1
            if count % _ENTRIES == 0:
                yield total
                total = 0
    yield total
