"""Reads the rows and documents of a run with their groups and digests, to compare them with the sums."""

from typing import NamedTuple

from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.row.content_sums import ContentSum

# as a blob: what was damaged need not be UTF-8. LEFT JOIN: a row whose job is gone is in the files, too
_ROWS = """
SELECT r.id, r.job, coalesce(s.grp, '') AS "group", d.name AS data_def, r.digest, CAST(r.data AS BLOB) AS data
FROM rows r LEFT JOIN jobs j ON j.id = r.job LEFT JOIN sequences s ON s.id = j.sequence
JOIN data_defs d ON d.id = r.data_def
WHERE r.id > ? AND r.run = ? ORDER BY r.id LIMIT +?
"""
# CROSS JOIN: a range of ids is read once; without it, the planner may start with another table
_DOCUMENTS = """
SELECT j.id AS job, s.grp AS "group", s.kind, j.url AS requested_url, j.state = 'DONE' AS is_done, d.id, d.url,
    d.status, d.digest, coalesce(d.pruned, CASE WHEN j.document IS NULL THEN 1 ELSE 0 END) AS is_pruned
FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence LEFT JOIN documents d ON d.id = j.document
WHERE j.id > ? AND j.id < ? AND +j.run = ? AND (j.document IS NOT NULL OR (j.state = 'DONE' AND s.kind = 'page'))
ORDER BY j.id LIMIT +?
"""
_ROW_DIGESTS = """
SELECT s.grp, r.digest FROM rows r CROSS JOIN jobs j ON j.id = r.job CROSS JOIN sequences s ON s.id = j.sequence
WHERE r.id >= ? AND r.id < ? AND r.run = ?
"""
_DOCUMENT_DIGESTS = """
SELECT s.grp, d.digest FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence
CROSS JOIN documents d ON d.id = j.document WHERE j.id >= ? AND j.id < ? AND +j.run = ?
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
    kind: str
    requested_url: str
    is_done: int
    id: int | None
    url: str | None
    """After redirects."""
    status: int | None
    digest: bytes | None
    is_pruned: int
    """1: its body was deleted on purpose, or the job has no document."""


def list_rows(db: Database, run: int, after: int, limit: int) -> list[ContentRow]:
    """The next rows of a run in order of id."""
    return db.rows(ContentRow, _ROWS, (after, run, limit))


def list_documents(db: Database, run: int, after: int, end: int, limit: int) -> list[JobDocument]:
    """The next jobs of a run that have a document, or should have one, in order of id."""
    return db.rows(JobDocument, _DOCUMENTS, (after, end, run, limit))


def sum_contents(db: Database, run: int) -> dict[str, ContentSum]:
    """By group: the sums of the stored digests, read again from every row and document of a run."""
    sums: dict[str, ContentSum] = {}
    for group, digest in db.execute(_ROW_DIGESTS, (*find_ids(db, run, "rows"), run)):
        sums.setdefault(group, ContentSum()).add_row(digest)
    for group, digest in db.execute(_DOCUMENT_DIGESTS, (*find_ids(db, run), run)):
        sums.setdefault(group, ContentSum()).add_document(digest)
    return sums
