"""Creates the page that a finished one leads to, and leases it, before the finished one is committed.

The pages of a series follow one another: if each waited for the commit of the one before, each would be a commit of its
own. A node's death undoes nothing of this: the finished page is worked again, and leads to a job that exists.
"""

from msgspec import Struct

from engine.model.job import LeasedJob
from engine.model.link import LinkRequest
from engine.store.db.connector import Database
from engine.store.read import candidates
from engine.store.tables.job import jobs, linked_jobs, rings
from engine.store.tables.run import nodes
from engine.store.transactions import supersede
from engine.store.transactions.children import add_child_jobs, to_link
from engine.store.transactions.lease import (
    Lease,
    LeaseRequest,
    lease_sequences,
    may_take_new_job,
    read_sequence,
    to_leased_job,
)
from engine.store.transactions.outcome import JobOutcome
from engine.store.transactions.placement import PlacementCache


class NextPageLease(Struct, frozen=True):
    """`leased`: the node's next jobs. `ring`: sequences to ring now. `due`: boot-time second of a timer."""

    leased: tuple[LeasedJob, ...]
    ring: tuple[int, ...]
    due: float | None


def lease_next_page(
    db: Database, run: int, outcome: JobOutcome, places: PlacementCache, now: float, request: LeaseRequest
) -> NextPageLease | None:
    """Create the child job of an outcome, and lease to the same node what it may take now: that job, as a rule.

    The commit of the outcome then creates no job. Returns None and writes nothing if the lease of the outcome is not
    valid. Not durable before that commit. Raises Fenced, DatabaseBusy or StorageError.
    """
    got, ring = Lease(), []
    try:
        with db.light_transaction():
            nodes.check_live(db, request.node)
            if not jobs.is_held(db, outcome.job):
                return None
            supersede.resolve_outdated(db, run, [outcome], reextract_stale=False)
            job = _create_taken(db, run, outcome, places, now, request)
            if job is not None:
                got = Lease((job,))
            else:
                touched_hosts: set[int] = set()
                add_child_jobs(db, run, [outcome], places, touched_hosts)
                for child in outcome.children:
                    place = places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
                    if not candidates.has_suspect(db, [place.sequence]):  # a suspect goes to a node that holds nothing
                        (got,) = lease_sequences(db, request, [place.sequence], now, _leave_ring)
                if not got.jobs or got.ring:
                    ring = rings.ring_hosts(db, touched_hosts, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    return NextPageLease(leased=got.jobs, ring=tuple(ring), due=got.due)


def _create_taken(
    db: Database, run: int, outcome: JobOutcome, places: PlacementCache, now: float, request: LeaseRequest
) -> LeasedJob | None:
    """Create the only child as a leased job, in one statement.

    Returns None and writes nothing if that page has a job, other jobs come first, or a limit has to be counted.
    """
    if len(outcome.children) != 1 or outcome.job.links_stale:
        return None
    (child,) = outcome.children
    if LinkRequest.from_json(child.request).relation == "canonical":
        return None  # an existing job of that page has to change
    place = places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
    state = read_sequence(db, place.sequence)
    if state is None or not may_take_new_job(state, request, now):
        return None
    page = to_link(run, outcome.job, child, place.sequence)
    row = linked_jobs.add_taken(db, page, in_series=child.in_series, lease=request.lease_id, node=request.node)
    return None if row is None else to_leased_job(state, request, place.sequence, row, None)


def _leave_ring(sequence: int, got: Lease) -> None:
    """Do nothing: an earlier ring of the sequence serves its other jobs."""
