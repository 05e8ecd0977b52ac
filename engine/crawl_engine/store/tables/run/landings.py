"""Writes `landings`: pages at the targets of redirects, of which the first job has the rows.

Jobs end in any order. Where a lower number comes later, the rows of the other one are taken back in the same
transaction.
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawl_engine.model.job import JobKind, JobState, LeasedJob, document_key, landing_key
from crawl_engine.model.link import Carried
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.job.jobs import NOW
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Commit, Effect, Extracted, JobOutcome
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.page_repeats import PageSeen

REDIRECTS, IS_LED_TO = "redirects to a page of this run", "a page of this run redirects to it"
UNLINKED = "redirects to a page that no link of the group leads to"
MANY_PAGES = 10
"""So many pages that redirect to one are worth a warning."""
_ADD = """
INSERT INTO landings (run, key, job, redirected, kept) {values}
ON CONFLICT (run, key, job) DO UPDATE SET redirected = excluded.redirected, kept = excluded.kept
"""
_KNOWN = """
WITH k (run, key) AS ({values})
SELECT k.key, (SELECT min(l.job) FROM landings l WHERE l.run = k.run AND l.key = k.key AND l.kept = 1) AS job FROM k
WHERE EXISTS (SELECT 1 FROM landings l WHERE l.run = k.run AND l.key = k.key)
"""
_KEPT = """
WITH k (run, key) AS ({values})
SELECT l.key, l.job, l.redirected FROM k CROSS JOIN landings l ON l.run = k.run AND l.key = k.key WHERE l.kept = 1
"""
# two parts, each with an index
_OWN_JOBS = """
WITH k (run, page_key) AS ({values})
SELECT k.page_key, j.id, j.state, j.carried, d.key FROM k CROSS JOIN jobs j ON j.run = k.run AND j.identity = k.page_key
LEFT JOIN documents d ON d.id = j.document
UNION ALL
SELECT k.page_key, j.id, j.state, j.carried, d.key FROM k CROSS JOIN jobs j ON j.run = k.run AND j.page_key = k.page_key
LEFT JOIN documents d ON d.id = j.document
"""
_NOT_KEPT = "UPDATE landings SET kept = 0 WHERE job IN (SELECT value FROM json_each(?))"
# a done job leaves its state by READY alone
_LEAVE = (
    "UPDATE jobs SET state = 'READY', reason = NULL, reason_code = NULL WHERE id = ? AND state IN ('DONE', 'FAILED')"
)
_SKIP = f"UPDATE jobs SET state = 'SKIPPED', reason = ?, changed_at = {NOW} WHERE id = ? AND state = 'READY'"
_REQUEUE = "UPDATE jobs SET state = 'READY', reason = NULL, reason_code = NULL WHERE id = ? AND state = 'SKIPPED'"
_HEIRS = """
SELECT (SELECT min(o.job) FROM landings o WHERE o.run = l.run AND o.key = l.key AND o.kept = 0
    AND o.job NOT IN (SELECT value FROM json_each(:ids)))
FROM json_each(:ids) i CROSS JOIN landings l ON l.job = i.value WHERE l.kept = 1
"""
_FORGET = "DELETE FROM landings WHERE job IN (SELECT value FROM json_each(?))"
_CROWDED = """
SELECT coalesce(j.target, j.url) AS url, s.grp AS "group", c.pages - 1 AS pages FROM (
    SELECT key, count(*) AS pages, max(CASE WHEN kept = 1 THEN job END) AS job FROM landings
    WHERE run = ? GROUP BY key HAVING count(*) > ?) c
CROSS JOIN jobs j ON j.id = c.job CROSS JOIN sequences s ON s.id = j.sequence ORDER BY c.job
"""


class Landing(NamedTuple):
    """A done page at a URL that redirects lead to; in the column order of the statement that writes it."""

    run: int
    key: bytes
    """Of its group and its document (`landing_key`)."""
    job: int
    redirected: int
    """0: the URL is that of the job itself."""
    kept: int
    """1: it has the rows."""


class OwnJob(NamedTuple):
    """The job of a URL itself."""

    page_key: bytes
    """Of a plain link to the URL."""
    id: int
    state: JobState
    carried: str | None
    document: bytes | None
    """The key of its document."""

    def has_landed(self, key: bytes, group: str) -> bool:
        """Whether it is done with the document of that key, and with nothing of its own in its rows."""
        if self.state != JobState.DONE or self.document is None or Carried.from_json(self.carried).values:
            return False
        return landing_key(group, self.document) == key


class CrowdedPage(NamedTuple):
    """A page to which many others redirect."""

    url: str
    group: str
    pages: int
    """That have no rows for it."""


def list_known(db: Database, run: int, keys: Iterable[bytes]) -> dict[bytes, int | None]:
    """Those of these keys that have pages, with the first job that has the rows."""
    return dict(db.execute_values(_KNOWN, [(run, key) for key in keys]))


def list_own_jobs(db: Database, run: int, page_keys: Iterable[bytes]) -> list[OwnJob]:
    """The jobs of the URLs themselves."""
    return [OwnJob(*row) for row in db.execute_values(_OWN_JOBS, [(run, key) for key in page_keys])]


def add(db: Database, found: Sequence[Landing]) -> None:
    """Note pages, or what became of them."""
    db.execute_values(_ADD, found)


def list_kept(db: Database, run: int, keys: Iterable[bytes]) -> dict[bytes, list[tuple[int, bool]]]:
    """By key, the jobs that have rows, and whether each was redirected; the first one first."""
    kept: dict[bytes, list[tuple[int, bool]]] = {}
    for key, job, redirected in db.execute_values(_KEPT, [(run, key) for key in keys]):
        kept.setdefault(key, []).append((job, bool(redirected)))
    return {key: sorted(jobs) for key, jobs in kept.items()}


def skip_done(db: Database, found: Iterable[tuple[int, bool]]) -> None:
    """Skip done jobs, whose rows another one has now; pairs of a job and whether it was redirected."""
    for job, is_redirected in found:
        db.execute(_LEAVE, (job,))
        db.execute(_SKIP, (REDIRECTS if is_redirected else IS_LED_TO, job))
        db.execute(_NOT_KEPT, (id_list([job]),))


def requeue(db: Database, job: int) -> None:
    """Have a skipped job be worked again, from the target of its redirect."""
    db.execute(_FORGET, (id_list([job]),))
    db.execute(_REQUEUE, (job,))


def list_heirs(db: Database, ids: Iterable[int]) -> list[int]:
    """The jobs that are the first ones at their URL once these are not."""
    return sorted({int(job) for (job,) in db.all(_HEIRS, {"ids": id_list(ids)}) if job is not None})


def forget(db: Database, ids: Iterable[int]) -> None:
    """Forget where jobs were, which start again."""
    db.execute(_FORGET, (id_list(ids),))


def list_crowded(db: Database, run: int) -> list[CrowdedPage]:
    """The pages to which many others redirect."""
    return db.rows(CrowdedPage, _CROWDED, (run, MANY_PAGES))


class Landed(Effect):
    """Where the page of a job is: at the target of its redirects, or at its own URL, to which redirects lead."""

    key: bytes
    """Of its group and its document (`landing_key`)."""
    page_key: bytes = b""
    """Of a plain link to the target; empty: it is at its own URL."""
    has_values: bool = False
    """Whether it has values of its own, such as those of its seed: it keeps its rows."""
    own_jobs: tuple[int, ...] = ()
    """The jobs of the target itself that were done before any redirect led there."""


def settle(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """Skip the pages whose rows another job has, or will have."""
    redirected = [(outcome, landed) for outcome in outcomes if (landed := outcome.find(Landed)) is not None]
    if not redirected and not commit.has_landings:
        return []
    redirected = [pair for pair in redirected if pair[0].state in (JobState.DONE, JobState.FAILED)]
    own = [(outcome, Landed(key)) for outcome in outcomes if (key := _key_of_own(outcome)) is not None]
    keys = dict.fromkeys([landed.key for _, landed in (*redirected, *own)])
    known = list_known(commit.db, commit.run, keys) if keys else {}
    redirected = _find_own_jobs(commit, redirected, known)
    sought = known.keys() | {landed.key for _, landed in redirected if not landed.has_values}
    own = [(outcome, landed) for outcome, landed in own if landed.key in sought]
    first: dict[bytes, int] = {key: job for key, job in known.items() if job is not None}
    for outcome, landed in (*redirected, *own):
        if not landed.has_values:
            candidates = (first.get(landed.key, outcome.job.id), outcome.job.id, *landed.own_jobs)
            first[landed.key] = min(candidates)
    for outcome, landed in (*redirected, *own):
        if not landed.has_values and outcome.job.id != first[landed.key]:
            _skip(outcome, REDIRECTS if landed.page_key else IS_LED_TO, leads_on=True)
    return own


def _find_own_jobs(
    commit: Commit, redirected: Sequence[tuple[JobOutcome, Landed]], known: dict[bytes, int | None]
) -> list[tuple[JobOutcome, Landed]]:
    """Find the jobs of targets themselves, where that decides; the pages that their group does not skip."""
    wanted = {
        landed.page_key
        for outcome, landed in redirected
        if _follows_links(outcome) or (landed.key not in known and not landed.has_values)
    }
    by_page: dict[bytes, list[OwnJob]] = {}
    for job in list_own_jobs(commit.db, commit.run, wanted) if wanted else ():
        by_page.setdefault(job.page_key, []).append(job)
    kept = []
    for outcome, landed in redirected:
        jobs = by_page.get(landed.page_key, ())
        if _follows_links(outcome) and not any(job.id != outcome.job.id for job in jobs):
            _skip(outcome, UNLINKED, leads_on=False)
            continue
        own = [job.id for job in jobs if landed.key not in known and job.has_landed(landed.key, outcome.job.group)]
        landed.own_jobs = tuple(own)
        kept.append((outcome, landed))
    return kept


def _key_of_own(outcome: JobOutcome) -> bytes | None:
    """The key of a page that is at the URL of its job, and has nothing of its own in its rows."""
    job = outcome.job
    if outcome.state is not JobState.DONE or job.kind is not JobKind.PAGE or outcome.target not in (None, job.url):
        return None
    if not job.request.is_plain_get or has_own_values(job) or outcome.find(Landed) is not None:
        return None
    return landing_key(job.group, document_key(job.url, variant=job.request.variant))


def has_own_values(job: LeasedJob) -> bool:
    """Whether its rows may have values that no other job gives them: of its seed, or of the page that leads to it."""
    return job.lineage.carried is not None and bool(Carried.from_json(job.lineage.carried).values)


def _follows_links(outcome: JobOutcome) -> bool:
    return outcome.job.plan.group.redirects == "linked"


def _skip(outcome: JobOutcome, reason: str, *, leads_on: bool) -> None:
    """Skip a page. `leads_on`: its links count, since it may be nearer to its locator than the page with the rows."""
    job = outcome.job
    text = f"SKIPPED: {reason}  {outcome.target or job.url}"
    kept = [
        _without_rows(effect)
        for effect in outcome.effects
        if not isinstance(effect, (Extracted, Event)) or (leads_on and isinstance(effect, Children))
    ]
    outcome.state, outcome.reason = JobState.SKIPPED, reason
    outcome.effects = (*kept, Event(time.time(), "INFO", "store", "page", text, job.id))


def _without_rows(effect: Effect) -> Effect:
    """What remains of an effect of a page that is skipped: its text still counts in a streak of pages."""
    if isinstance(effect, PluginRun):
        return PluginRun({})
    return PageSeen(effect.digest) if isinstance(effect, PageSeen) else effect
