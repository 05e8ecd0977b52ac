"""Reads the rows and documents of a run with their groups and digests, to compare them with the sums."""

from typing import NamedTuple

from engine.store.db.connector import Database, id_list
from engine.store.read.job_range import find_first_id

# as a blob: what was damaged need not be UTF-8. LEFT JOIN: a row whose job is gone is in the files, too
_ROWS = """
SELECT r.id, r.job, coalesce(s.grp, ''), d.name, r.digest, CAST(r.data AS BLOB)
FROM rows r LEFT JOIN jobs j ON j.id = r.job LEFT JOIN sequences s ON s.id = j.sequence
JOIN data_defs d ON d.id = r.data_def
WHERE r.id > ? AND r.run = ? ORDER BY r.id LIMIT +?
"""
_LAST_ROW = "SELECT max(id) FROM rows"
_LAST_JOB = "SELECT max(id) FROM jobs"
# CROSS JOIN: a range of ids is read once; without it, the planner may start with another table
_DOCUMENTS = """
SELECT j.id, s.grp, j.state = 'DONE', d.id, d.url, d.status, d.digest, coalesce(d.pruned, j.document IS NULL)
FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence LEFT JOIN documents d ON d.id = j.document
WHERE j.id > ? AND j.id < ? AND +j.run = ? AND (j.document IS NOT NULL OR (j.state = 'DONE' AND s.kind = 'page'))
ORDER BY j.id LIMIT +?
"""
_MISCOUNTED_PAGES = """
SELECT job, (SELECT name FROM data_defs d WHERE d.id = data_def), expected - present FROM (
    SELECT j.id AS job, h.data_def, h.records - h.rejected AS expected,
        (SELECT count(*) FROM rows r WHERE r.job = j.id AND r.data_def = h.data_def) AS present
    FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN page_health h ON h.job = j.id
    WHERE j.id >= ? AND j.id < ? AND +j.run = ? AND j.state = 'DONE' AND s.grp = ?)
WHERE expected <> present
"""
_STILL_DONE = """
SELECT j.id FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN sequences s ON s.id = j.sequence
WHERE j.state = 'DONE' AND s.kind = 'page'
"""


class ContentRow(NamedTuple):
    """A row: its job, the job's group, the name of its dataDef, its stored digest, and its JSON in UTF-8."""

    id: int
    job: int
    group: str
    data_def: str
    digest: bytes | None
    data: bytes


class JobDocument(NamedTuple):
    """The document of a job. `id` is None where the table lacks it."""

    job: int
    group: str
    is_done: int
    id: int | None
    url: str | None
    status: int | None
    digest: bytes | None
    is_pruned: int
    """1: its body was deleted on purpose, or the job has no document."""


class MiscountedPage(NamedTuple):
    """A page whose rows of a dataDef are not as many as were counted."""

    job: int
    data_def: str
    lacks: int
    """Negative: it has more."""


class JobRange(NamedTuple):
    """The ids of a run's jobs: from the first up to, and without, the end."""

    first: int
    end: int


def first_row_id(db: Database, run: int) -> int:
    """The first id of a run's rows, or of a later run's."""
    return find_first_id(db, run, int(db.value(_LAST_ROW) or 0), table="rows")


def get_job_range(db: Database, run: int) -> JobRange:
    """Where the jobs of a run are."""
    last = int(db.value(_LAST_JOB) or 0)
    return JobRange(find_first_id(db, run, last), find_first_id(db, run + 1, last))


def list_rows(db: Database, run: int, after: int, limit: int) -> list[ContentRow]:
    """The next rows of a run in order of id."""
    return [ContentRow(*row) for row in db.all(_ROWS, (after, run, limit))]


def list_documents(db: Database, run: int, after: int, end: int, limit: int) -> list[JobDocument]:
    """The next jobs of a run that have a document, or should have one, in order of id."""
    return [JobDocument(*row) for row in db.all(_DOCUMENTS, (after, end, run, limit))]


def list_miscounted_pages(db: Database, run: int, group: str) -> list[MiscountedPage]:
    """The done pages that lack rows of a dataDef by the counts of their records, or have more."""
    first, end = get_job_range(db, run)
    return [MiscountedPage(*row) for row in db.all(_MISCOUNTED_PAGES, (first, end, run, group))]


def list_still_done(db: Database, jobs: list[int]) -> list[int]:
    """Those of these jobs that are done pages."""
    return [int(row[0]) for row in db.all(_STILL_DONE, (id_list(jobs),))]
