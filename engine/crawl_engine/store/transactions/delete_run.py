"""Deletes a run in batches, each one transaction; a run of which something is left is no longer a run.

The first transaction takes the run out of `runs`, so that no reader sees it and no supervisor resumes it. What is left
of it after a kill is deleted by the next call: each batch looks for what is still there.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from crawl_engine.errors import UsageError
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.pages import documents, temporary
from crawl_engine.store.read import run_comparison
from crawl_engine.store.tables.row import rows, seen_rows
from crawl_engine.store.tables.row.seen_rows import RowDigest, SeenScope
from crawl_engine.store.tables.run import deleted_runs

_JOBS, _ROWS, _CHARACTERS, _LINES = 500, 1_000, 8_000_000, 2_000
"""Of one batch: jobs, rows, the text of rows that is read at once, and rows of other tables."""

_NEXT_JOBS = "SELECT id FROM jobs WHERE run = ? LIMIT +?"
_NEXT_ROWS = """
SELECT id, data_def, length(data) FROM rows WHERE job IN (SELECT value FROM json_each(?)) LIMIT +?
"""
_DELETE_ROWS = "DELETE FROM rows WHERE id IN (SELECT value FROM json_each(?))"
_BY_JOB = (
    "DELETE FROM held_files WHERE held IN (SELECT id FROM held_rows WHERE job IN (SELECT value FROM json_each(?)))",
    *(
        f"DELETE FROM {table} WHERE job IN (SELECT value FROM json_each(?))"
        for table in (
            "held_rows", "double_rows", "rejections", "page_health", "results", "unlisted_results", "step_checkpoints",
            "session_losses", "files", "landings",
        )
    ),
    "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
)  # fmt: skip
_IN_GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("locators", ()),
    ("sequences", (("failures", "sequence"), ("page_repeats", "sequence"))),
    (
        "hosts",
        (
            ("host_speeds", "host"),
            ("host_answers", "host"),
            ("host_latencies", "host"),
            ("host_health", "host"),
            ("refusals", "host"),
        ),
    ),
    ("deliveries", (("withdrawals", "delivery"),)),
)
"""Tables with many rows of a run, each with the tables that refer to its ids."""
_BY_RUN = (
    "row_counts", "metrics", "outputs", "appenders", "nodes", "checkpoints", "samples", "health", "field_health",
    "page_warnings", "result_counts", "step_values", "content_sums", "cookie_jars",
    "page_limits", "counters",
)  # fmt: skip
_NEXT_EVENTS = "SELECT id FROM events WHERE run = ? AND id > ? ORDER BY id LIMIT +?"
_TEMPORARY = "SELECT document FROM temporary_documents WHERE run = ? LIMIT +?"
_STOPPED = "DELETE FROM meta WHERE name GLOB 'stopped:' || ? || ':*'"
_COMMANDS = "DELETE FROM commands WHERE supervisor IN (SELECT epoch FROM supervisors WHERE run = ?)"


def begin(db: Database, run: int, check: Callable[[], None] = lambda: None) -> None:
    """Take a run out of `runs`. `check` may raise in the same transaction. Raises UsageError if it is gone."""
    with db.transaction():
        check()
        if db.value("SELECT 1 FROM runs WHERE seq = ?", (run,)) is None:
            raise UsageError("the run was deleted meanwhile", "See `crawl-console runs`.")
        seen_rows.record_scopes(db)
        deleted_runs.begin(db, run, time.time())


def delete_batches(db: Database, run: int, digest: RowDigest) -> Iterator[int]:
    """Delete what is left of a run that `begin` took; yields after each transaction how many rows it deleted.

    `digest`: of a row by its key, for files with only new rows. Documents and output folder are not touched.
    """
    scopes, names = seen_rows.list_scopes(db), rows.data_def_names(db)
    by_data_def = {id_: [scope for scope in scopes if scope.data_def == name] for id_, name in names.items()}
    while deleted := retry_busy(partial(_delete_jobs, db, run, by_data_def, digest)):
        yield deleted
    while deleted := retry_busy(partial(_release_temporary, db, run)):
        yield deleted
    for table, referring in _IN_GROUPS:
        while deleted := retry_busy(partial(_delete_group, db, run, table, referring)):
            yield deleted
    yield from _delete_events(db, run)
    yield retry_busy(partial(_delete_rest, db, run))


def _delete_jobs(db: Database, run: int, scopes: dict[int, list[SeenScope]], digest: RowDigest) -> int:
    """Delete some jobs with all that belongs to them, or some of the rows of jobs that have many."""
    with db.light_transaction():
        jobs = id_list(int(row[0]) for row in db.all(_NEXT_JOBS, (run, _JOBS)))
        if jobs == "[]":
            return 0
        found = db.all(_NEXT_ROWS, (jobs, _ROWS))
        _remember(db, run, found, scopes, digest)
        db.execute(_DELETE_ROWS, (id_list(row[0] for row in found),))
        if len(found) == _ROWS:
            return len(found)
        for statement in _BY_JOB:
            deleted = db.execute(statement, (jobs,)).rowcount
        return len(found) + int(deleted)


def _remember(
    db: Database,
    run: int,
    found: Sequence[tuple[int, int, int]],
    scopes: dict[int, list[SeenScope]],
    digest: RowDigest,
) -> None:  # fmt: skip
    """Keep the digests of rows by every key that told new rows of their dataDef."""
    kept = [row for row in found if scopes.get(row[1])]
    data_defs = {id_: data_def for id_, data_def, _ in kept}
    while kept:
        ids, characters = list[int](), 0
        while kept and (not ids or characters + kept[-1][2] <= _CHARACTERS):
            id_, _, length = kept.pop()
            ids.append(id_)
            characters += length
        digests: dict[int, set[bytes]] = {}
        for id_, text in run_comparison.read_texts(db, ids).items():
            for scope in scopes[data_defs[id_]]:
                digests.setdefault(scope.id, set()).add(digest(text, scope.fields))
        for scope_id, seen in digests.items():
            seen_rows.add(db, run, scope_id, seen)


def _release_temporary(db: Database, run: int) -> int:
    """Mark documents that were kept for this run alone: they are deleted as unused ones."""
    with db.light_transaction():
        ids = db.column(_TEMPORARY, (run, _LINES))
        if ids:
            documents.invalidate_ids(db, ids)
            temporary.keep(db, run, ids)
        return len(ids)


def _delete_group(db: Database, run: int, table: str, referring: Sequence[tuple[str, str]]) -> int:
    with db.light_transaction():
        ids = id_list(int(row[0]) for row in db.all(f"SELECT id FROM {table} WHERE run = ? LIMIT +?", (run, _LINES)))
        for other, column in referring:
            db.execute(f"DELETE FROM {other} WHERE {column} IN (SELECT value FROM json_each(?))", (ids,))
        return int(db.execute(f"DELETE FROM {table} WHERE id IN (SELECT value FROM json_each(?))", (ids,)).rowcount)


def _delete_events(db: Database, run: int) -> Iterator[int]:
    after = 0
    while ids := db.column(_NEXT_EVENTS, (run, after, _LINES)):
        retry_busy(partial(_delete_event_batch, db, ids))
        after = ids[-1]
        yield len(ids)


def _delete_event_batch(db: Database, ids: list[int]) -> None:
    with db.light_transaction():
        db.execute("DELETE FROM events WHERE id IN (SELECT value FROM json_each(?))", (id_list(ids),))


def _delete_rest(db: Database, run: int) -> int:
    with db.light_transaction():
        deleted = sum(int(db.execute(f"DELETE FROM {table} WHERE run = ?", (run,)).rowcount) for table in _BY_RUN)
        for statement in (_STOPPED, _COMMANDS):
            db.execute(statement, (run,))
        return deleted + int(db.execute("DELETE FROM supervisors WHERE run = ?", (run,)).rowcount)


def complete(db: Database, run: int) -> None:
    """Record that nothing of a run is left, after its files."""
    with db.transaction():
        deleted_runs.complete(db, run)
