"""Rows and their counts: written with the job that made them, followed by id. Writes `rows` and `row_counts`."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.store.connector import Database

_ADD = "INSERT INTO rows (run, job, data_def, data) {values}"
_COUNT = """
INSERT INTO row_counts (run, data_def, rows, rejected) VALUES (?, ?, ?, ?)
ON CONFLICT (run, data_def) DO UPDATE SET rows = rows + excluded.rows, rejected = rejected + excluded.rejected
"""
_AFTER = "SELECT id, data_def, data FROM rows WHERE id > ? AND run = ? ORDER BY id LIMIT ?"
_ACROSS = "SELECT id, run, data_def, data FROM rows WHERE id > ? ORDER BY id LIMIT ?"
_LAST = "SELECT id FROM rows WHERE run = ? ORDER BY id DESC LIMIT 1"
_NEWEST = "SELECT max(id) FROM rows"
_BETWEEN = "SELECT count(*) FROM rows WHERE id > ? AND id <= ? AND run = ?"
_OF = """
SELECT r.id, r.data FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.run = ? AND d.name = ? AND r.id > ? ORDER BY r.id LIMIT ?
"""
_COUNTS = "SELECT data_def, rows, rejected FROM row_counts WHERE run = ? ORDER BY data_def"
_REMOVE = "DELETE FROM rows WHERE job = ? RETURNING id, data_def"
_OF_JOBS = """
SELECT d.name, min(r.id), count(*) FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value
JOIN data_defs d ON d.id = r.data_def GROUP BY 1
"""
_REMOVE_ALL = "DELETE FROM rows WHERE job IN (SELECT value FROM json_each(?))"
_OF_JOB = """
SELECT r.id, d.name, r.data FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE r.job = ? ORDER BY r.id LIMIT ?
"""
_NAMES = "SELECT id, name FROM data_defs"


class NewRow(NamedTuple):
    """A row to be written: the id of its dataDef (store.versions) and its JSON object."""

    job: int
    data_def: int
    data: str


def add(db: Database, run: int, rows: Sequence[NewRow]) -> None:
    """Append rows."""
    db.each(_ADD, [(run, *row) for row in rows])


def count(db: Database, run: int, data_def: str, rows: int, rejected: int) -> None:
    """Add to the counts of a dataDef."""
    db.execute(_COUNT, (run, data_def, rows, rejected))


def after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, int, str]]:
    """The next rows of a run in order of id: id, id of the dataDef, JSON."""
    return db.all(_AFTER, (cursor, run, limit))


def across(db: Database, cursor: int, limit: int) -> list[tuple[int, int, int, str]]:
    """The next rows of any run in order of id, which is also that of their runs: id, run, id of the dataDef, JSON."""
    return db.all(_ACROSS, (cursor, limit))


def last(db: Database, run: int) -> int:
    """The id of a run's newest row; 0: none."""
    return int(db.value(_LAST, (run,)) or 0)


def newest(db: Database) -> int:
    """The id of the newest row of any run; 0: none. One look at the end of the table."""
    return int(db.value(_NEWEST) or 0)


def between(db: Database, run: int, after: int, upto: int) -> int:
    """How many rows of a run have an id above `after` and not above `upto`."""
    return int(db.value(_BETWEEN, (after, upto, run)))


def of_data_def(db: Database, run: int, data_def: str, cursor: int, limit: int) -> list[tuple[int, str]]:
    """The next rows of one dataDef, whatever version of it made them: id, JSON."""
    return db.all(_OF, (run, data_def, cursor, limit))


def counts(db: Database, run: int) -> dict[str, tuple[int, int]]:
    """By dataDef: rows, records rejected."""
    return {str(name): (int(rows), int(rejected)) for name, rows, rejected in db.all(_COUNTS, (run,))}


def remove(db: Database, job: int) -> list[tuple[int, int]]:
    """Delete the rows of a job; returns id and dataDef id of each."""
    return db.all(_REMOVE, (job,))


def take_back(db: Database, run: int, jobs: Sequence[int]) -> dict[str, int]:
    """Delete the rows of jobs that ended, and count them no more; returns the first row's id by dataDef."""
    listed = "[" + ",".join(map(str, jobs)) + "]"
    found = {str(name): (int(first), int(made)) for name, first, made in db.all(_OF_JOBS, (listed,))}
    if found:
        db.execute(_REMOVE_ALL, (listed,))
    for name, (_, made) in found.items():
        count(db, run, name, -made, 0)
    return {name: first for name, (first, _) in found.items()}


def of_job(db: Database, job: int, limit: int) -> list[tuple[int, str, str]]:
    """Rows one job made: id, dataDef, JSON."""
    return db.all(_OF_JOB, (job, limit))


def data_def_names(db: Database) -> dict[int, str]:
    """Name of each dataDef id that rows may carry."""
    return {int(id_): str(name) for id_, name in db.all(_NAMES)}
