"""Creates the page that a finished one leads to, and leases it, before the finished one is committed.

The pages of a series follow one another: if each waited for the commit of the one before, each would be a commit of its
own. A node's death undoes nothing of this: the finished page is worked again, and leads to a job that exists.
"""

from collections.abc import Sequence

from msgspec import Struct

from crawl_engine.model.job import JobKind, JobOrigin, JobState, LeasedJob
from crawl_engine.model.link import LinkRequest
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.candidates import DueJob
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged
from crawl_engine.store.tables.job import jobs, linked_jobs, rings
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Commit, JobOutcome, Placement
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.tables.run.landings import Landed
from crawl_engine.store.tables.run.page_repeats import PageSeen
from crawl_engine.store.transactions import children, supersede
from crawl_engine.store.transactions.lease import (
    Lease,
    LeaseRequest,
    lease_sequences,
    may_take_new_job,
    read_sequence,
    read_sequences,
    to_leased_job,
)
from crawl_engine.store.transactions.placement import PlacementCache


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
    commit = Commit(db, run, now, places, reextract_stale=False)
    made = [(outcome, created) for created in outcome.find_all(Children)]
    try:
        with db.light_transaction():
            nodes.check_live(db, request.node)
            if not jobs.is_held(db, outcome.job):
                return None
            supersede.settle_outdated(commit, [outcome])
            listed = [child for _, created in made for child in created.jobs]
            job = _create_taken(commit, outcome, listed, request)
            if job is not None:
                got = Lease((job,))
            else:
                children.write(commit, made)
                for child in listed:
                    place = places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
                    if _is_elsewhere(db, outcome, place):
                        continue
                    states = read_sequences(db, [place.sequence], now)
                    if not states[0].has_suspects:  # a suspect goes to a node that holds nothing
                        (got,) = lease_sequences(db, request, states, now, answers=False)
                if not got.jobs or got.ring:
                    ring = rings.ring_hosts(db, commit.touched_hosts, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    return NextPageLease(leased=got.jobs, ring=tuple(ring), due=got.due)


def leads_to_one_page(outcome: JobOutcome) -> bool:
    """Whether its page leads to one further page, as those of a series do, and to nothing else.

    False if that page needs what the commit of this one decides or writes: whether this one is skipped, shared
    cookies, values that plugin steps stored, or the next send time of its host.
    """
    found, plugins, seen = outcome.find(Children), outcome.find(PluginRun), outcome.find(PageSeen)
    return (
        found is not None
        and len(found.jobs) == 1
        and found.jobs[0].kind is JobKind.PAGE
        and outcome.state is JobState.DONE
        and outcome.job.kind is JobKind.PAGE
        and found.later is None
        and outcome.find(CookiesChanged) is None
        and (plugins is None or not plugins.stored_values)
        and (seen is None or seen.max_repeats is None)
        and not outcome.job.terms.delay
        and outcome.find(Landed) is None
    )


def _create_taken(
    commit: Commit, outcome: JobOutcome, listed: Sequence[ChildJob], request: LeaseRequest
) -> LeasedJob | None:
    """Create the only child as a leased job, in one statement.

    Returns None and writes nothing if that page has a job, other jobs come first, or a limit has to be counted.
    """
    if len(listed) != 1 or outcome.job.extraction.links_stale:
        return None
    (child,) = listed
    if LinkRequest.from_json(child.request).relation == "canonical":
        return None  # an existing job of that page has to change
    db = commit.db
    place = commit.places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
    state = None if _is_elsewhere(db, outcome, place) else read_sequence(db, place.sequence, commit.now)
    if state is None or not may_take_new_job(state, request, commit.now):
        return None
    page = children.to_link(commit.run, outcome.job, child, place.sequence)
    origin = JobOrigin.LINK
    if child.in_series:
        page, origin = page._replace(depth=0, root=None, may_leave_host=1, fresh_since=None), JobOrigin.LOCATOR
    new = linked_jobs.add_taken(db, page, origin=origin, lease=request.lease_id, node=request.node)
    if new is None:
        return None
    job = DueJob(
        id=new.id, url=page.url, target=None, depth=page.depth, priority=page.priority, attempts=0, crashes=0, hops=0,
        origin=origin, locator_id=page.locator, root=page.root or new.id, locator=new.locator,
        locator_request=new.locator_request, root_url=new.root_url or page.url,
        may_leave_host=bool(page.may_leave_host), body=None, link=page.request, carried=page.carried,
        fresh_since=page.fresh_since,
    )  # fmt: skip
    return to_leased_job(state, request, job, None)


def _is_elsewhere(db: Database, outcome: JobOutcome, place: Placement) -> bool:
    """Whether another machine may have the host of the next page: a lease claims it."""
    return db.is_shared and place.host != outcome.job.host
