"""Browsing: jobs a screenful at a time, one job in full, how many there are. Reads only; writes nothing, draws nothing.

States with an index of their own (what is open, what failed) are read from it. The others are looked for among the
jobs of the run, a window of ids a statement, so that no look takes long; one that ran out of time says where to go on.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.model.job import Request
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, placeholders
from engine.store.db.filter import (
    ALL_JOBS,
    Condition,
    GlobFilter,
    JobFilter,
    job_conditions,
    join_conditions,
    sequence_conditions,
)
from engine.store.pages import documents
from engine.store.read import candidates
from engine.store.tables import events, rows
from engine.store.tables.events import Event

_ID_WINDOW = 20_000
_CHUNK = 1_000
_MAX_INDEXED = 10_000
"""So many ids are looked up one by one; of more, enough come along soon enough."""

_COLUMNS = """
j.id, s.kind, j.state, s.grp, h.key, j.url, j.target, j.attempts, j.crashes, j.reason, j.priority, j.depth, n.number,
j.not_before, j.changed_at, j.origin
"""
_SEARCH_COLUMNS = "j.id, j.url, j.target, j.reason"
# CROSS JOIN and `+run`: jobs in the order of their ids, the rest looked up; left free, the planner sorts all of a run
_JOINS = """
CROSS JOIN runs r ON r.seq = j.run CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host
LEFT JOIN nodes n ON n.epoch = j.node
"""
_IN_WINDOW = """
SELECT {columns} FROM jobs j {others} WHERE j.id BETWEEN ? AND ? AND +j.run = ?{conditions}
ORDER BY j.id {way} LIMIT ?
"""
_AMONG_IDS = """
SELECT {columns} FROM jobs j {others} WHERE j.id IN ({ids}) AND j.id BETWEEN ? AND ?{conditions}
ORDER BY j.id {way} LIMIT ?
"""
_FAILED = """
SELECT {columns} FROM jobs j INDEXED BY jobs_failed {others}
WHERE j.run = ? AND j.state = 'FAILED' AND (coalesce(j.changed_at, 0), j.id) {beyond} (?, ?){conditions}
ORDER BY coalesce(j.changed_at, 0) {way}, j.id {way} LIMIT ?
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
_LINES_BY_ID = f"SELECT {_COLUMNS} FROM jobs j {_JOINS} WHERE j.id IN ({{ids}})"
_RUN_FROM = "SELECT id, run FROM jobs WHERE id >= ? ORDER BY id LIMIT 1"
_LAST_ID = "SELECT max(id) FROM jobs"
_JOB_DETAIL = f"SELECT {_COLUMNS}, j.run, j.document, j.defs, l.name, l.request, j.root FROM jobs j {_JOINS}\
 LEFT JOIN locators l ON l.id = j.locator WHERE j.id = ?"
_ROOT_URL = "SELECT url FROM jobs WHERE id = ?"


class Cursor(NamedTuple):
    """Where a listing goes on: behind this job. `at` counts only where the newest failures come first."""

    at: float
    id: int


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as a line of a list."""

    id: int
    kind: str
    state: str
    group: str
    host: str
    url: str
    target: str | None
    """Where redirects led."""
    attempts: int
    crashes: int
    reason: str | None
    priority: int
    depth: int
    node: str | None
    """`n2`: the node that holds it, or held it last."""
    wait: float | None
    """Seconds until it is tried again; None: it does not wait."""
    changed_at: float | None
    """Wall-clock seconds of its last change of state; None: it has not changed since it was made."""
    origin: str
    """`locator` or `link`."""

    @property
    def cursor(self) -> Cursor:
        """Where a listing that ended with this line goes on."""
        return Cursor(self.changed_at or 0.0, self.id)


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of a list. `next` is None at its end; with fewer lines than asked for, the time for the look was over."""

    lines: tuple[JobLine, ...]
    next: Cursor | None


@dataclass(frozen=True, slots=True)
class DocumentDetail:
    """The document a job worked on. `headers` are empty where pages.db was not at hand."""

    id: int
    url: str
    status: int
    content_type: str
    size: int
    fetched_at: float
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job in full."""

    line: JobLine
    run: int
    locator: str | None
    """Name of the locator it is of, or descends from."""
    root_url: str | None
    """Of the locator's job it descends from; None: it is one."""
    request: Request
    defs: int | None
    page: DocumentDetail | None
    events: tuple[tuple[int, Event], ...]
    """What was said about it, oldest first: its attempts and errors."""
    rows: tuple[tuple[int, str, str], ...]
    """Id, dataDef and JSON of the rows it made, the first ones."""


def list_jobs(
    db: Database, run: int, wanted: JobFilter = ALL_JOBS, *, after: Cursor | None = None, limit: int = 50,
    backwards: bool = False, seconds: float = 0.25,
) -> Listing:  # fmt: skip
    """The next jobs of a run; by id, but where only failed ones are wanted: the newest failure first.

    `backwards`: the same list from its end. Searches at most about `seconds`; then `next` says where to go on.
    Not inside a transaction. Raises UsageError where a search's pattern is too slow.
    """
    found: list[JobLine] = []
    deadline = time.monotonic() + seconds
    most = count_jobs(db, run, wanted) if wanted.countable and after is None else None
    if most == 0:
        return Listing((), None)
    at = after
    columns = _SEARCH_COLUMNS if wanted.searches else _COLUMNS
    for chunk, at in _iter_chunks(db, run, wanted, after, columns, limit, backwards):
        for line in map(_to_line, _load_matches(db, wanted, chunk, limit - len(found)) if wanted.searches else chunk):
            found.append(line)
            if len(found) == limit:
                return Listing(tuple(found), None if len(found) == most else line.cursor)
        if len(found) == most:
            break
        if time.monotonic() > deadline:
            return Listing(tuple(found), at)
    return Listing(tuple(found), None)


def iter_ids(db: Database, run: int, wanted: JobFilter) -> Iterator[list[int]]:
    """The ids of all jobs a filter lets through, some thousand at a time, each time within one short statement.

    Raises UsageError where a search's pattern is too slow.
    """
    for chunk, _ in _iter_chunks(db, run, wanted, None, _SEARCH_COLUMNS if wanted.searches else "j.id", _CHUNK, False):
        if wanted.searches:
            yield _matching_ids(wanted, chunk)
        else:
            yield [row[0] for row in chunk]


def count_jobs(db: Database, run: int, wanted: JobFilter = ALL_JOBS) -> int:
    """How many jobs a filter lets through: from the counters where they know it, else each is looked at."""
    if not wanted.countable:
        return sum(map(len, iter_ids(db, run, wanted)))
    return sum(_count_by_state(db, run, wanted).values())


def get_detail(db: Database, job: int, *, pages: Database | None = None, limit: int = 200) -> JobDetail | None:
    """One job in full, with at most `limit` events and rows. `pages`: pages.db, for the headers of its document."""
    with db.snapshot():
        row = db.one(_JOB_DETAIL, (job,))
        if row is None:
            return None
        line = _to_line(row)
        run, document, defs, locator, told, root = row[16:]
        request = candidates.parse_request(told) if told and line.origin == "locator" else Request()
        about = documents.get_metadata(db, document) if document is not None else None
        return JobDetail(
            line=line,
            run=run,
            locator=locator,
            root_url=db.value(_ROOT_URL, (root,)) if root is not None else None,
            request=request,
            defs=defs,
            page=DocumentDetail(document, *about, documents.get_headers(pages, document) if pages else ())
            if about
            else None,
            events=tuple(events.list_by_job(db, job, limit)),
            rows=tuple(rows.list_by_job(db, job, limit)),
        )


def _iter_chunks(
    db: Database, run: int, wanted: JobFilter, after: Cursor | None, columns: str, size: int, backwards: bool
) -> Iterator[tuple[list[tuple[Any, ...]], Cursor]]:
    """Rows that SQL lets through, a statement's worth at a time, and where the next statement begins."""
    counters = wanted.matched_states
    if not counters:
        return
    sieve = join_conditions([*sequence_conditions(wanted), *job_conditions(wanted, time.time())])
    size = _CHUNK if wanted.searches else size
    if counters == {"failed"}:
        yield from _iter_failed_chunks(db, run, sieve, after, columns, size, backwards)
        return
    low, high = 1, int(db.value(_LAST_ID) or 0)
    among = None
    if counters <= _ID_QUERIES.keys():
        of_all_kinds = JobFilter(states=wanted.states, kinds=GlobFilter())
        if sum(_count_by_state(db, run, of_all_kinds).values()) <= _MAX_INDEXED:
            among = " UNION ALL ".join(_ID_QUERIES[name].format(run=int(run)) for name in sorted(counters))
    if among is None:
        low, high = _find_first_id(db, run, high), _find_first_id(db, run + 1, high) - 1
    if after is not None:
        low, high = (low, min(high, after.id - 1)) if backwards else (max(low, after.id + 1), high)
    while low <= high:
        if among is not None:
            start, end = low, high
        elif backwards:
            start, end = max(low, high - _ID_WINDOW + 1), high
        else:
            start, end = low, min(high, low + _ID_WINDOW - 1)
        sql = (_AMONG_IDS if among is not None else _IN_WINDOW).format(
            columns=columns, others=_JOINS, ids=among, conditions=sieve[0], way="DESC" if backwards else "ASC"
        )
        bounds = (start, end) if among is not None else (start, end, run)
        chunk = db.all(sql, (*bounds, *sieve[1], size))
        full = len(chunk) == size
        if backwards:
            high = (chunk[-1][0] if full else start) - 1
            yield chunk, Cursor(0.0, high + 1)
        else:
            low = (chunk[-1][0] if full else end) + 1
            yield chunk, Cursor(0.0, low - 1)


def _matching_ids(wanted: JobFilter, rows: Sequence[tuple[Any, ...]]) -> list[int]:
    """Ids of those rows of _SEARCHED that the searches let through."""
    return [row[0] for row in rows if wanted.accepts(row[1], row[2] or "", row[3] or "")]


def _load_matches(db: Database, wanted: JobFilter, rows: Sequence[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
    """The first ones of them in full, in the same order."""
    chosen = _matching_ids(wanted, rows)[:most]
    full = {row[0]: row for row in db.all(_LINES_BY_ID.format(ids=placeholders(chosen)), chosen)}
    return [full[id_] for id_ in chosen if id_ in full]


def _iter_failed_chunks(
    db: Database, run: int, sieve: Condition, after: Cursor | None, columns: str, size: int, backwards: bool
) -> Iterator[tuple[list[tuple[Any, ...]], Cursor]]:
    sql = _FAILED.format(
        columns=f"{columns}, coalesce(j.changed_at, 0), j.id", others=_JOINS, conditions=sieve[0],
        beyond=">" if backwards else "<", way="ASC" if backwards else "DESC",
    )  # fmt: skip
    at = after or (Cursor(-1.0, 0) if backwards else Cursor(1e300, 0))
    while True:
        chunk = db.all(sql, (run, *at, *sieve[1], size))
        if chunk:
            at = Cursor(*chunk[-1][-2:])
            yield chunk, at
        if len(chunk) < size:
            return


def _count_by_state(db: Database, run: int, wanted: JobFilter) -> dict[str, int]:
    """By name of the counter, for the part of a filter that counters know."""
    names = sorted(wanted.matched_states)
    if not names:
        return {}
    sql, values = join_conditions(sequence_conditions(wanted))
    told = db.one(
        _SUM_COUNTERS.format(sums=", ".join(f"total(s.{name})" for name in names), conditions=sql), (run, *values)
    )
    return dict(zip(names, map(int, told or ()), strict=True))


def _find_first_id(db: Database, run: int, last: int) -> int:
    """The first id of a run or a later one: jobs are made for the newest run alone, so ids follow the runs."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        row = db.one(_RUN_FROM, (middle,))
        if row is None or row[1] >= run:
            high = middle
        else:
            low = row[0] + 1
    return low


def _to_line(row: Sequence[Any]) -> JobLine:
    id_, kind, state, group, host, url, target, attempts, crashes, reason, priority, depth, *more = row[:16]
    number, due, at, origin = more
    return JobLine(
        id_, kind, state, group, host, url, target, attempts, crashes, reason, priority, depth,
        None if number is None else f"n{number}", None if due is None else max(0.0, due - boottime()), at, origin,
    )  # fmt: skip
