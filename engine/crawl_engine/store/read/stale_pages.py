"""Reads stale pages and the jobs that re-extract them.

A page is stale if its rows were made with other page defs of its group than the current ones. Its re-extraction is a
job of kind `extract` that refers to the page's job; the commit that replaces the page's rows deletes it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson
from msgspec import Struct

from crawl_engine.model.job import JobOrigin, StoredPage
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages.documents import STORED_PAGE

# CROSS JOIN: the range of ids is read once; without it, the planner may start with another table
_STALE = """
SELECT j.id AS job, s.grp AS "group",
    CASE WHEN d.pruned <> 0 THEN 'pruned' WHEN j.document IS NULL THEN 'missing' ELSE '' END AS lost
FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence LEFT JOIN documents d ON d.id = j.document
JOIN page_defs n ON n.version = :version AND n.grp = s.grp
LEFT JOIN page_defs o ON o.version = j.defs AND o.grp = s.grp
WHERE j.id > :after AND j.id <= :upto AND +j.run = :run AND s.kind = 'page' AND o.hash IS NOT n.hash
    AND (j.state = 'DONE' OR (j.state = 'FAILED' AND EXISTS (SELECT 1 FROM results r WHERE r.job = j.id)))
"""
_CANDIDATES = """
SELECT e.id, e.url, j.depth, e.priority, e.attempts, e.crashes, j.locator AS locator_id, coalesce(j.root, j.id) AS root,
    l.name AS locator, l.request AS locator_request, coalesce(r.url, j.url) AS root_url, j.id AS page_job,
    {stored}, o.data_defs, o.follow IS NOT n.follow AS links_changed, j.origin, j.link_request AS link, j.carried
FROM jobs e {index} CROSS JOIN jobs j ON j.id = e.page LEFT JOIN locators l ON l.id = j.locator
LEFT JOIN jobs r ON r.id = j.root LEFT JOIN documents d ON d.id = j.document
LEFT JOIN page_defs o ON o.version = j.defs AND o.grp = :group
LEFT JOIN page_defs n ON n.version = :version AND n.grp = :group
WHERE e.sequence = :sequence AND e.state = 'READY' AND e.not_before IS NULL AND e.crashes {suspect}
ORDER BY e.priority DESC, e.id LIMIT +:limit
"""
_DUE = _CANDIDATES.format(stored=STORED_PAGE, suspect="= 0", index="")
_SUSPECTS = _CANDIDATES.format(stored=STORED_PAGE, suspect="> 0", index="INDEXED BY jobs_suspect")
_HAS_OPEN_EXTRACTS = """
SELECT EXISTS (SELECT 1 FROM sequences s WHERE s.run = :run AND s.kind = 'extract' AND EXISTS (
        SELECT 1 FROM jobs WHERE sequence = s.id AND state = 'READY' AND not_before IS NULL))
    OR EXISTS (SELECT 1 FROM jobs WHERE +run = :run AND state = 'TAKEN' AND page IS NOT NULL)
"""
# in a range of ids, the pages that only links led to and that no link leads to any more
_COUNT_UNLINKED = """
SELECT count(*) FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence
WHERE j.id > :after AND j.id <= :upto AND +j.run = :run AND j.state = 'DONE' AND j.origin = 'link' AND s.kind = 'page'
    AND j.linked IS NOT :version AND s.grp IN (SELECT value FROM json_each(:groups) texts)
"""


class StalePage(NamedTuple):
    job: int
    group: str
    lost: str
    """`missing` or `pruned` if its document is gone."""


class DueExtract(Struct, frozen=True):
    """A re-extraction to lease, with its page, the page's document, and what its locator says of it."""

    id: int
    url: str
    depth: int
    priority: int
    attempts: int
    crashes: int
    locator_id: int | None
    root: int
    locator: str | None
    """The name of the locator."""
    locator_request: str | None
    root_url: str
    page_job: int
    stored: StoredPage | None
    data_defs: tuple[int, ...] | None
    """The dataDefs that made the rows of the page; None: unknown."""
    links_changed: bool
    origin: JobOrigin
    link: str | None
    carried: str | None


def find_stale(db: Database, run: int, version: int, after: int, upto: int) -> list[StalePage]:
    """Stale pages among the jobs in a range of ids."""
    parameters = {"run": run, "version": version, "after": after, "upto": upto}
    return db.rows(StalePage, _STALE, parameters)


def count_unlinked(db: Database, run: int, version: int, groups: Sequence[str], after: int, upto: int) -> int:
    """Done pages of groups without a link under a version; correct once all linking pages were processed."""
    json_groups = orjson.dumps(groups).decode()
    parameters = {"run": run, "version": version, "after": after, "upto": upto, "groups": json_groups}
    return int(db.value(_COUNT_UNLINKED, parameters))


def last_job_id(db: Database) -> int:
    """The highest id of a job; 0 without jobs."""
    return int(db.value("SELECT max(id) FROM jobs") or 0)


def has_open_extracts(db: Database, run: int) -> bool:
    """Whether a re-extraction is READY or TAKEN: read from the indexes, not the counters."""
    return bool(db.value(_HAS_OPEN_EXTRACTS, {"run": run}))


def list_candidates(
    db: Database, sequence: int, group: str, version: int, limit: int, *, suspects: bool = False
) -> list[DueExtract]:
    """Due re-extractions of a sequence, best first, with their pages. `suspects`: only those in which a node died."""
    parameters = {"sequence": sequence, "group": group, "version": version, "limit": limit}
    return db.rows(DueExtract, _SUSPECTS if suspects else _DUE, parameters)
