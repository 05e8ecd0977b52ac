"""Finds or creates the host and the sequence of a new job; a new host gets its robots job."""

from collections.abc import Callable, Iterable, Sequence

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome, Placement
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions import logins
from crawl_engine.store.transactions.robots import add_robots_job


def apply_host_policy(db: Database, run: int, host_key: str, policy: HostPolicy) -> int:
    """Change the policy of a host of this run: its pages now wait for its robots.txt, or no longer do.

    Returns the id of the host.
    """
    host, origin, (before, robots) = hosts.apply_policy(db, run, host_key, policy)
    if robots != before and robots == "WANTED":
        add_robots_job(db, run, host, host_key, origin)
    elif robots != before and robots == "OFF":
        sequences.recheck_skipped_of_host(db, host)
    return host


def readmit_host(db: Database, run: int, host_key: str, policy: HostPolicy) -> None:
    """Requeue what the address guard skipped on a host that the defs name now; its robots.txt is asked for again."""
    sequences.recheck_skipped_of_host(db, apply_host_policy(db, run, host_key, policy))


def settle_guarded(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """Requeue the jobs of a host that was named while its refusal was on its way here: naming it did not see them."""
    for outcome in outcomes:
        failure = outcome.find(HostFailure) if outcome.state is JobState.SKIPPED else None
        refused = None if failure is None else failure.guarded
        if refused is not None and hosts.is_named(commit.db, commit.run, refused):
            outcome.state, outcome.reason, outcome.reason_code = JobState.READY, None, None
            outcome.remove(Event)
    return ()


_FIND = """
SELECT s.id AS sequence, h.id AS host
FROM hosts h CROSS JOIN sequences s ON s.run = h.run AND s.grp = ? AND s.host = h.id AND s.kind = ?
WHERE h.run = ? AND h.key = ? AND h.robots <> 'WANTED'
"""


class PlacementCache:
    """Finds the placement of a job in one run, and caches those that were committed."""

    def __init__(self, run: int, host_policy: Callable[[str], HostPolicy]) -> None:
        """`host_policy` is called with a host key (`name:port`)."""
        self._run = run
        self.host_policy = host_policy
        self._committed: dict[tuple[str, str, JobKind], Placement] = {}
        self._uncommitted: dict[tuple[str, str, JobKind], Placement] = {}

    def find_or_create(
        self, db: Database, group: str, host_key: str, origin: str, kind: JobKind = JobKind.PAGE
    ) -> Placement:
        """The placement of a job, created in the open transaction if missing."""
        key = (group, host_key, kind)
        place = self._committed.get(key) or self._uncommitted.get(key)
        if place is None:
            policy = self.host_policy(host_key)
            if policy.login is None:
                place = db.row(Placement, _FIND, (group, kind, self._run, host_key))
            place = self._uncommitted[key] = place or self._create(db, group, host_key, origin, kind, policy)
        return place

    def _create(
        self, db: Database, group: str, host_key: str, origin: str, kind: JobKind, policy: HostPolicy
    ) -> Placement:
        host, robots_missing = hosts.ensure(db, self._run, host_key, origin, policy)
        if robots_missing and kind is not JobKind.ROBOTS:  # a redirected robots.txt obeys no other one
            add_robots_job(db, self._run, host, host_key, origin)
        if policy.login is not None:
            logins.ensure_job(db, self._run, host, host_key, origin, policy.login)
        return Placement(sequences.ensure(db, self._run, group, host, kind), host)

    def commit_cache(self) -> None:
        """Keep the placements found in the transaction that was committed."""
        self._committed |= self._uncommitted
        self._uncommitted = {}

    def rollback_cache(self) -> None:
        """Drop the placements found in the transaction that was rolled back."""
        self._uncommitted = {}
