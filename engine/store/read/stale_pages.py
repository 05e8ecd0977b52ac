"""Re-extraction: which done pages are stale, and their jobs as leases give them. Reads only; `jobs` writes.

A page is stale where the version its rows were made with says something else of its group's pages than the current
one. Its re-extraction is a job of kind `extract` that names the page's job: while there is one, the page may be
stale; it goes away in the commit that replaces the page's rows.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from engine.model.job import JobKind, JobOrigin, LeasedJob, Request, StoredPage
from engine.store.db.connector import Database

# CROSS JOIN: a stretch of ids is read once, whatever the planner thinks of the other tables
_STALE = """
SELECT j.id, s.grp, j.document IS NULL FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence
JOIN page_defs n ON n.version = :version AND n.grp = s.grp
LEFT JOIN page_defs o ON o.version = j.defs AND o.grp = s.grp
WHERE j.id > :after AND j.id <= :upto AND +j.run = :run AND j.state = 'DONE' AND s.kind = 'page'
    AND o.hash IS NOT n.hash
"""
_LAST_JOB_ID = "SELECT max(id) FROM jobs"
_CANDIDATES = """
SELECT e.id, e.url, j.depth, e.priority, e.attempts, e.crashes, j.locator, coalesce(j.root, j.id), l.name,
    coalesce(r.url, j.url), j.id, d.id, d.url, d.status, d.content_type, d.fetched_at,
    o.data_defs, o.follow IS NOT n.follow
FROM jobs e {index} CROSS JOIN jobs j ON j.id = e.page LEFT JOIN locators l ON l.id = j.locator
LEFT JOIN jobs r ON r.id = j.root LEFT JOIN documents d ON d.id = j.document
LEFT JOIN page_defs o ON o.version = j.defs AND o.grp = :group
LEFT JOIN page_defs n ON n.version = :version AND n.grp = :group
WHERE e.sequence = :sequence AND e.state = 'READY' AND e.not_before IS NULL AND e.crashes {suspect}
ORDER BY e.priority DESC, e.id LIMIT :limit
"""
_DUE = _CANDIDATES.format(suspect="= 0", index="")
_SUSPECTS = _CANDIDATES.format(suspect="> 0", index="INDEXED BY jobs_suspect")
_HAS_OPEN_EXTRACTS = """
SELECT EXISTS (SELECT 1 FROM sequences s WHERE s.run = :run AND s.kind = 'extract' AND EXISTS (
        SELECT 1 FROM jobs WHERE sequence = s.id AND state = 'READY' AND not_before IS NULL))
    OR EXISTS (SELECT 1 FROM jobs WHERE +run = :run AND state = 'TAKEN' AND page IS NOT NULL)
"""
# of the pages that links alone led to, those none leads to any more, in a stretch of ids
_COUNT_UNLINKED = """
SELECT count(*) FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence
WHERE j.id > :after AND j.id <= :upto AND +j.run = :run AND j.state = 'DONE' AND j.origin = 'link' AND s.kind = 'page'
    AND j.linked IS NOT :version AND s.grp IN (SELECT value FROM json_each(:groups))
"""
_PLAIN_REQUEST = Request()


def find_stale(db: Database, run: int, version: int, after: int, upto: int) -> list[tuple[int, str, bool]]:
    """Stale pages among the jobs of a stretch of ids: job, group, whether its document is gone."""
    told = {"run": run, "version": version, "after": after, "upto": upto}
    return [(int(id_), str(group), bool(lost)) for id_, group, lost in db.all(_STALE, told)]


def count_unlinked(db: Database, run: int, version: int, groups: Sequence[str], after: int, upto: int) -> int:
    """Done pages of groups that no link leads to under a version; meaningful once all pages that link were worked."""
    told = {"run": run, "version": version, "after": after, "upto": upto, "groups": orjson.dumps(groups).decode()}
    return int(db.value(_COUNT_UNLINKED, told))


def last_job_id(db: Database) -> int:
    """The highest id of a job; 0: there is none."""
    return int(db.value(_LAST_JOB_ID) or 0)


def has_open_extracts(db: Database, run: int) -> bool:
    """Whether a re-extraction is READY or TAKEN: read from the indexes, not the counters."""
    return bool(db.value(_HAS_OPEN_EXTRACTS, {"run": run}))


def list_candidates(
    db: Database, sequence: int, group: str, version: int, limit: int, *, suspects: bool = False
) -> list[tuple[Any, ...]]:
    """Due re-extractions of a sequence, best first, each with its page. `suspects`: those in which a node died."""
    told = {"sequence": sequence, "group": group, "version": version, "limit": limit}
    return db.all(_SUSPECTS if suspects else _DUE, told)


def to_leased_job(
    row: tuple[Any, ...], *, lease: int, run: int, sequence: int, host: int, group: str, defs: int,
    relinking: bool,
) -> LeasedJob:  # fmt: skip
    """A re-extraction as a node works on it, from a row of `candidates`; `stored` is None where nothing is stored."""
    (
        id_, url, depth, priority, attempts, crashes, locator_id, root, locator, root_url, page,
        document, final_url, status, content_type, fetched_at, made, links_stale,
    ) = row  # fmt: skip
    stored = None
    if document is not None:
        stored = StoredPage(
            page=document, url=final_url, status=status, content_type=content_type, fetched_at=fetched_at
        )  # fmt: skip
    return LeasedJob(
        id=id_, lease=lease, run=run, sequence=sequence, host=host, kind=JobKind.EXTRACT, group=group,
        locator_id=locator_id, root=root, locator=locator or "", locator_url=root_url, url=url, origin=JobOrigin.LINK,
        depth=depth, priority=priority, attempts=attempts, crashes=crashes, hops=0, target=None, request=_PLAIN_REQUEST,
        send_at=None, delay=0.0, stored=stored, defs_version=defs, page_job=page,
        extracted_with=tuple(orjson.loads(made)) if made else (), links_stale=bool(links_stale) or relinking,
    )  # fmt: skip
