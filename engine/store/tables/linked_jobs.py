"""Writes to the table `jobs` what links make: new jobs, the next pages of series, and what jobs carry."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.store.db.connector import Database

_ADD_LINKS = """
INSERT INTO jobs (run, sequence, priority, depth, origin, locator, root, url, identity, may_leave_host, parent,
    link_request, carried, page_key)
SELECT column1, column2, column3, column4, 'link', column5, column6, column7, column8, column9, column10, column11,
    column12, column13
FROM ({values}) AS link
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE run = column1 AND page_key = coalesce(column13, column8))
    AND (column13 IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE run = column1 AND identity = column13))
ON CONFLICT (run, identity) DO NOTHING
"""
_ADD_SERIES_PAGES = """
INSERT INTO jobs (run, sequence, priority, origin, locator, url, identity, parent, link_request, carried, page_key,
    may_leave_host)
SELECT column1, column2, column3, 'locator', column5, column7, column8, column10, column11, column12, column13, 1
FROM ({values}) AS page WHERE true
ON CONFLICT (run, identity) DO NOTHING
"""
_IS_EXTRACTED = """{job}.state = 'DONE'
    OR ({job}.state = 'FAILED' AND EXISTS (SELECT 1 FROM results r WHERE r.job = {job}.id))"""
# CROSS JOIN: each page finds its job by index; without it, the planner reads all jobs for every batch
_LINKED_BEFORE = f"""
SELECT j.id, p.column5, p.column8, p.column10, p.column11, p.column13, {_IS_EXTRACTED.format(job="j")}
FROM ({{values}}) AS p CROSS JOIN jobs j ON j.run = p.column1 AND j.identity = p.column13
WHERE NOT EXISTS (SELECT 1 FROM jobs other WHERE other.run = p.column1 AND other.identity = p.column8)
"""
_JOIN_SERIES = """
UPDATE jobs SET origin = 'locator', depth = 0, root = NULL, may_leave_host = 1, locator = :locator,
    identity = :identity, parent = :parent, link_request = :request, page_key = :page_key
WHERE id = :id
"""
_MARK_LINKED = """
WITH v (version, run) AS (SELECT ?, ?), k (identity) AS ({values})
UPDATE jobs SET linked = v.version FROM v, k
WHERE jobs.run = v.run AND jobs.identity = k.identity AND jobs.linked IS NOT v.version
"""
_CARRY = f"""
WITH k (run, identity, parent, carried) AS ({{values}})
UPDATE jobs SET carried = k.carried FROM k
WHERE jobs.run = k.run AND jobs.identity = k.identity AND jobs.parent = k.parent AND jobs.carried IS NOT k.carried
RETURNING jobs.id, {_IS_EXTRACTED.format(job="jobs")}
"""
_OTHERWISE_CARRIED = """
SELECT j.id FROM ({values}) AS p CROSS JOIN jobs j ON j.id = p.column1 WHERE j.carried IS NOT p.column2
"""


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
    """What it sends besides its URL (`link_request.LinkRequest`)."""
    carried: str | None = None
    """What its parent gives it (`link_request.Carried`)."""
    page_key: bytes | None = None
    """The identity of a plain link to the same page, if that differs."""


def add_links(db: Database, links: Sequence[NewLink]) -> None:
    """Create the jobs that do not exist yet."""
    db.execute_values(_ADD_LINKS, links)


def add_series_pages(db: Database, pages: Sequence[NewLink]) -> list[int]:
    """Create jobs for pages of series, as those of their locators.

    A job that a link made for such a page becomes that of the series. Returns those whose pages are done: they must be
    re-extracted, so that their series goes on from there. One in progress is found at its commit by what it carries.
    """
    done = []
    for id_, locator, identity, parent, request, page_key, is_done in db.execute_values(
        _LINKED_BEFORE, [page for page in pages if page.page_key is not None]
    ):
        db.execute(
            _JOIN_SERIES,
            {
                "id": id_, "locator": locator, "identity": identity, "parent": parent, "request": request,
                "page_key": page_key,
            },
        )  # fmt: skip
        if is_done:
            done.append(int(id_))
    db.execute_values(_ADD_SERIES_PAGES, pages)
    return done


def carry(db: Database, links: Sequence[NewLink]) -> list[int]:
    """Give jobs what their parents carry to them now; returns those whose pages were made with other values.

    Only the parent that made a job counts.
    """
    values = [(link.run, link.identity, link.parent, link.carried) for link in links]
    return [int(id_) for id_, is_done in db.execute_values(_CARRY, values) if is_done]


def list_otherwise_carried(db: Database, carried: Sequence[tuple[int, str | None]]) -> list[int]:
    """The jobs that carry something else now than what they were leased with."""
    return [int(id_) for (id_,) in db.execute_values(_OTHERWISE_CARRIED, carried)]


def mark_linked(db: Database, run: int, version: int, identities: Iterable[bytes]) -> None:
    """Record that pages of that def version link to these identities."""
    db.execute_values(_MARK_LINKED, [(identity,) for identity in identities], leading=(version, run))
