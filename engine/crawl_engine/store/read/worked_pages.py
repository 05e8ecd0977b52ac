"""Reads processed pages: their job, document and rows. Uses indexes only."""

from collections.abc import Collection, Iterator

import orjson
from msgspec import Struct

from crawl_engine.model.job import StoredPage, link_key
from crawl_engine.store.db.connector import Database, placeholders
from crawl_engine.store.pages import documents
from crawl_engine.store.read.job_range import find_ids

_JOB = f"""
SELECT j.id AS job, j.run, s.grp AS "group", j.depth, j.state, j.url, coalesce(l.name, '') AS locator,
    coalesce(r.url, j.url) AS locator_url, {documents.STORED_PAGE}, coalesce(d.pruned, 0) AS pruned, j.carried
FROM jobs j JOIN sequences s ON s.id = j.sequence LEFT JOIN locators l ON l.id = j.locator
LEFT JOIN jobs r ON r.id = j.root LEFT JOIN documents d ON d.id = j.document
"""
# the answer of a failed job that nothing reuses is for people to read, and may be cut
_BY_ID = f"{_JOB} AND (j.state <> 'FAILED' OR d.key <> x'') WHERE j.id = ? AND s.kind = 'page'"
_BY_IDENTITY = f"{_JOB} WHERE j.run = ? AND j.identity IN ({{keys}}) AND j.document = ? AND j.state = 'DONE'"
_BY_PAGE = f"{_JOB} WHERE j.run = ? AND j.page_key IN ({{keys}}) AND j.document = ? AND j.state = 'DONE'"
_DOCUMENTS = """
SELECT id, url, pruned FROM documents WHERE id < ? AND status BETWEEN 200 AND 299 ORDER BY id DESC LIMIT +?
"""
_ROWS = """
SELECT CAST(r.data AS TEXT) FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.job = ? AND d.name = ? ORDER BY r.id
"""
# CROSS JOIN: a range of ids is read once; without it, the planner may start with another table
_IN_RANGE = f"""{_JOB.replace("jobs j JOIN", "jobs j CROSS JOIN").replace("ON s.id", "ON +s.id")}
WHERE j.id >= :start AND j.id < :end AND +j.run = :run AND s.kind = 'page'
    AND (j.state = 'DONE' OR (j.state = 'FAILED' AND EXISTS (SELECT 1 FROM results x WHERE x.job = j.id)))
    AND s.grp IN (SELECT value FROM json_each(:groups) texts) ORDER BY j.id
"""
_BATCH, _MAX_SCANNED = 50, 1_000
_RANGE = 1_000
_PARTS = 20
"""Ranges of jobs, spread over a run, that a sample is taken from."""


class WorkedPage(Struct, frozen=True):
    """A job and the document it used; `stored` is None if none was kept."""

    job: int
    run: int
    group: str
    depth: int
    state: str
    url: str
    locator: str
    locator_url: str
    stored: StoredPage | None
    pruned: bool = False
    """Whether the body of its document was deleted: its group keeps none."""
    carried: str | None = None
    """What the page that leads to it gave it (`link.Carried`)."""


def get_by_job(db: Database, job: int) -> WorkedPage | None:
    return db.row(WorkedPage, _BY_ID, (job,))


def list_newest(db: Database, run: int, groups: Collection[str], count: int) -> list[WorkedPage]:
    """The last pages of these groups that were fetched and are DONE in the run, newest first; at most `count`.

    Reads a limited number of documents, so that it is quick in a run of any size. Where the URLs of documents lead to
    too few jobs, as with redirects and the links of tables, the last jobs follow, those included that a step failed.
    """
    pages: dict[int, WorkedPage] = {}
    last, scanned = 2**62, 0
    while len(pages) < count and scanned < _MAX_SCANNED:
        fetched = db.all(_DOCUMENTS, (last, _BATCH))
        if not fetched:
            break
        for document, url, pruned in fetched:
            keys = [] if pruned else [link_key(group, url) for group in groups]
            for sql in (_BY_IDENTITY, _BY_PAGE) if keys else ():
                for page in db.rows(WorkedPage, sql.format(keys=placeholders(keys)), (run, *keys, document)):
                    pages.setdefault(page.job, page)
            if len(pages) >= count:
                break
        last, scanned = int(fetched[-1][0]), scanned + len(fetched)
    if len(pages) < count:
        for page in _iterate_back(db, run, groups):
            pages.setdefault(page.job, page)
            if len(pages) >= count:
                break
    return list(pages.values())[:count]


def _iterate_back(db: Database, run: int, groups: Collection[str]) -> Iterator[WorkedPage]:
    """The pages among the last jobs of the run, newest first."""
    first, end = find_ids(db, run)
    for upto in range(end, max(first, end - 1 - _PARTS * _RANGE), -_RANGE):
        yield from reversed(_list_range(db, run, groups, max(first, upto - _RANGE), upto))


def iterate_done(db: Database, run: int, groups: Collection[str]) -> Iterator[WorkedPage]:
    """All pages of these groups that are DONE in the run, oldest first."""
    first, end = find_ids(db, run)
    for start in range(first, end, _RANGE):
        yield from _list_range(db, run, groups, start, start + _RANGE)


def list_spread(db: Database, run: int, groups: Collection[str], count: int) -> list[WorkedPage]:
    """At most `count` pages of each group that are DONE, spread over the run.

    Reads a limited number of jobs, so that it is quick in a run of any size: of a large one, a group of few pages may
    be missed.
    """
    first, end = find_ids(db, run)
    parts = min(_PARTS, count)
    length = -(-(end - first) // parts)
    chosen: dict[str, list[WorkedPage]] = {group: [] for group in groups}
    spare: dict[str, list[WorkedPage]] = {group: [] for group in groups}
    for part in range(parts):
        start = first + part * length
        for page in _list_range(db, run, groups, start, start + min(length, _RANGE)):
            fits = len(chosen[page.group]) * parts < (part + 1) * count
            (chosen if fits else spare)[page.group].append(page)
    # a crawl that began lately has done pages in its first parts alone
    filled = ([*chosen[group], *spare[group][: count - len(chosen[group])]] for group in groups)
    return [page for pages in filled for page in sorted(pages, key=lambda page: page.job)]


def _list_range(db: Database, run: int, groups: Collection[str], start: int, end: int) -> list[WorkedPage]:
    parameters = {"run": run, "groups": orjson.dumps(list(groups)).decode(), "start": start, "end": end}
    return db.rows(WorkedPage, _IN_RANGE, parameters)


def list_rows(db: Database, job: int, data_def: str) -> list[str]:
    """The committed rows of a job for one dataDef, as JSON, in the order of extraction."""
    return db.column(_ROWS, (job, data_def))
