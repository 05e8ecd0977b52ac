"""Creates the page that a finished one leads to, and leases it, before the finished one is committed.

The pages of a series follow one another: if each waited for the commit of the one before, each would be a commit of its
own. A node's death undoes nothing of this: the finished page is worked again, and leads to a job that exists.
"""

from dataclasses import dataclass

from engine.errors import Fenced
from engine.model.job import LeasedJob
from engine.store.db.connector import Database
from engine.store.tables import jobs, nodes, sequences
from engine.store.transactions import supersede
from engine.store.transactions.children import add_child_jobs
from engine.store.transactions.lease import LeaseRequest
from engine.store.transactions.outcome import JobOutcome
from engine.store.transactions.placement import PlacementCache
from engine.store.transactions.refill import lease_next


@dataclass(frozen=True, slots=True)
class NextPage:
    """`leased`: the node's next jobs. `ring`: sequences to ring now. `due`: boot-time seconds of timers."""

    leased: tuple[LeasedJob, ...]
    ring: tuple[int, ...]
    due: tuple[float, ...]


def lease_next_page(
    db: Database, run: int, outcome: JobOutcome, places: PlacementCache, now: float, request: LeaseRequest
) -> NextPage | None:
    """Create the child job of an outcome, and lease to the same node what it may take now: that job, as a rule.

    Its commit creates no job any more. None, and nothing is written, where the lease of the outcome is not valid.
    Not durable before that commit. Raises Fenced, DatabaseBusy or StorageError.
    """
    try:
        with db.light_transaction():
            if nodes.get_live_role(db, request.node) is None:
                raise Fenced(f"node epoch {request.node} is over", "Another process took its place; this one ends.")
            if not jobs.is_held(db, outcome.job):
                return None
            touched_hosts: set[int] = set()
            supersede.resolve_outdated(db, run, [outcome], reextract_stale=False)
            add_child_jobs(db, run, [outcome], places, touched_hosts)
            leases, ring = lease_next(db, run, request, sequences.ring_hosts(db, touched_hosts, now), now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    return NextPage(
        leased=tuple(job for lease in leases for job in lease.jobs),
        ring=tuple(ring),
        due=tuple(lease.due for lease in leases if lease.due is not None),
    )
