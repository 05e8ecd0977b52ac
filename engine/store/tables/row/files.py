"""Writes the table `files`: what jobs of the kind `file` downloaded."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.model.file import StoredFile
from engine.store.db.connector import Database, id_list
from engine.store.tables.outcome import Commit, JobOutcome, Served

_ADD = "INSERT INTO files (run, job, path, size, hash, type) {values}"
# the newest of a job counts, and only while the job is DONE
_OF_JOBS = """
SELECT f.job, f.path, f.size, f.hash, f.type FROM json_each(?) i
CROSS JOIN jobs j ON j.id = i.value AND j.state = 'DONE' CROSS JOIN files f ON f.job = j.id ORDER BY f.id
"""
# the other columns are those of the row with max()
_LIST = """
SELECT f.path, f.size, f.job, j.url, max(f.id) FROM files f JOIN jobs j ON j.id = f.job
WHERE f.run = ? AND f.path > ? GROUP BY f.path ORDER BY f.path LIMIT +?
"""


class RecordedFile(NamedTuple):
    """A file as it was downloaded, the newest job that did so, and its URL."""

    path: str
    size: int
    job: int
    url: str


class DownloadedFile(Served):
    """What a job of the kind FILE downloaded."""

    file: StoredFile


def write(commit: Commit, made: Sequence[tuple[JobOutcome, DownloadedFile]]) -> None:
    """Record what jobs downloaded."""
    values = [(outcome.job.id, download.file) for outcome, download in made]
    commit.db.execute_values(_ADD, [(commit.run, job, f.path, f.size, f.hash, f.type) for job, f in values])


def list_of_jobs(db: Database, jobs: Iterable[int]) -> dict[int, StoredFile]:
    """By job: what it downloaded; those that are not DONE are left out."""
    return {int(job): StoredFile(*file) for job, *file in db.all(_OF_JOBS, (id_list(jobs),))}


def find_path(db: Database, run: int, digest: str) -> str | None:
    """Where a run has a file with that content; None: nowhere."""
    path = db.value("SELECT path FROM files WHERE run = ? AND hash = ? ORDER BY id LIMIT 1", (run, digest))
    return None if path is None else str(path)


def list_recorded(db: Database, run: int, after: str, limit: int) -> list[RecordedFile]:
    """The files of a run in order of their paths, each once."""
    return [RecordedFile(*row[:-1]) for row in db.all(_LIST, (run, after, limit))]
