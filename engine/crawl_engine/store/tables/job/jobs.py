"""Writes the table `jobs`: create, lease, finish, release. Leases fence writes to leased jobs."""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from msgspec import json

from crawl_engine.model.job import JOB_TRANSITIONS, JobState, LeasedJob, ReasonCode
from crawl_engine.store.db.connector import Database, id_list, source_states
from crawl_engine.store.tables.job import extracts
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome, LeasedRow

PRIORITY_RANGE = 2**32
"""More than the largest difference of two priorities: a job lowered by it comes last in its sequence."""
MAX_CRASHES = 3
"""Node deaths after which a job is FAILED: one while others were held, two while it was held alone."""


def given_priority(priority: int) -> int:
    """The priority that the defs give a job; a job that is to come last is lowered by `PRIORITY_RANGE`."""
    return (priority + PRIORITY_RANGE // 2) % PRIORITY_RANGE - PRIORITY_RANGE // 2


def _states_before(*targets: JobState) -> str:
    return source_states(JOB_TRANSITIONS, *targets)


NOW = "((julianday('now') - 2440587.5) * 86400.0)"
"""Wall-clock seconds since 1970."""

# CROSS JOIN: each locator finds its link by index; without it, the planner reads all jobs for every batch
_UNSTARTED_LINKS = f"""
WITH l (run, locator, page_key, identity, priority, carried) AS ({{values}})
SELECT l.locator, l.page_key, l.identity, l.priority, l.carried, j.id FROM l
CROSS JOIN jobs j ON j.run = l.run AND j.identity = l.page_key
WHERE j.state IN {_states_before(JobState.TAKEN)} AND j.attempts = 0
    AND NOT EXISTS (SELECT 1 FROM jobs other WHERE other.run = l.run AND other.identity = l.identity)
"""
# parents of a run are the newest jobs of all while it is worked
_HAS_LINKS = """
SELECT coalesce((SELECT p.run = ? FROM jobs p WHERE p.id = m.parent), m.parent IS NOT NULL)
FROM (SELECT max(parent) AS parent FROM jobs WHERE parent IS NOT NULL) m
"""
_TURN_INTO_LOCATOR = """
UPDATE jobs SET origin = 'locator', depth = 0, root = NULL, locator = ?, page_key = ?, identity = ?,
    priority = max(priority, ?), carried = ?, may_leave_host = 1, fresh_since = NULL
WHERE id = ?
"""
_ADD_LOCATORS = """
WITH l (run, sequence, priority, locator, url, page_key, identity, carried) AS ({values})
INSERT INTO jobs (run, sequence, priority, origin, locator, url, page_key, identity, carried)
SELECT run, sequence, priority, 'locator', locator, url, page_key, identity, carried FROM l WHERE true
ON CONFLICT (run, identity) DO UPDATE SET locator = excluded.locator
WHERE jobs.locator IS NOT excluded.locator AND jobs.carried IS excluded.carried
"""
"""Another locator of the same identity: its request changed, such as a password. A seed keeps what its values sent."""
_SHARED = """
WITH l (run, identity, locator) AS ({values})
SELECT j.url, mine.name, mine.request, other.request FROM l
CROSS JOIN jobs j ON j.run = l.run AND j.identity = l.identity
CROSS JOIN locators mine ON mine.id = l.locator CROSS JOIN locators other ON other.id = j.locator
WHERE j.locator <> l.locator
"""
_ADD_ROBOTS = """
INSERT INTO jobs (run, sequence, origin, url, identity) VALUES (?, ?, 'link', ?, ?)
ON CONFLICT (run, identity) DO UPDATE SET state = 'READY', reason = NULL, reason_code = NULL
WHERE jobs.state = 'SKIPPED'
"""
_ADD_LOGIN = """
INSERT INTO jobs (run, sequence, origin, url, identity, may_leave_host) VALUES (?, ?, 'link', ?, ?, 0)
ON CONFLICT (run, identity) DO UPDATE SET url = excluded.url WHERE jobs.state <> 'TAKEN'
"""
_TAKE = f"""
UPDATE jobs SET state = 'TAKEN', lease = ?, node = ?, changed_at = {NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state IN {_states_before(JobState.TAKEN)}
"""
_FENCED_STATES = _states_before(JobState.READY, JobState.DONE, JobState.FAILED, JobState.SKIPPED, JobState.INCOMPLETE)
# the digest by a subquery: most jobs are worked once, and have no document yet
_LEASED = f"""
WITH f (id, lease, parent, carried) AS ({{values}})
SELECT json_group_array(json_array(
    jobs.id, CASE WHEN jobs.lease = f.lease AND jobs.state IN {_FENCED_STATES} THEN 1 ELSE 0 END,
    CASE WHEN page.id IS NOT NULL AND page.carried IS NOT f.carried THEN 1 ELSE 0 END,
    (SELECT hex(d.digest) FROM documents d WHERE d.id = jobs.document)
)) FROM f CROSS JOIN jobs ON jobs.id = f.id LEFT JOIN jobs page ON page.id = f.parent
"""
_FINISH = f"""
WITH f (id, lease, state, attempts, not_before, sequence, hops, target, document, defs, reason, priority,
    reason_code) AS ({{values}})
UPDATE jobs SET state = f.state, attempts = jobs.attempts + f.attempts, not_before = f.not_before, lease = NULL,
    hops = f.hops, target = f.target, document = coalesce(f.document, jobs.document), defs = f.defs, reason = f.reason,
    reason_code = f.reason_code, priority = coalesce(f.priority, jobs.priority), changed_at = {NOW}
FROM f WHERE jobs.id = f.id AND jobs.lease = f.lease AND jobs.state IN {_FENCED_STATES}
"""
_MOVE = """
WITH e (id, sequence) AS ({values}) UPDATE jobs SET sequence = e.sequence FROM e
WHERE jobs.id = e.id AND jobs.sequence <> e.sequence
"""
_CLAIM = """
UPDATE jobs SET target = ? WHERE id = ? AND lease = ? AND state = 'TAKEN' AND NOT EXISTS (
    SELECT 1 FROM jobs t WHERE t.state = 'TAKEN' AND coalesce(t.target, t.url) = ? AND t.run = ? AND t.id <> ?
) RETURNING id
"""
_ASK_AGAIN = "UPDATE jobs SET asked_again = 1 WHERE id IN (SELECT value FROM json_each(?))"
_IS_HELD = "SELECT EXISTS (SELECT 1 FROM jobs WHERE id = ? AND lease = ? AND state = 'TAKEN')"
_IS_PARDONED = "attempts = 0 AND EXISTS (SELECT 1 FROM sequences s WHERE s.id = jobs.sequence AND s.kind = 'file')"
"""The first death of a node during a download is an attempt: a suspect is worked alone, and a file may take hours."""
_CRASHED = f"CASE WHEN :crashed = 1 AND NOT ({_IS_PARDONED}) THEN 1 ELSE 0 END"
_RELEASE = f"""
UPDATE jobs SET state = CASE WHEN crashes + {_CRASHED} >= {MAX_CRASHES} THEN 'FAILED' ELSE 'READY' END, lease = NULL,
    crashes = crashes + {_CRASHED}, attempts = attempts + CASE WHEN :crashed = 1 AND {_IS_PARDONED} THEN 1 ELSE 0 END,
    reason = CASE WHEN crashes + {_CRASHED} >= {MAX_CRASHES}
        THEN '{MAX_CRASHES} nodes died while it ran, the last one: ' || :reason ELSE :reason END,
    reason_code = NULL, changed_at = {NOW}
WHERE node = :node AND state = 'TAKEN' AND state IN {_states_before(JobState.READY, JobState.FAILED)} RETURNING id
"""
# `+run` hides the column from the planner, which would read all jobs of the run instead of the index of TAKEN ones
_RELEASE_ALL = f"""
UPDATE jobs SET state = 'READY', lease = NULL, reason = ?, changed_at = {NOW}
WHERE +run = ? AND state = 'TAKEN' AND state IN {_states_before(JobState.READY)} RETURNING id
"""
_PROMOTE = """
UPDATE jobs SET not_before = NULL WHERE run = ? AND state = 'READY' AND not_before <= ?
RETURNING sequence
"""
_NEXT_DUE = "SELECT min(not_before) FROM jobs WHERE run = ? AND state = 'READY' AND not_before IS NOT NULL"
_REOPEN = f"""
UPDATE jobs SET state = 'READY', attempts = 0, crashes = 0, hops = 0, target = NULL, not_before = NULL, reason = NULL,
    reason_code = NULL, fresh_since = NULL, asked_again = 0,
    priority = priority + {PRIORITY_RANGE} * (({PRIORITY_RANGE // 2} - priority) / {PRIORITY_RANGE}),
    changed_at = {NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state IN {_states_before(JobState.READY)} AND state <> 'TAKEN'
"""
_FIND_ENDED = "SELECT id FROM jobs WHERE run = ? AND identity = ? AND state IN ('DONE', 'FAILED', 'SKIPPED')"
_RESUME = f"UPDATE jobs SET state = 'READY', reason = NULL, changed_at = {NOW} WHERE run = ? AND state = 'INCOMPLETE'"
_SKIP = f"""
UPDATE jobs SET state = 'SKIPPED', not_before = NULL, reason = ?, reason_code = ?, changed_at = {NOW} WHERE id IN (
    SELECT id FROM jobs WHERE sequence = ? AND state = 'READY' AND not_before IS NULL LIMIT +?
) AND state IN {_states_before(JobState.SKIPPED, JobState.TAKEN)}
"""
_SKIP_DELAYED = """
UPDATE jobs SET state = 'SKIPPED', not_before = NULL, reason = ?, reason_code = ? WHERE id IN (
    SELECT id FROM jobs WHERE run = ? AND state = 'READY' AND not_before IS NOT NULL AND +sequence = ? LIMIT +?)
"""
_PASSING = (ReasonCode.GROUP, ReasonCode.LIMIT, ReasonCode.ADDRESS, ReasonCode.ROBOTS)
"""Reasons that a change of the defs or of a host may end."""
# two parts, each with an index: a condition on both states would read all jobs
_REQUEUE_SKIPPED = f"""
UPDATE jobs SET state = 'READY', reason = NULL, reason_code = NULL WHERE id IN (
    SELECT id FROM jobs WHERE sequence = :sequence AND state = 'SKIPPED'
        AND reason_code IN ('{"', '".join(_PASSING)}')
    UNION ALL
    SELECT id FROM jobs WHERE sequence = :sequence AND state = 'FAILED' AND reason_code = '{ReasonCode.ROBOTS}'
    LIMIT +:limit
) AND state IN {_states_before(JobState.READY)}
"""
_DROP = "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_HAS_OPEN_JOBS = """
SELECT EXISTS (SELECT 1 FROM sequences s WHERE s.run = :run AND EXISTS (
        SELECT 1 FROM jobs WHERE sequence = s.id AND state = 'READY' AND not_before IS NULL))
    OR EXISTS (SELECT 1 FROM jobs WHERE run = :run AND state = 'READY' AND not_before IS NOT NULL)
    OR EXISTS (SELECT 1 FROM jobs WHERE +run = :run AND state = 'TAKEN')
    OR EXISTS (SELECT 1 FROM jobs WHERE run = :run AND state = 'INCOMPLETE')
"""


_leased_decoder = json.Decoder(list[LeasedRow], strict=False)


class AskedAgain(Effect):
    """The page of a job was empty, and is asked for once more."""


class NewLocator(NamedTuple):
    """A job to create for a locator. `page_key`: identity of a link to the same page; None: no link can be equal."""

    run: int
    sequence: int
    priority: int
    locator: int
    url: str
    page_key: bytes | None
    identity: bytes
    carried: str | None = None
    """What its page knows (`link.Carried`): the values of its seed."""


class JobUpdate(NamedTuple):
    """The new state of a leased job. READY: it is retried, at once or at `not_before` (boot-time seconds).

    In the column order of the statement that writes it.
    """

    id: int
    lease: int
    state: JobState
    attempts: int = 0
    """Fetch attempts to add."""
    not_before: float | None = None
    sequence: int | None = None
    """The sequence it moves to; None: it stays."""
    hops: int = 0
    target: str | None = None
    document: int | None = None
    defs: int | None = None
    reason: str | None = None
    priority: int | None = None
    """None: it stays."""
    reason_code: ReasonCode | None = None


def add_locators(db: Database, locators: Sequence[NewLocator]) -> None:
    """Create jobs of locators; an unstarted link job for the same page becomes the locator's job."""
    if locators and db.value(_HAS_LINKS, (locators[0].run,)):
        plain = [
            (j.run, j.locator, j.page_key, j.identity, j.priority, j.carried)
            for j in locators
            if j.page_key is not None
        ]
        for link in db.execute_values(_UNSTARTED_LINKS, plain):
            db.execute(_TURN_INTO_LOCATOR, link)
    unique: dict[bytes, NewLocator] = {}
    for locator in locators:
        known = unique.setdefault(locator.identity, locator)
        if known.carried == locator.carried:
            unique[locator.identity] = known._replace(locator=locator.locator)
    db.execute_values(_ADD_LOCATORS, list(unique.values()))


def list_shared(db: Database, locators: Sequence[NewLocator]) -> list[tuple[str, str, str, str]]:
    """Of those whose job has the request of another one: URL, name, and both requests."""
    return list(db.execute_values(_SHARED, [(one.run, one.identity, one.locator) for one in locators]))


def add_robots(db: Database, run: int, sequence: int, url: str, identity: bytes) -> None:
    """Create the job that reads a host's robots.txt, or requeue the one that the address guard skipped."""
    db.execute(_ADD_ROBOTS, (run, sequence, url, identity))


def add_login(db: Database, run: int, sequence: int, url: str, identity: bytes) -> None:
    """Create the job that logs in to a host, or give it another URL."""
    db.execute(_ADD_LOGIN, (run, sequence, url, identity))


def take(db: Database, ids: Sequence[int], lease: int, node: int) -> None:
    if ids:
        db.execute(_TAKE, (lease, node, id_list(ids)))


def read_leased(db: Database, leases: Sequence[tuple[int, int, int, str | None]]) -> dict[int, LeasedRow]:
    """What the store says of leased jobs: by id, without jobs that are gone. Each job at most once.

    `leases`: job, lease, the job of its page (0: it has none) and what that carried then. They come as one value, as
    all that a commit asks of its jobs: each row of a cursor would release the interpreter lock.
    """
    return {row.id: row for (rows,) in db.execute_values(_LEASED, leases) for row in _leased_decoder.decode(rows)}


def finish(
    db: Database, updates: Sequence[JobUpdate], leased: Mapping[int, LeasedRow], completed_extracts: Container[int] = ()
) -> set[int]:
    """Update leased jobs; returns the ids whose lease was valid: the results of others must be dropped.

    `leased`: as read in this transaction. Jobs in `completed_extracts` are deleted instead: a finished re-extraction
    leaves no job.
    """
    valid = {update.id for update in updates if (row := leased.get(update.id)) is not None and row.is_held}
    if completed_extracts or len(valid) < len(updates):
        kept: Sequence[JobUpdate] = [u for u in updates if u.id in valid and u.id not in completed_extracts]
    else:
        kept = updates
    db.execute_values(_FINISH, kept)
    if completed_extracts:
        db.execute(_DROP, (id_list(id_ for id_ in valid if id_ in completed_extracts),))
    move(db, [(u.id, u.sequence) for u in updates if u.sequence is not None and u.id in valid])
    return valid


def claim_target(db: Database, job: LeasedJob, target: str) -> bool:
    """Record that a job now fetches `target`; False if another job fetches it, or the lease is lost."""
    return db.value(_CLAIM, (target, job.id, job.lease, target, job.run, job.id)) is not None


def write_asked_again(commit: Commit, made: Sequence[tuple[JobOutcome, AskedAgain]]) -> None:
    """Remember the jobs whose page is asked for once more."""
    commit.db.execute(_ASK_AGAIN, (id_list(outcome.job.id for outcome, _ in made),))


def was_asked_again(db: Database, job: int) -> bool:
    """Whether the page of a job was empty before, and was asked for once more."""
    return bool(db.value("SELECT asked_again FROM jobs WHERE id = ?", (job,)))


def is_held(db: Database, job: LeasedJob) -> bool:
    return bool(db.value(_IS_HELD, (job.id, job.lease)))


def release(db: Database, node: int, reason: str, *, crashed: bool) -> int:
    """Make the jobs of a dead node READY again, or FAILED after too many node deaths; returns how many.

    `crashed`: the node was not stopped on purpose, so one of its jobs may be the cause.
    """
    return len(db.all(_RELEASE, {"crashed": int(crashed), "reason": reason, "node": node}))


def release_all(db: Database, run: int, reason: str) -> int:
    """Make every TAKEN job of a run READY again; returns how many."""
    return len(db.all(_RELEASE_ALL, (reason, run)))


def promote(db: Database, run: int, now: float) -> int:
    """Make delayed jobs due whose deadline has passed; returns how many."""
    return len(db.all(_PROMOTE, (run, now)))


def next_due(db: Database, run: int) -> float | None:
    """The earliest deadline of a delayed job, in boot-time seconds."""
    return db.value(_NEXT_DUE, (run,))


def resume_incomplete(db: Database, run: int) -> None:
    db.execute(_RESUME, (run,))


def reopen(db: Database, ids: Sequence[int], moves: Sequence[tuple[int, int]]) -> int:
    """Make ended jobs READY, to start from their first request; returns how many.

    `moves`: (job, sequence) of jobs that a redirect moved to another host.
    """
    extracts.drop_of_pages(db, ids)  # a page that is fetched again is extracted then
    count = int(db.execute(_REOPEN, (id_list(ids),)).rowcount)
    move(db, moves)
    return count


def move(db: Database, moves: Sequence[tuple[int, int]]) -> None:
    """Give jobs to other sequences; `moves`: (job, sequence)."""
    if moves:
        db.execute_values(_MOVE, moves)


def find_ended(db: Database, run: int, identity: bytes) -> int | None:
    return db.value(_FIND_ENDED, (run, identity))


def skip_ready(db: Database, sequence: int, reason: str, limit: int, code: ReasonCode | None = None) -> int:
    """Skip due jobs of a sequence, at most `limit`; returns how many."""
    return int(db.execute(_SKIP, (reason, code, sequence, limit)).rowcount)


def skip_delayed(db: Database, run: int, sequence: int, reason: str, limit: int, code: ReasonCode | None = None) -> int:
    """Skip delayed jobs of a sequence, at most `limit`; returns how many."""
    return int(db.execute(_SKIP_DELAYED, (reason, code, run, sequence, limit)).rowcount)


def requeue_skipped(db: Database, sequence: int, limit: int) -> int:
    """Requeue at most `limit` jobs whose reason may have ended; returns how many."""
    return int(db.execute(_REQUEUE_SKIPPED, {"sequence": sequence, "limit": limit}).rowcount)


def has_open_jobs(db: Database, run: int) -> bool:
    """Whether a job of any kind is READY, TAKEN or INCOMPLETE: read from the indexes, not the counters."""
    return bool(db.value(_HAS_OPEN_JOBS, {"run": run}))


def shift_deadlines(db: Database, shift: float) -> None:
    """After a reboot: move every deadline by `shift` seconds."""
    db.execute("UPDATE jobs SET not_before = not_before + ? WHERE state = 'READY' AND not_before IS NOT NULL", (shift,))


def count_locators(db: Database, run: int) -> int:
    """The jobs of a run's locators. Reads all its jobs."""
    return int(db.value("SELECT count(*) FROM jobs WHERE run = ? AND origin = 'locator'", (run,)))
