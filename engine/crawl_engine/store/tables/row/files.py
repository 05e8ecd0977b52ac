"""Writes the table `files`: what jobs of the kind `file` downloaded, and what browsers made of pages."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from crawl_engine.model.file import NO_ANSWER, AnswerNote, StoredFile
from crawl_engine.model.job import file_key
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Commit, JobOutcome, Served

_ADD = "INSERT INTO files (run, job, path, size, hash, type, key, at, validators) {values}"
_FILE = 'f.path AS "file.path", f.size AS "file.size", f.hash AS "file.hash", f.type AS "file.type"'
_EARLIER = f"SELECT r.id AS run, f.at, f.validators, {_FILE} FROM files f JOIN runs r ON r.seq = f.run"
# a file that this run has is asked for again as if no run had it
_EARLIER_OF_KEY = f"""
{_EARLIER} WHERE f.key = :key AND f.run < :run
    AND NOT EXISTS (SELECT 1 FROM files own WHERE own.key = :key AND own.run = :run) ORDER BY f.id DESC LIMIT 1
"""
# in the order of the index: one content may have many files
_EARLIER_OF_HASH = f"{_EARLIER} WHERE f.hash = ? AND f.run < ? ORDER BY f.run DESC, f.id DESC LIMIT 1"
# the newest of a job counts, and only while the job is DONE
_OF_JOBS = """
SELECT f.job, j.url, f.validators, f.path, f.size, f.hash, f.type FROM json_each(?) i
CROSS JOIN jobs j ON j.id = i.value AND j.state = 'DONE' CROSS JOIN files f ON f.job = j.id ORDER BY f.id
"""
_LIST = """
SELECT f.path, f.size, f.job, j.url FROM (
    SELECT max(id) AS id FROM files WHERE run = ? AND path > ? GROUP BY path ORDER BY path LIMIT +?
) n JOIN files f ON f.id = n.id JOIN jobs j ON j.id = f.job ORDER BY f.path
"""
_UNNEEDED = """
SELECT f.id, r.id AS run, f.path FROM files f JOIN runs r ON r.seq = f.run
WHERE f.run IN (SELECT value FROM json_each(?1)) AND NOT EXISTS (
    SELECT 1 FROM files k JOIN runs n ON n.seq = k.run
    WHERE k.hash = f.hash AND k.run NOT IN (SELECT value FROM json_each(?1)))
ORDER BY f.id
"""
_DELETE = "DELETE FROM files WHERE id IN (SELECT value FROM json_each(?))"
_PATHS = "SELECT DISTINCT path FROM files WHERE run = ?"


class UnneededFile(NamedTuple):
    """A file whose content no kept run has."""

    id: int
    run: str
    """The id of its run."""
    path: str


class RecordedFile(NamedTuple):
    """A file as it was downloaded, the newest job that did so, and its URL."""

    path: str
    size: int
    job: int
    url: str


class DownloadedFile(Served):
    """What a job of the kind FILE downloaded, or a browser made of a page."""

    file: StoredFile
    at: float = 0.0
    """The Unix second in which its site last sent it, or said that it is unchanged."""
    answer: AnswerNote = NO_ANSWER
    made_of: str = ""
    """What a browser made of the page of a job, such as `screenshot`; empty: the job downloaded it."""

    def key_for(self, url: str) -> bytes:
        """By which it is found as the file of a URL."""
        return file_key(f"{self.made_of}:{url}" if self.made_of else url)


class EarlierFile(NamedTuple):
    """A file that an earlier run downloaded."""

    run: str
    """The id of that run."""
    at: float
    """As in `DownloadedFile`."""
    validators: str
    """An `AnswerNote`."""
    file: StoredFile


def write(commit: Commit, made: Sequence[tuple[JobOutcome, DownloadedFile]]) -> None:
    """Record what jobs downloaded."""
    commit.db.execute_values(
        _ADD,
        [
            (
                commit.run, outcome.job.id, new.file.path, new.file.size, new.file.hash, new.file.type,
                new.key_for(outcome.job.url), new.at, new.answer.to_text(),
            )
            for outcome, new in made
        ],
    )  # fmt: skip


def list_values(db: Database, jobs: Iterable[int]) -> dict[int, dict[str, Any]]:
    """By job: the value of a field that names what it downloaded; those that are not DONE are left out."""
    values = {}
    for job, url, note, path, size, hash_, type_ in db.all(_OF_JOBS, (id_list(jobs),)):
        values[int(job)] = StoredFile(path, size, hash_, type_, AnswerNote.from_text(note).name).to_value(url)
    return values


def find_path(db: Database, run: int, digest: str) -> str | None:
    """Where a run has a file with that content; None: nowhere."""
    return db.value("SELECT path FROM files WHERE run = ? AND hash = ? ORDER BY id LIMIT 1", (run, digest))


def find_earlier(db: Database, run: int, url: str) -> EarlierFile | None:
    """The newest file that a run before this one had at this URL; None if this run has one."""
    return db.row(EarlierFile, _EARLIER_OF_KEY, {"key": file_key(url), "run": run})


def find_equal(db: Database, run: int, digest: str) -> EarlierFile | None:
    """The newest file with that content of a run before this one."""
    return db.row(EarlierFile, _EARLIER_OF_HASH, (digest, run))


def list_recorded(db: Database, run: int, after: str, limit: int) -> list[RecordedFile]:
    """The files of a run in order of their paths, each once."""
    return db.rows(RecordedFile, _LIST, (run, after, limit))


def iterate_unneeded(db: Database, runs: Iterable[int]) -> Iterator[UnneededFile]:
    """The files of these runs whose content no other run has."""
    return db.iterate(UnneededFile, _UNNEEDED, (id_list(runs),))


def delete(db: Database, ids: Iterable[int]) -> None:
    """Forget files, before they are deleted."""
    db.execute(_DELETE, (id_list(ids),))


def list_paths(db: Database, run: int) -> set[str]:
    """The paths of all files of a run."""
    return {str(row[0]) for row in db.all(_PATHS, (run,))}
