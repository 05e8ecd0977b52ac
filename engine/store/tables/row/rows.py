"""Writes the tables `rows`, `row_counts` and `rejections`."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby, islice, repeat
from typing import Any

from engine.model.content_digest import Digests, row_digests
from engine.model.record import Texts
from engine.store.db.connector import Database
from engine.store.tables.outcome import Commit, Extracted, JobOutcome
from engine.store.tables.row import content_sums

_BATCH = 1_024
_COUNT = """
INSERT INTO row_counts (run, data_def, rows, rejected, waiting) {values}
ON CONFLICT (run, data_def) DO UPDATE SET rows = row_counts.rows + excluded.rows,
    rejected = row_counts.rejected + excluded.rejected, waiting = row_counts.waiting + excluded.waiting
"""
_WAITING = "SELECT data_def, waiting FROM row_counts WHERE run = ? AND waiting > 0 ORDER BY data_def"
_AFTER = "SELECT id, data_def, CAST(data AS TEXT) FROM rows WHERE id > ? AND run = ? ORDER BY id LIMIT +?"
_AFTER_IN_ALL_RUNS = "SELECT id, run, data_def, CAST(data AS TEXT) FROM rows WHERE id > ? ORDER BY id LIMIT +?"
_BY_DATA_DEF = """
SELECT r.id, CAST(r.data AS TEXT) FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.run = ? AND d.name = ? AND r.id > ? ORDER BY r.id LIMIT +?
"""
_COUNTS = "SELECT data_def, rows, rejected FROM row_counts WHERE run = ? ORDER BY data_def"
_RECOUNT = """
WITH counted AS MATERIALIZED (
    SELECT d.name, count(*) AS rows FROM rows r JOIN data_defs d ON d.id = r.data_def
    WHERE r.id >= :first AND r.id < :end AND r.run = :run GROUP BY d.name)
UPDATE row_counts SET rows = coalesce((SELECT c.rows FROM counted c WHERE c.name = data_def), 0) WHERE run = :run
"""
_COUNT_REPLACED = """
SELECT d.name, count(*), min(r.id) FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value
JOIN data_defs d ON d.id = r.data_def
WHERE r.data_def NOT IN (SELECT value FROM json_each(?)) GROUP BY d.name
"""
_DELETE_REPLACED = """
DELETE FROM rows WHERE job IN (SELECT value FROM json_each(?)) AND data_def NOT IN (SELECT value FROM json_each(?))
"""
_ADD_REJECTED = """
INSERT INTO rejections (job, data_def, records) {values}
ON CONFLICT (job, data_def) DO UPDATE SET records = excluded.records
"""
_SUM_REJECTED = """
SELECT data_def, sum(records) FROM rejections WHERE job IN (SELECT value FROM json_each(:jobs))
    AND data_def NOT IN (SELECT name FROM data_defs WHERE id IN (SELECT value FROM json_each(:kept))) GROUP BY data_def
"""
_DELETE_REJECTED = """
DELETE FROM rejections WHERE job IN (SELECT value FROM json_each(:jobs))
    AND data_def NOT IN (SELECT name FROM data_defs WHERE id IN (SELECT value FROM json_each(:kept)))
"""
_OF_JOB = """
SELECT r.id, d.name, CAST(r.data AS TEXT) FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.job = ? ORDER BY r.id LIMIT +?
"""


class NewRows(Extracted):
    """The rows that a dataDef made of a page, as JSON, with its name and its id (tables.versions); never empty."""

    data_def: str
    data_def_id: int
    texts: Texts
    digests: Digests = Digests()
    """Of each row; computed before the commit where they are missing."""

    def prepare(self) -> None:
        if not self.digests:
            with contextlib.suppress(ValueError):  # rows that cannot be read fail in the transaction: their job fails
                self.digests = row_digests(self.data_def, self.texts)


class RejectedRecords(Extracted):
    """The number of records of a page that a dataDef rejected."""

    data_def: str
    records: int


def write(commit: Commit, made: Sequence[tuple[JobOutcome, NewRows]]) -> None:
    """Append the rows of pages, and count them."""
    add(commit.db, commit.run, [(outcome.job.page_id, new) for outcome, new in made])
    counts = Counter[str]()
    for _, new in made:
        counts[new.data_def] += len(new.texts)
    commit.db.execute_values(_COUNT, [(commit.run, name, count, 0, 0) for name, count in counts.items()])


def write_rejected(commit: Commit, made: Sequence[tuple[JobOutcome, RejectedRecords]]) -> None:
    """Count rejected records, by page and in all."""
    values = [(outcome.job.page_id, rejected.data_def, rejected.records) for outcome, rejected in made]
    commit.db.execute_values(_ADD_REJECTED, values)
    counts = Counter[str]()
    for _, data_def, records in values:
        counts[data_def] += records
    commit.db.execute_values(_COUNT, [(commit.run, name, 0, count, 0) for name, count in counts.items()])


def add(db: Database, run: int, rows: Sequence[tuple[int, NewRows]]) -> None:
    """Append rows, each with the job of its page, in order.

    In SQLite a long row becomes a blob: every query here reads it as text.
    """
    # as bytearrays, which bind faster than bytes: Python looks for no adapter
    values = chain.from_iterable(
        zip(
            repeat(run),
            repeat(job),
            repeat(new.data_def_id),
            new.texts,
            map(bytearray, new.digests) if new.digests else repeat(None),
        )
        for job, new in rows
    )
    while batch := list(islice(values, _BATCH)):
        for kind, group in groupby(batch, lambda row: type(row[3])):
            if kind is str:
                db.execute_values("INSERT INTO rows (run, job, data_def, data, digest) {values}", list(group))
            else:
                for row in group:
                    _add_large(db, *row)


def _add_large(db: Database, run: int, job: int, data_def: int, text: Any, digest: bytearray | None) -> None:
    """Append a row whose text is a memoryview."""
    values = {"run": run, "job": job, "data_def": data_def}
    db.insert_large("rows", values, {"data": text, "digest": memoryview(digest or b"")})


def add_counts(db: Database, run: int, data_def: str, *, rows: int = 0, rejected: int = 0, waiting: int = 0) -> None:
    """Add to the counts of a dataDef. `waiting`: rows that wait for files."""
    db.execute_values(_COUNT, [(run, data_def, rows, rejected, waiting)])


def count_waiting(db: Database, run: int) -> dict[str, int]:
    """By dataDef: its rows that wait for files, if any."""
    return {str(name): int(rows) for name, rows in db.all(_WAITING, (run,))}


def list_after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, int, str]]:
    """The next rows of a run in order of id: id, id of the dataDef, JSON."""
    return db.all(_AFTER, (cursor, run, limit))


def list_after_in_all_runs(db: Database, cursor: int, limit: int) -> list[tuple[int, int, int, str]]:
    """The next rows of any run in order of id, which is also that of their runs: id, run, id of the dataDef, JSON."""
    return db.all(_AFTER_IN_ALL_RUNS, (cursor, limit))


def last_id(db: Database, run: int) -> int:
    """The id of a run's newest row; 0: none."""
    return int(db.value("SELECT id FROM rows WHERE run = ? ORDER BY id DESC LIMIT 1", (run,)) or 0)


def last_id_of_all_runs(db: Database) -> int:
    """The id of the newest row of any run; 0: none. Reads only the end of the table."""
    return int(db.value("SELECT max(id) FROM rows") or 0)


def last_given_id(db: Database) -> int:
    """The highest id that any row ever had; 0: none."""
    return int(db.value("SELECT seq FROM sqlite_sequence WHERE name = 'rows'") or 0)


def count_between(db: Database, run: int, after: int, upto: int) -> int:
    """How many rows of a run have an id above `after` and not above `upto`."""
    return int(db.value("SELECT count(*) FROM rows WHERE id > ? AND id <= ? AND run = ?", (after, upto, run)))


def list_by_data_def(db: Database, run: int, data_def: str, cursor: int, limit: int) -> list[tuple[int, str]]:
    """The next rows of one dataDef in any of its versions: id, JSON."""
    return db.all(_BY_DATA_DEF, (run, data_def, cursor, limit))


def counts(db: Database, run: int) -> dict[str, tuple[int, int]]:
    """By dataDef: rows, records rejected."""
    return {str(name): (int(rows), int(rejected)) for name, rows, rejected in db.all(_COUNTS, (run,))}


def recount(db: Database, run: int, first: int, end: int) -> None:
    """Count the rows of a run again; `first`, `end`: the range of their ids."""
    db.execute(_RECOUNT, {"run": run, "first": first, "end": end})


def delete_replaced(db: Database, jobs: str, kept: str) -> list[tuple[str, int, int]]:
    """Delete the rows of jobs except those of the kept dataDefs; both are JSON lists of ids.

    Returns, by name of dataDef: rows deleted, and the lowest id among them.
    """
    replaced = db.all(_COUNT_REPLACED, (jobs, kept))
    if replaced:
        content_sums.subtract_rows(db, jobs, kept)
        db.execute(_DELETE_REPLACED, (jobs, kept))
    return [(str(name), int(count), int(first)) for name, count, first in replaced]


def delete_rejected(db: Database, jobs: str, kept: str) -> list[tuple[str, int]]:
    """Delete the rejection counts of jobs except those of the kept dataDefs; returns the counts by dataDef."""
    parameters = {"jobs": jobs, "kept": kept}
    sums = [(str(name), int(count)) for name, count in db.all(_SUM_REJECTED, parameters)]
    if sums:
        db.execute(_DELETE_REJECTED, parameters)
    return sums


def list_by_job(db: Database, job: int, limit: int) -> list[tuple[int, str, str]]:
    """Rows of a job: id, dataDef, JSON."""
    return db.all(_OF_JOB, (job, limit))


def data_def_names(db: Database) -> dict[int, str]:
    return {int(id_): str(name) for id_, name in db.all("SELECT id, name FROM data_defs")}
