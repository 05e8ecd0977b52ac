"""Writes to the table `jobs` what links make: new jobs, the next pages of series, and what jobs carry."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crawl_engine.model.job import JobKind, JobOrigin, ReasonCode
from crawl_engine.model.link import BODY_PATH, COOKIES_PATH, RELATION_PATH
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.job.jobs import NOW
from crawl_engine.store.tables.outcome import Extracted

_LINK = """
WITH link (run, sequence, priority, depth, locator, root, url, identity, may_leave_host, parent, request, carried,
    page_key, fresh_since) AS ({values})
"""
_ADD_LINKS = f"""
{_LINK}
INSERT INTO jobs (run, sequence, priority, depth, origin, locator, root, url, identity, may_leave_host, parent,
    link_request, carried, page_key, fresh_since)
SELECT run, sequence, priority, depth, 'link', locator, root, url, identity, may_leave_host, parent,
    request, carried, page_key, fresh_since
FROM link
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE run = link.run AND page_key = coalesce(link.page_key, link.identity))
    AND (page_key IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE run = link.run AND identity = link.page_key))
ON CONFLICT (run, identity) DO NOTHING
"""
_ADD_SERIES_PAGES = f"""
{_LINK}
INSERT INTO jobs (run, sequence, priority, origin, locator, url, identity, parent, link_request, carried, page_key,
    may_leave_host)
SELECT run, sequence, priority, 'locator', locator, url, identity, parent, request, carried, page_key, 1
FROM link WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE run = link.run AND identity = link.page_key)
ON CONFLICT (run, identity) DO NOTHING RETURNING identity
"""
_BODY = f"""
coalesce(CAST(:request AS TEXT) ->> '{BODY_PATH}',
    CASE WHEN :origin = 'locator' THEN (SELECT request ->> '$.body' FROM locators WHERE id = :locator) END)
"""
_ADD_TAKEN = f"""
INSERT INTO jobs (run, sequence, priority, depth, origin, locator, root, url, identity, may_leave_host, parent,
    link_request, carried, page_key, fresh_since, state, lease, node, changed_at)
SELECT :run, :sequence, :priority, :depth, :origin, :locator, :root, :url, :identity, :may_leave_host, :parent,
    :request, :carried, :page_key, :fresh_since, 'TAKEN', :lease, :node, {NOW}
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE run = :run AND page_key = coalesce(:page_key, :identity))
    AND (:page_key IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE run = :run AND identity = :page_key))
    AND NOT EXISTS (
        SELECT 1 FROM jobs t LEFT JOIN locators l ON l.id = t.locator
        WHERE t.run = :run AND t.state = 'TAKEN' AND coalesce(t.target, t.url) = :url
            AND ({_BODY} IS NULL OR t.target IS NOT NULL
                OR coalesce(t.link_request ->> '{BODY_PATH}', l.request ->> '$.body') IS {_BODY}))
ON CONFLICT (run, identity) DO NOTHING
RETURNING id, (SELECT name FROM locators l WHERE l.id = locator) AS locator,
    (SELECT request FROM locators l WHERE l.id = locator) AS locator_request,
    (SELECT r.url FROM jobs r WHERE r.id = jobs.root) AS root_url
"""
# CROSS JOIN: each page finds its job by index; without it, the planner reads all jobs for every batch
_MET_PAGES = f"""
{_LINK}
SELECT j.id, p.locator, p.identity, p.parent, p.request, p.page_key FROM link p
CROSS JOIN jobs j ON j.run = p.run AND j.identity = p.page_key
WHERE NOT EXISTS (SELECT 1 FROM jobs other WHERE other.run = p.run AND other.identity = p.identity)
UNION ALL
SELECT j.id, p.locator, p.identity, p.parent, p.request, p.page_key FROM link p
CROSS JOIN jobs j ON j.run = p.run AND j.identity = p.identity LEFT JOIN locators l ON l.id = j.locator
WHERE j.link_request IS NULL AND l.request ->> '$.series' IS NULL
"""
"""Pages of a series that a link, or another locator of the same name, led to before."""
_JOIN_SERIES = """
UPDATE jobs SET origin = 'locator', depth = 0, root = NULL, may_leave_host = 1, locator = ?, identity = ?, parent = ?,
    link_request = ?, page_key = ?, fresh_since = NULL
WHERE id = ?
"""
_MARK_LINKED = """
WITH v (version, run) AS (SELECT ?, ?), k (identity) AS ({values})
UPDATE jobs SET linked = v.version FROM v, k
WHERE jobs.run = v.run AND jobs.identity = k.identity AND jobs.linked IS NOT v.version
"""
_CARRY = """
WITH k (run, identity, parent, carried) AS ({values})
UPDATE jobs SET carried = k.carried FROM k
WHERE jobs.run = k.run AND jobs.identity = k.identity AND jobs.parent = k.parent AND jobs.carried IS NOT k.carried
RETURNING jobs.id, jobs.state = 'DONE'
    OR (jobs.state = 'FAILED' AND EXISTS (SELECT 1 FROM results r WHERE r.job = jobs.id))
"""
_PASS_ON = f"""
UPDATE jobs SET carried = p.carried FROM jobs p, json_each(?) changed
WHERE p.id = changed.value AND p.state = 'SKIPPED' AND jobs.parent = p.id
    AND jobs.link_request ->> '{RELATION_PATH}' = 'canonical' AND jobs.carried IS NOT p.carried
RETURNING jobs.id, jobs.state = 'DONE'
"""
_KEEP_CANONICAL = f"""
WITH k (run, key, parent, link_request) AS ({{values}})
UPDATE jobs SET link_request = k.link_request,
    reason = CASE WHEN jobs.state = 'SKIPPED' THEN NULL ELSE jobs.reason END,
    reason_code = CASE WHEN jobs.state = 'SKIPPED' THEN NULL ELSE jobs.reason_code END,
    hops = CASE WHEN jobs.state = 'SKIPPED' THEN 0 ELSE jobs.hops END,
    target = CASE WHEN jobs.state = 'SKIPPED' THEN NULL ELSE jobs.target END,
    state = CASE WHEN jobs.state = 'SKIPPED' THEN 'READY' ELSE jobs.state END
FROM k CROSS JOIN jobs p
WHERE p.id = k.parent AND jobs.run = k.run AND (jobs.identity = k.key OR jobs.page_key = k.key)
    AND (jobs.link_request IS NULL OR (jobs.link_request ->> '{COOKIES_PATH}' IS NOT NULL
        AND jobs.link_request ->> '{RELATION_PATH}' = 'link'))
    AND (jobs.state IN ('READY', 'TAKEN') OR (jobs.state = 'SKIPPED' AND jobs.reason_code = '{ReasonCode.CANONICAL}'))
    AND (jobs.id <= p.id OR NOT EXISTS (
        SELECT 1 FROM k other WHERE other.parent = jobs.id AND (other.key = p.identity OR other.key = p.page_key)))
"""
"""A page that another names as its canonical one is kept, whatever it names itself: else both would be skipped.

Of two that name each other in the same transaction, the older job is kept.
"""
_IS_PAGE_OF_ANOTHER = """
SELECT EXISTS (SELECT 1 FROM jobs WHERE run = :run AND identity = :key AND id <> :job)
    OR EXISTS (SELECT 1 FROM jobs WHERE run = :run AND page_key = :key AND id <> :job)
"""


class ChildJob(NamedTuple):
    """A job to create: its group, its host (`name:port` and origin), and the identity that makes it unique."""

    group: str
    host_key: str
    origin: str
    url: str
    depth: int
    priority: int
    identity: bytes
    kind: JobKind = JobKind.PAGE
    may_leave_host: bool = False
    request: str | None = None
    """What it sends besides its URL (`link.LinkRequest`)."""
    carried: str | None = None
    """What its parent gives it (`link.Carried`)."""
    page_key: bytes | None = None
    """The identity of a plain link to the same page, if that differs."""
    in_series: bool = False
    """Whether it is a page of the locator whose page makes it."""
    fresh_since: float | None = None
    """The wall-clock second since when a stored document replaces its fetch; None: as its group says."""


class Children(Extracted):
    """The jobs to which a page leads."""

    jobs: tuple[ChildJob, ...] = ()
    later: Iterator[tuple[ChildJob, ...]] | None = None
    """Further ones in pieces, of a page that has many: they are made when the pieces before are committed."""

    def make_next(self) -> int:
        """Make the next ones; returns how many. An empty piece is the last one."""
        piece = next(self.later, ()) if self.later is not None else ()
        if not piece:
            self.later = None
        self.jobs += piece
        return len(piece)


class NewLink(NamedTuple):
    """A job to create for a link, with its placement; in the column order of the statement that writes it."""

    run: int
    sequence: int
    priority: int
    depth: int
    locator: int | None
    root: int | None
    url: str
    identity: bytes
    may_leave_host: int = 0
    """1: redirects may lead to any host."""
    parent: int | None = None
    """The job on whose page the link is."""
    request: str | None = None
    """What it sends besides its URL (`link.LinkRequest`)."""
    carried: str | None = None
    """What its parent gives it (`link.Carried`)."""
    page_key: bytes | None = None
    """The identity of a plain link to the same page, if that differs."""
    fresh_since: float | None = None
    """The wall-clock second since when a stored document replaces its fetch; None: as its group says."""


def add_links(db: Database, links: Sequence[NewLink]) -> None:
    """Create the jobs that do not exist yet."""
    db.execute_values(_ADD_LINKS, links)


def add_series_pages(db: Database, pages: Sequence[NewLink]) -> set[bytes]:
    """Create jobs for pages of series, as those of their locators; returns the identities of those that are new.

    An existing job of such a page joins the series, whatever its state; if it is done, what it carries now has its page
    worked again.
    """
    created = {identity for (identity,) in db.execute_values(_ADD_SERIES_PAGES, pages)}
    for page in pages:
        if page.identity not in created:
            for id_, *joined in db.execute_values(_MET_PAGES, [page]):
                db.execute(_JOIN_SERIES, (*joined, id_))
    return created


class TakenJob(NamedTuple):
    """A new job that is leased, with what its locator and the job it descends from say of it."""

    id: int
    locator: str | None
    locator_request: str | None
    root_url: str | None


def add_taken(db: Database, page: NewLink, *, origin: JobOrigin, lease: int, node: int) -> TakenJob | None:
    """Create the job of a page, leased to a node.

    Returns None and writes nothing if that page has a job, or a job is fetching its URL.
    """
    return db.row(TakenJob, _ADD_TAKEN, page._asdict() | {"origin": origin, "lease": lease, "node": node})


def keep_canonical(db: Database, links: Sequence[NewLink]) -> None:
    """Mark the jobs that pages name as their canonical ones; those that were skipped in favour of others are READY."""
    db.execute_values(_KEEP_CANONICAL, [(link.run, link.identity, link.parent, link.request) for link in links])


def carry(db: Database, links: Sequence[NewLink]) -> list[int]:
    """Give jobs what their parents carry to them now; returns those whose pages were made with other values.

    Only the parent that made a job counts. A page that was skipped for its canonical URL passes on what it carries.
    """
    values = [(link.run, link.identity, link.parent, link.carried) for link in links]
    changed = db.execute_values(_CARRY, values)
    changed += db.all(_PASS_ON, (id_list(id_ for id_, _ in changed),)) if changed else []
    return [int(id_) for id_, is_done in changed if is_done]


def is_page_of_another(db: Database, run: int, key: bytes, job: int) -> bool:
    """Whether another job of the run has this page. `key`: that of a plain link to it."""
    return bool(db.value(_IS_PAGE_OF_ANOTHER, {"run": run, "key": key, "job": job}))


def mark_linked(db: Database, run: int, version: int, identities: Iterable[bytes]) -> None:
    """Record that pages of that def version link to these identities."""
    db.execute_values(_MARK_LINKED, [(identity,) for identity in identities], leading=(version, run))
