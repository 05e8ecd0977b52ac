"""Writes the tables `held_rows` and `held_files`: rows that wait for files."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import orjson

from crawl_engine.model.content_digest import unique_keys
from crawl_engine.model.record import Texts
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Extracted

_JOBS = """
WITH r (run) AS (SELECT ?), k (identity) AS ({values})
SELECT j.identity, j.id FROM r CROSS JOIN k CROSS JOIN jobs j ON j.run = r.run AND j.identity = k.identity
"""
_ADD = "INSERT INTO held_rows (run, job, data_def, data, files, key) {values} RETURNING id, files"
_ADD_FILES = "INSERT INTO held_files (held, file) {values} ON CONFLICT DO NOTHING"
_WAITING_FOR = """
SELECT DISTINCT f.held FROM json_each(?) i CROSS JOIN held_files f ON f.file = i.value
"""
_IS_COMPLETE = """
NOT EXISTS (SELECT 1 FROM held_files f CROSS JOIN jobs j ON j.id = f.file
    WHERE f.held = h.id AND j.state IN ('READY', 'TAKEN', 'INCOMPLETE'))
"""
_COMPLETE_OF_RUN = f"SELECT h.id FROM held_rows h WHERE h.run = ? AND {_IS_COMPLETE} ORDER BY h.id LIMIT +?"
# CROSS JOIN: each row by its id, each of its files by theirs
_COMPLETE = f"""
SELECT h.id, h.job, h.data_def, d.name AS data_def_name, s.grp AS "group", h.data AS text, h.files, h.key
FROM json_each(?) i CROSS JOIN held_rows h ON h.id = i.value CROSS JOIN data_defs d ON d.id = h.data_def
CROSS JOIN jobs p ON p.id = h.job CROSS JOIN sequences s ON s.id = p.sequence
WHERE {_IS_COMPLETE} ORDER BY h.id
"""
_REPLACED = """
SELECT h.id, d.name FROM json_each(?) i CROSS JOIN held_rows h ON h.job = i.value JOIN data_defs d ON d.id = h.data_def
WHERE h.data_def NOT IN (SELECT value FROM json_each(?))
"""
_BATCH = 1_000


class HeldRows(Extracted):
    """Rows of a dataDef that wait for files, whose jobs are children; with its name and its id (tables.versions)."""

    data_def: str
    data_def_id: int
    texts: Texts
    """The rows as JSON objects, with URLs in the places of files."""
    places: Texts
    """Of each row a JSON list of pairs: the place of a file, as keys and indexes, and the file's number."""
    files: bytes
    """The identities of the page's files, one after another in the order of their numbers."""
    unique: tuple[str, ...] = ()
    """The fields of a key that counts once a run; empty: every row counts."""
    keys: Sequence[bytes | None] = ()
    """Of each row by these fields, a file by its URL; computed before the commit."""

    def prepare(self) -> None:
        if self.unique:
            with contextlib.suppress(ValueError):  # rows that cannot be read fail in the transaction
                self.keys = unique_keys(self.data_def, self.unique, self.texts)


class CompleteRow(NamedTuple):
    """A held row whose files have all ended, with its dataDef, and the group of its page."""

    id: int
    job: int
    data_def: int
    data_def_name: str
    group: str
    text: str
    files: list[tuple[list[str | int], int | None]]
    """Pairs of a place in the row, and the job of the file that belongs there."""
    key: bytes | None = None
    """Which counts once a run."""


class NewHeldRow(NamedTuple):
    """A row to hold: the job of its page, its dataDef, its JSON, and its files as pairs of place and identity."""

    job: int
    data_def: int
    text: str
    files: Sequence[tuple[list[str | int], bytes]]
    key: bytes | None = None


def add(db: Database, run: int, rows: Iterable[NewHeldRow]) -> list[int]:
    """Hold rows; returns their ids. Memory stays flat, however many there are.

    A file without a job ends at once, as if it had failed: the current defs lack the group of its page.
    """
    ids: list[int] = []
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH)):
        jobs = _find_jobs(db, run, {identity for row in batch for _, identity in row.files})
        values = [(run, row.job, row.data_def, row.text, _files_json(row, jobs), row.key) for row in batch]
        added = [(int(id_), orjson.loads(files)) for id_, files in db.execute_values(_ADD, values)]
        db.execute_values(_ADD_FILES, [(id_, job) for id_, files in added for _, job in files if job is not None])
        ids += [id_ for id_, _ in added]
    return ids


def list_waiting_for(db: Database, files: Iterable[int]) -> list[int]:
    """The rows that wait for these jobs, among others."""
    return db.column(_WAITING_FOR, (id_list(files),))


def list_complete_of_run(db: Database, run: int, limit: int) -> list[int]:
    """Rows of a run whose files have all ended. Reads all its held rows, where few of them are such."""
    return db.column(_COMPLETE_OF_RUN, (run, limit))


def list_complete(db: Database, ids: Iterable[int]) -> list[CompleteRow]:
    """Those of these rows whose files have all ended."""
    return db.rows(CompleteRow, _COMPLETE, (id_list(ids),))


def delete(db: Database, ids: Iterable[int]) -> None:
    listed = id_list(ids)
    db.execute("DELETE FROM held_files WHERE held IN (SELECT value FROM json_each(?))", (listed,))
    db.execute("DELETE FROM held_rows WHERE id IN (SELECT value FROM json_each(?))", (listed,))


def delete_replaced(db: Database, jobs: str, kept: str) -> dict[str, int]:
    """Delete the rows of pages except those of the kept dataDefs (both JSON lists of ids); how many, by dataDef."""
    replaced = db.all(_REPLACED, (jobs, kept))
    counts: dict[str, int] = {}
    for _, name in replaced:
        counts[str(name)] = counts.get(str(name), 0) + 1
    if replaced:
        delete(db, [int(id_) for id_, _ in replaced])
    return counts


def _files_json(row: NewHeldRow, jobs: Mapping[bytes, int]) -> str:
    return orjson.dumps([(place, jobs.get(identity)) for place, identity in row.files]).decode()


def _find_jobs(db: Database, run: int, identities: set[bytes]) -> Mapping[bytes, int]:
    values = [(identity,) for identity in identities]
    return {bytes(identity): int(job) for identity, job in db.execute_values(_JOBS, values, leading=(run,))}
