"""Reads what plugin steps reported, in pages, and finds the jobs with errors."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from crawl_engine.model.step import OUTCOMES, Outcome
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.job_range import scan_ids

_COLUMNS = """
r.id, r.job, coalesce(j.target, j.url) AS url, r.grp AS "group", r.task, r.step, r.outcome, r.code, r.ms, r.text
"""
# CROSS JOIN: read results in the order of ids, and look up their jobs
_IN_WINDOW = f"""
SELECT {_COLUMNS} FROM results r {{index}} CROSS JOIN jobs j ON j.id = r.job
WHERE r.id BETWEEN ? AND ? AND r.run = ?{{conditions}} ORDER BY r.id {{order}} LIMIT +?
"""
_UNLISTED = """
SELECT grp AS "group", task, step, outcome, sum(results) AS results FROM unlisted_results WHERE job = ?
GROUP BY grp, task, step, outcome ORDER BY grp, task, step, outcome
"""
_ERRORS, _WARNINGS = "INDEXED BY results_error", "INDEXED BY results_warning"
_COUNTS = """
SELECT grp AS "group", task, step, outcome, sum(results) AS results FROM result_counts WHERE run = ?
GROUP BY grp, task, step, outcome ORDER BY grp, task, step, outcome
"""
_OF_OUTCOME: Mapping[Outcome, tuple[str, str]] = {
    outcome: (f" AND r.outcome = '{outcome}'", {"error": _ERRORS, "warning": _WARNINGS}.get(outcome, ""))
    for outcome in OUTCOMES
}
"""Condition and index. The outcome is part of the SQL: with a placeholder no partial index applies."""
_CHUNK = 1_000
_MAX_ERRORS = 10_000
"""Up to this many errors, their jobs are looked up one by one; if there are more, a scan finds enough of them soon."""
_ERROR_JOBS = f"SELECT job FROM results {_ERRORS} WHERE run = {{run}} AND outcome = 'error'"
_HAS_MORE_ERRORS = f"SELECT EXISTS ({_ERROR_JOBS} LIMIT 1 OFFSET {_MAX_ERRORS})"


class ListedResult(NamedTuple):
    id: int
    job: int
    url: str
    group: str
    task: str
    step: str
    outcome: str
    code: str
    ms: float
    text: str


class ResultCount(NamedTuple):
    group: str
    task: str
    step: str
    outcome: str
    results: int


class ResultFilter(Struct, frozen=True, kw_only=True):
    """Selects results that match all its parts; None matches any."""

    job: int | None = None
    group: str | None = None
    task: str | None = None
    outcome: Outcome | None = None


ALL_RESULTS = ResultFilter()


def iter_results(
    db: Database, run: int, result_filter: ResultFilter = ALL_RESULTS, *, backwards: bool = False
) -> Iterator[ListedResult]:
    """The results that match, oldest first, read by short statements; `backwards`: newest first."""
    names = {"job": result_filter.job, "grp": result_filter.group, "task": result_filter.task}
    parts = [(f" AND r.{column} = ?", value) for column, value in names.items() if value is not None]
    conditions, values = "".join(sql for sql, _ in parts), [value for _, value in parts]
    index = "INDEXED BY results_job" if result_filter.job is not None else ""
    if result_filter.outcome is not None:
        condition, index_of_outcome = _OF_OUTCOME[result_filter.outcome]
        conditions, index = conditions + condition, index or index_of_outcome
    sql = _IN_WINDOW.format(index=index, conditions=conditions, order="DESC" if backwards else "ASC")
    last = int(db.value("SELECT max(id) FROM results") or 0)

    def read(start: int, end: int) -> list[ListedResult]:
        return db.rows(ListedResult, sql, (start, end, run, *values, _CHUNK))

    for chunk, _ in scan_ids(read, 1, last, limit=_CHUNK, backwards=backwards, in_one=bool(index)):
        yield from chunk


def list_by_job(db: Database, run: int, job: int, limit: int) -> tuple[ListedResult, ...]:
    """The newest results of a page, oldest first."""
    newest = list(islice(iter_results(db, run, ResultFilter(job=job), backwards=True), limit))
    return tuple(reversed(newest))


def count_unlisted(db: Database, job: int) -> list[ResultCount]:
    return db.rows(ResultCount, _UNLISTED, (job,))


def count_by_step(db: Database, run: int) -> list[ResultCount]:
    return db.rows(ResultCount, _COUNTS, (run,))


def query_error_jobs(db: Database, run: int) -> str | None:
    """SQL that selects the ids of the jobs with an error; None: there are so many that a scan is faster."""
    has_more = db.value(_HAS_MORE_ERRORS.format(run=int(run)))
    return None if has_more else _ERROR_JOBS.format(run=int(run))
