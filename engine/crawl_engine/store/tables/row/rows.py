"""Writes the tables `rows`, `row_counts` and `rejections`."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby, islice, repeat
from typing import Any, NamedTuple

import orjson

from crawl_engine.model.content_digest import Digests, row_digests, unique_keys
from crawl_engine.model.record import RejectCode, RejectedCount, Texts
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables import counters
from crawl_engine.store.tables.outcome import Commit, Extracted, JobOutcome
from crawl_engine.store.tables.row import content_sums, double_rows
from crawl_engine.store.tables.row.double_rows import KeyedRows

_BATCH = 1_024
_COUNT = """
INSERT INTO row_counts (run, data_def, rows, rejected, waiting, duplicates) {values}
ON CONFLICT (run, data_def) DO UPDATE SET rows = row_counts.rows + excluded.rows,
    rejected = row_counts.rejected + excluded.rejected, waiting = row_counts.waiting + excluded.waiting,
    duplicates = row_counts.duplicates + excluded.duplicates
"""
_AFTER = "SELECT id, data_def, CAST(data AS TEXT) FROM rows WHERE id > ? AND run = ? ORDER BY id LIMIT +?"
_AFTER_IN_ALL_RUNS = "SELECT id, run, data_def, CAST(data AS TEXT) FROM rows WHERE id > ? ORDER BY id LIMIT +?"
_BY_DATA_DEF = """
SELECT r.id, CAST(r.data AS TEXT) FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.run = ? AND d.name = ? AND r.id > ? ORDER BY r.id LIMIT +?
"""
_COUNTS = "SELECT data_def, rows, rejected, waiting, duplicates FROM row_counts WHERE run = ? ORDER BY data_def"
_RECOUNT = """
WITH counted AS MATERIALIZED (
    SELECT d.name, count(*) AS rows FROM rows r JOIN data_defs d ON d.id = r.data_def
    WHERE r.id >= :first AND r.id < :end AND r.run = :run GROUP BY d.name)
UPDATE row_counts SET rows = coalesce((SELECT c.rows FROM counted c WHERE c.name = data_def), 0),
    duplicates = (SELECT count(*) FROM double_rows r JOIN data_defs d ON d.id = r.data_def
        WHERE r.run = :run AND d.name = row_counts.data_def)
WHERE run = :run
"""
_COUNT_REPLACED = """
SELECT d.name, count(*), min(r.id), count(r.key) FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value
JOIN data_defs d ON d.id = r.data_def
WHERE r.data_def NOT IN (SELECT value FROM json_each(?)) GROUP BY d.name
"""
_KEYS_OF_REPLACED = """
SELECT r.key FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value
WHERE r.key IS NOT NULL AND r.data_def NOT IN (SELECT value FROM json_each(?))
"""
_DELETE_REPLACED = """
DELETE FROM rows WHERE job IN (SELECT value FROM json_each(?)) AND data_def NOT IN (SELECT value FROM json_each(?))
"""
_MAX_FIELD = 200
"""Characters of the name of a field that is counted."""
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


class DataDefRows(NamedTuple):
    """What a dataDef gave in a run."""

    data_def: str = ""
    rows: int = 0
    rejected: int = 0
    """Records."""
    waiting: int = 0
    """Rows that wait for files."""
    duplicates: int = 0
    """Rows whose key another row has."""


class NewRows(Extracted):
    """The rows that a dataDef made of a page, as JSON, with its name and its id (tables.versions); never empty."""

    data_def: str
    data_def_id: int
    texts: Texts
    digests: Digests = Digests()
    """Of each row; computed before the commit where they are missing."""
    unique: tuple[str, ...] = ()
    """The fields of a key that counts once a run; empty: every row counts."""
    keys: Sequence[bytes | None] = ()
    """Of each row by these fields; computed with the digests."""
    doubles: frozenset[int] = frozenset()
    """The places of rows whose key another row has: they are stored apart."""

    def prepare(self) -> None:
        if not self.digests:
            with contextlib.suppress(ValueError):  # rows that cannot be read fail in the transaction: their job fails
                self.digests = row_digests(self.data_def, self.texts)
                if self.unique:
                    self.keys = unique_keys(self.data_def, self.unique, self.texts)

    def counted(self) -> "NewRows":
        """These rows without the doubles."""
        if not self.doubles:
            return self
        kept = [
            row
            for place, row in enumerate(zip(self.texts, self.digests, self.keys, strict=True))
            if place not in self.doubles
        ]
        digests = Digests(b"".join(digest for _, digest, _ in kept))
        return NewRows(
            self.data_def,
            self.data_def_id,
            [text for text, *_ in kept],
            digests,
            self.unique,
            [key for *_, key in kept],
        )


class RejectedRecords(Extracted):
    """The number of records of a page that a field of a dataDef rejected, for one reason."""

    data_def: str
    records: int
    field: str = ""
    code: RejectCode = "invalid"


def write(commit: Commit, made: Sequence[tuple[JobOutcome, NewRows]]) -> None:
    """Append the rows of pages, and count them."""
    count_added(commit.db, commit.run, add_first(commit.db, commit.run, [(o.job.page_id, new) for o, new in made]))


def count_added(db: Database, run: int, added: Sequence[NewRows], *, were_waiting: bool = False) -> None:
    """Count rows that were added, and their doubles. `were_waiting`: for files."""
    counts, doubles = Counter[str](), Counter[str]()
    for new in added:
        counts[new.data_def] += len(new.texts) - len(new.doubles)
        doubles[new.data_def] += len(new.doubles)
    db.execute_values(
        _COUNT,
        [
            (run, name, count, 0, -(count + doubles[name]) if were_waiting else 0, doubles[name])
            for name, count in counts.items()
        ],
    )


def add_first(db: Database, run: int, made: Sequence[tuple[int, NewRows]]) -> list[NewRows]:
    """Append rows, each with the job of its page, but for doubles, which are set aside; returns all of them."""
    keyed = [(job, new) for job, new in made if new.keys]
    if keyed:
        added = [KeyedRows(job, new.data_def_id, new.keys, new.texts, new.digests) for job, new in keyed]
        for (_, new), doubles in zip(keyed, double_rows.set_aside(db, run, added), strict=True):
            new.doubles = doubles
    add(db, run, [(job, new.counted()) for job, new in made])
    return [new for _, new in made]


def write_rejected(commit: Commit, made: Sequence[tuple[JobOutcome, RejectedRecords]]) -> None:
    """Count rejected records: by page, in all, and by reason."""
    of_pages, counts, reasons = Counter[tuple[int, str]](), Counter[str](), Counter[str]()
    for outcome, rejected in made:
        of_pages[outcome.job.page_id, rejected.data_def] += rejected.records
        counts[rejected.data_def] += rejected.records
        scope = rejected.data_def, rejected.field[:_MAX_FIELD], rejected.code
        reasons[orjson.dumps(scope).decode()] += rejected.records
    commit.db.execute_values(_ADD_REJECTED, [(*key, records) for key, records in of_pages.items()])
    counters.add(commit.db, commit.run, counters.REJECTED, reasons)
    commit.db.execute_values(_COUNT, [(commit.run, name, 0, count, 0, 0) for name, count in counts.items()])


def list_rejected(db: Database, run: int) -> list[RejectedCount]:
    """How many records each field rejected in a run, by reason, those of repeated pages too."""
    counted = counters.read(db, run, counters.REJECTED)
    return [
        RejectedCount(name, records, field, code)
        for (name, field, code), records in ((orjson.loads(scope), records) for scope, records in counted.items())
    ]


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
            new.keys or repeat(None),
        )
        for job, new in rows
    )
    while batch := list(islice(values, _BATCH)):
        for kind, group in groupby(batch, lambda row: type(row[3])):
            if kind is str:
                db.execute_values("INSERT INTO rows (run, job, data_def, data, digest, key) {values}", list(group))
            else:
                for row in group:
                    _add_large(db, *row)


def _add_large(
    db: Database, run: int, job: int, data_def: int, text: Any, digest: bytearray | None, key: bytes | None
) -> None:  # fmt: skip
    """Append a row whose text is a memoryview."""
    values = {"run": run, "job": job, "data_def": data_def, "key": key}
    db.insert_large("rows", values, {"data": text, "digest": memoryview(digest or b"")})


def add_counts(
    db: Database, run: int, data_def: str, *, rows: int = 0, rejected: int = 0, waiting: int = 0, duplicates: int = 0
) -> None:  # fmt: skip
    """Add to the counts of a dataDef. `waiting`: rows that wait for files."""
    db.execute_values(_COUNT, [(run, data_def, rows, rejected, waiting, duplicates)])


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


def counts(db: Database, run: int) -> dict[str, DataDefRows]:
    """By dataDef."""
    return {of.data_def: of for of in db.rows(DataDefRows, _COUNTS, (run,))}


def recount(db: Database, run: int, first: int, end: int) -> None:
    """Count the rows of a run again; `first`, `end`: the range of their ids."""
    db.execute(_RECOUNT, {"run": run, "first": first, "end": end})


def delete_replaced(db: Database, jobs: str, kept: str) -> tuple[list[tuple[str, int, int]], list[bytes]]:
    """Delete the rows of jobs except those of the kept dataDefs; both are JSON lists of ids.

    Returns, by name of dataDef: rows deleted, and the lowest id among them; and the unique keys that they had.
    """
    replaced, keys = db.all(_COUNT_REPLACED, (jobs, kept)), list[bytes]()
    if any(keyed for *_, keyed in replaced):
        keys = [bytes(row[0]) for row in db.all(_KEYS_OF_REPLACED, (jobs, kept))]
    if replaced:
        content_sums.subtract_rows(db, jobs, kept)
        db.execute(_DELETE_REPLACED, (jobs, kept))
    return [(str(name), int(count), int(first)) for name, count, first, _ in replaced], keys


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
    return dict(db.all("SELECT id, name FROM data_defs"))
