"""Reads jobs in pages, one job in full with the pages that led to it, and the number of jobs.

Open and failed jobs are read from their indexes. Jobs in other states are searched among all jobs of the run, one
window of ids per statement, so that no statement takes long. A search that runs out of time returns where to continue.
"""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct

from crawl_engine.model.job import Request
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, placeholders
from crawl_engine.store.db.filter import (
    ALL_JOBS,
    Condition,
    GlobFilter,
    JobFilter,
    job_conditions,
    join_conditions,
    sequence_conditions,
)
from crawl_engine.store.pages import documents
from crawl_engine.store.read import step_results
from crawl_engine.store.read.job_range import find_ids, scan_ids
from crawl_engine.store.read.sent_request import SentRequest
from crawl_engine.store.tables.job.jobs import given_priority
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import EventLine

_CHUNK = 2_000
_MAX_INDEXED = 10_000
"""Up to this many ids are looked up one by one; if there are more, a scan finds enough of them soon."""

_LINE_COLUMNS = """
j.id, s.kind, j.state, s.grp AS "group", h.key AS host, j.url, j.target, j.attempts, j.crashes, j.reason, j.priority,
j.depth, n.number AS node, j.not_before AS due, j.changed_at, j.origin
"""
_SEARCHED_COLUMNS = "j.id, j.changed_at, j.url, j.target, j.reason"
# CROSS JOIN and `+run`: read jobs in the order of ids and look up the rest; else the planner sorts all jobs of a run
_JOINS = """
CROSS JOIN runs r ON r.seq = j.run CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host
LEFT JOIN nodes n ON n.epoch = j.node
"""
_IN_WINDOW = """
SELECT {columns} FROM jobs j {others} WHERE j.id BETWEEN ? AND ? AND +j.run = ?{conditions}
ORDER BY j.id {order} LIMIT +?
"""
_AMONG_IDS = """
SELECT {columns} FROM jobs j {others} WHERE j.id IN ({ids}) AND j.id BETWEEN ? AND ?{conditions}
ORDER BY j.id {order} LIMIT +?
"""
_FAILED = """
SELECT {columns} FROM jobs j INDEXED BY jobs_failed {others}
WHERE j.run = ? AND j.state = 'FAILED' AND (coalesce(j.changed_at, 0), j.id) {beyond} (?, ?){conditions}
ORDER BY coalesce(j.changed_at, 0) {order}, j.id {order} LIMIT +?
"""
_ID_QUERIES = {
    "ready": """
SELECT d.id FROM sequences q CROSS JOIN jobs d INDEXED BY jobs_due ON d.sequence = q.id
WHERE q.run = {run} AND q.ready > 0 AND d.state = 'READY' AND d.not_before IS NULL""",
    "delayed": "SELECT id FROM jobs INDEXED BY jobs_waiting"
    " WHERE run = {run} AND state = 'READY' AND not_before IS NOT NULL",
    "taken": "SELECT id FROM jobs INDEXED BY jobs_taken WHERE +run = {run} AND state = 'TAKEN'",
    "incomplete": "SELECT id FROM jobs INDEXED BY jobs_incomplete WHERE run = {run} AND state = 'INCOMPLETE'",
    "failed": "SELECT id FROM jobs INDEXED BY jobs_failed WHERE run = {run} AND state = 'FAILED'",
}
_SUM_COUNTERS = """
SELECT {sums} FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.run = ?{conditions}
"""
_LINES_BY_ID = f"SELECT {_LINE_COLUMNS} FROM jobs j {_JOINS} WHERE j.id IN ({{ids}}){{conditions}}"
_JOB_DETAIL = f"""
SELECT {_LINE_COLUMNS}, j.run, j.document, j.defs, l.name AS locator, l.request AS locator_request, j.root,
    j.link_request, j.carried
FROM jobs j {_JOINS} LEFT JOIN locators l ON l.id = j.locator WHERE j.id = ?
"""
_ANCESTORS = """
WITH RECURSIVE line (id, parent, url, depth, step) AS (
    SELECT p.id, p.parent, coalesce(p.target, p.url), p.depth, 1 FROM jobs j JOIN jobs p ON p.id = j.parent
    WHERE j.id = ?
    UNION ALL
    SELECT p.id, p.parent, coalesce(p.target, p.url), p.depth, l.step + 1 FROM line l JOIN jobs p ON p.id = l.parent
    WHERE l.step < ?)
SELECT id, url, depth FROM line ORDER BY step
"""
_CHILDREN = "SELECT id, url, state FROM jobs WHERE parent = ? ORDER BY id LIMIT +?"
_COUNT_CHILDREN = "SELECT state, count(*) FROM jobs WHERE parent = ? GROUP BY state ORDER BY state"
_MAX_ANCESTORS, _MAX_CHILDREN = 50, 200


class Ancestor(NamedTuple):
    """A job on whose page the one before it was found."""

    id: int
    url: str
    depth: int


class ChildEntry(NamedTuple):
    """A job whose link was found first on the page of another."""

    id: int
    url: str
    state: str


class Lineage(NamedTuple):
    """`ancestors`: the page with the link first, then the page with the link to that. `children`: the first ones."""

    ancestors: tuple[Ancestor, ...] = ()
    children: tuple[ChildEntry, ...] = ()
    child_counts: tuple[tuple[str, int], ...] = ()
    """Children by state."""


class Cursor(NamedTuple):
    """A listing continues after this job. `at` is used only for failed jobs, which are listed newest first."""

    at: float
    id: int


class JobLine(Struct, frozen=True):
    id: int
    kind: str
    state: str
    group: str
    host: str
    url: str
    target: str | None
    """The URL to which redirects led."""
    attempts: int
    crashes: int
    reason: str | None
    priority: int
    depth: int
    node: str | None
    """`n2`: the node that holds it, or held it last."""
    wait: float | None
    """Seconds until it is retried; None: it is not delayed."""
    changed_at: float | None
    """Wall-clock seconds of its last change of state; None: unchanged since it was created."""
    origin: str
    """`locator` or `link`."""

    @property
    def cursor(self) -> Cursor:
        """Where a listing that ended with this line continues."""
        return Cursor(self.changed_at or 0.0, self.id)


class _JobId(Struct, frozen=True):
    id: int
    changed_at: float | None


class _SearchedJob(_JobId, frozen=True):
    """What searches read of a job."""

    url: str
    target: str | None
    reason: str | None


class _JobRow(_SearchedJob, frozen=True, kw_only=True):
    kind: str
    state: str
    group: str
    host: str
    attempts: int
    crashes: int
    priority: int
    depth: int
    node: int | None
    due: float | None
    """Boot-time seconds."""
    origin: str

    @property
    def line(self) -> JobLine:
        return JobLine(
            self.id, self.kind, self.state, self.group, self.host, self.url, self.target, self.attempts, self.crashes,
            self.reason, given_priority(self.priority), self.depth, None if self.node is None else f"n{self.node}",
            None if self.due is None else max(0.0, self.due - store_time()), self.changed_at, self.origin,
        )  # fmt: skip


class _DetailRow(_JobRow, frozen=True, kw_only=True):
    run: int
    document: int | None
    defs: int | None
    locator: str | None
    locator_request: str | None
    root: int | None
    link_request: str | None
    carried: str | None


_COLUMNS: dict[type[_JobId], str] = {
    _JobId: "j.id, j.changed_at",
    _SearchedJob: _SEARCHED_COLUMNS,
    _JobRow: _LINE_COLUMNS,
}
_Row = TypeVar("_Row", bound=_JobId)


class Listing(Struct, frozen=True):
    """A part of a list. `next` is None at the end; with fewer lines than `limit`, the time was over."""

    lines: tuple[JobLine, ...]
    next: Cursor | None


class DocumentDetail(Struct, frozen=True):
    """The document of a job. `headers` are empty without pages.db."""

    id: int
    url: str
    status: int
    content_type: str
    size: int
    fetched_at: float
    headers: tuple[tuple[str, str], ...]


class JobDetail(Struct, frozen=True):
    line: JobLine
    run: int
    locator: str | None
    """Name of the locator it descends from."""
    root_url: str | None
    """URL of the locator's job it descends from; None: it is a locator's job itself."""
    request: Request
    defs: int | None
    page: DocumentDetail | None
    events: tuple[EventLine, ...]
    """Its events, oldest first: attempts and errors."""
    rows: tuple[tuple[int, str, str], ...]
    """Id, dataDef and JSON of its first rows."""
    why: str | None = None
    """Why it is not fetched now, if it waits."""
    lineage: Lineage = Lineage()
    """On which pages it was found, and what was found on its own."""
    results: tuple[step_results.ListedResult, ...] = ()
    """What plugin steps reported of its page, oldest first."""
    unlisted_results: tuple[step_results.ResultCount, ...] = ()
    """The results that are counted only."""
    carried: str | None = None
    """What the page that leads to it gave it (`link.Carried`)."""


def list_jobs(
    db: Database, run: int, job_filter: JobFilter = ALL_JOBS, *, after: Cursor | None = None, limit: int = 50,
    backwards: bool = False, seconds: float = 0.25,
) -> Listing:  # fmt: skip
    """The next matching jobs of a run, by id; failed jobs alone come newest failure first.

    `backwards`: the same list from its end. Searches for about `seconds` at most; continue from `next`.
    Not inside a transaction. Raises UsageError if a search's pattern is too slow.
    """
    lines: list[JobLine] = []
    deadline = time.monotonic() + seconds
    total = count_jobs(db, run, job_filter) if job_filter.countable and after is None else None
    if total == 0:
        return Listing((), None)
    at = after
    chunks = _iter_chunks(db, run, job_filter, _JobRow, after, limit, backwards)
    if job_filter.searches:
        found = _iter_chunks(db, run, job_filter, _SearchedJob, after, limit, backwards)
        chunks = ((_load_matches(db, job_filter, jobs, limit - len(lines)), reached) for jobs, reached in found)
    for chunk, at in chunks:
        for row in chunk:
            lines.append(line := row.line)
            if len(lines) == limit:
                return Listing(tuple(lines), None if len(lines) == total else line.cursor)
        if len(lines) == total:
            break
        if time.monotonic() > deadline:
            return Listing(tuple(lines), at)
    return Listing(tuple(lines), None)


def iter_ids(db: Database, run: int, job_filter: JobFilter) -> Iterator[list[int]]:
    """The ids of all matching jobs, two thousand a step at most, each step one short statement.

    Raises UsageError if a search's pattern is too slow.
    """
    if job_filter.searches:
        for found, _ in _iter_chunks(db, run, job_filter, _SearchedJob, None, _CHUNK, False):
            yield _matching_ids(job_filter, found)
    else:
        for chunk, _ in _iter_chunks(db, run, job_filter, _JobId, None, _CHUNK, False):
            yield [row.id for row in chunk]


def count_jobs(db: Database, run: int, job_filter: JobFilter = ALL_JOBS) -> int:
    """The number of matching jobs: from the counters if possible, else by reading every job."""
    if not job_filter.countable:
        return sum(map(len, iter_ids(db, run, job_filter)))
    return sum(_count_by_state(db, run, job_filter).values())


def get_detail(db: Database, job: int, *, pages: Database | None = None, limit: int = 200) -> JobDetail | None:
    """One job in full, with at most `limit` events and rows. `pages`: pages.db, for the headers of its document."""
    with db.snapshot():
        row = db.row(_DetailRow, _JOB_DETAIL, (job,))
        if row is None:
            return None
        line, run, document = row.line, row.run, row.document
        root_url = db.value("SELECT url FROM jobs WHERE id = ?", (row.root,)) if row.root is not None else None
        sent = SentRequest.from_rows(row.link_request, row.locator_request, located=line.origin == "locator")
        metadata = documents.get_metadata(db, document) if document is not None else None
        return JobDetail(
            line=line,
            run=run,
            locator=row.locator,
            root_url=root_url,
            request=sent.request(line.url, root_url or line.url),
            defs=row.defs,
            page=DocumentDetail(document, *metadata, documents.get_headers(db, pages, document) if pages else ())
            if document is not None and metadata is not None
            else None,
            events=tuple(events.list_by_job(db, job, limit)),
            rows=tuple(rows.list_by_job(db, job, limit)),
            lineage=_read_lineage(db, job),
            results=step_results.list_by_job(db, run, job, limit),
            unlisted_results=tuple(step_results.count_unlisted(db, job)),
            carried=row.carried,
        )


def _iter_chunks(
    db: Database, run: int, job_filter: JobFilter, kind: type[_Row], after: Cursor | None, size: int, backwards: bool
) -> Iterator[tuple[list[_Row], Cursor]]:
    """Rows that SQL selects, one statement at a time, each with the cursor where the next statement starts."""
    states = job_filter.matched_states
    if not states:
        return
    conditions = join_conditions([*sequence_conditions(job_filter), *job_conditions(job_filter, time.time())])
    size = _CHUNK if job_filter.searches else size
    if states == {"failed"}:
        yield from _iter_failed_chunks(db, run, conditions, kind, after, size, backwards)
        return
    low, high = 1, int(db.value("SELECT max(id) FROM jobs") or 0)
    ids = None
    if states <= _ID_QUERIES.keys():
        of_all_kinds = JobFilter(states=job_filter.states, kinds=GlobFilter())
        if sum(_count_by_state(db, run, of_all_kinds).values()) <= _MAX_INDEXED:
            ids = " UNION ALL ".join(_ID_QUERIES[name].format(run=int(run)) for name in sorted(states))
    if job_filter.outcomes.include == ("error",):
        ids = step_results.query_error_jobs(db, run) or ids
    if ids is None:
        low, end = find_ids(db, run)
        high = end - 1
    if after is not None:
        low, high = (low, min(high, after.id - 1)) if backwards else (max(low, after.id + 1), high)
    sql = (_IN_WINDOW if ids is None else _AMONG_IDS).format(
        columns=_COLUMNS[kind], others=_JOINS, ids=ids, conditions=conditions[0], order="DESC" if backwards else "ASC"
    )
    values = [*((run,) if ids is None else ()), *conditions[1], size]

    def read(start: int, end: int) -> list[_Row]:
        return db.rows(kind, sql, (start, end, *values))

    for chunk, at in scan_ids(read, low, high, limit=size, backwards=backwards, in_one=ids is not None):
        yield chunk, Cursor(0.0, at)


def _matching_ids(job_filter: JobFilter, jobs: Sequence[_SearchedJob]) -> list[int]:
    return [job.id for job in jobs if job_filter.accepts(job.url, job.target or "", job.reason or "")]


def _load_matches(db: Database, job_filter: JobFilter, jobs: Sequence[_SearchedJob], limit: int) -> list[_JobRow]:
    """The first matching ones in full, in the same order; without those that left the filter since they were found."""
    chosen = _matching_ids(job_filter, jobs)[:limit]
    if not chosen:
        return []
    conditions, values = join_conditions(job_conditions(job_filter, time.time()))
    sql = _LINES_BY_ID.format(ids=placeholders(chosen), conditions=conditions)
    full = {row.id: row for row in db.rows(_JobRow, sql, [*chosen, *values])}
    return [full[id_] for id_ in chosen if id_ in full]


def _iter_failed_chunks(
    db: Database, run: int, conditions: Condition, kind: type[_Row], after: Cursor | None, size: int, backwards: bool
) -> Iterator[tuple[list[_Row], Cursor]]:
    beyond, order = (">", "ASC") if backwards else ("<", "DESC")
    sql = _FAILED.format(columns=_COLUMNS[kind], others=_JOINS, conditions=conditions[0], beyond=beyond, order=order)
    at = after or (Cursor(-1.0, 0) if backwards else Cursor(1e300, 0))
    while True:
        chunk = db.rows(kind, sql, (run, *at, *conditions[1], size))
        if chunk:
            at = Cursor(chunk[-1].changed_at or 0.0, chunk[-1].id)
            yield chunk, at
        if len(chunk) < size:
            return


def _count_by_state(db: Database, run: int, job_filter: JobFilter) -> dict[str, int]:
    """The counters of matching states, for the part of a filter that counters can answer."""
    names = sorted(job_filter.matched_states)
    if not names:
        return {}
    sql, values = join_conditions(sequence_conditions(job_filter))
    sums = db.one(
        _SUM_COUNTERS.format(sums=", ".join(f"total(s.{name})" for name in names), conditions=sql), (run, *values)
    )
    return dict(zip(names, map(int, sums or ()), strict=True))


def _read_lineage(db: Database, job: int) -> Lineage:
    return Lineage(
        tuple(db.rows(Ancestor, _ANCESTORS, (job, _MAX_ANCESTORS))),
        tuple(db.rows(ChildEntry, _CHILDREN, (job, _MAX_CHILDREN))),
        tuple(db.all(_COUNT_CHILDREN, (job,))),
    )
