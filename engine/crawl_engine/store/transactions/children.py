"""Creates the child jobs of outcomes: in the commit, or in pieces before it if a page has many."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import LinkRequest
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job import extracts, jobs, linked_jobs, rings
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children, NewLink
from crawl_engine.store.tables.outcome import Commit, JobOutcome
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.transactions import supersede
from crawl_engine.store.transactions.placement import PlacementCache


class ChildrenResult(Struct, frozen=True):
    """`committed`: the children that have jobs now; the others are of groups that the current defs lack."""

    committed: tuple[ChildJob, ...]
    ring: tuple[int, ...]
    """Sequences to ring now."""


def commit_children(
    db: Database, node: int, run: int, outcome: JobOutcome, count: int, places: PlacementCache, now: float
) -> ChildrenResult | None:
    """Create jobs for the first `count` children of an outcome, in a transaction before that of its commit.

    They leave its children. A repeated attempt at the job creates them once: their identity is unique.
    None if the lease is no longer valid: nothing is written. Raises Fenced, DatabaseBusy or StorageError.
    """
    children = outcome.find(Children)
    assert children is not None
    piece = Children(children.jobs[:count])
    part, commit = replace(outcome, effects=(piece,)), Commit(db, run, now, places, reextract_stale=False)
    try:
        with db.transaction():
            nodes.check_live(db, node)
            if not jobs.is_held(db, outcome.job):
                return None
            supersede.settle_outdated(commit, [part])
            write(commit, [(part, piece)])
            ring = rings.ring_hosts(db, commit.touched_hosts, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    children.jobs = children.jobs[count:]
    outcome.links_dropped |= part.links_dropped
    return ChildrenResult(piece.jobs, tuple(ring))


def write(commit: Commit, made: Sequence[tuple[JobOutcome, Children]]) -> None:
    """Create the missing jobs of children.

    Done pages that carry something else from now on are queued for re-extraction.
    """
    db = commit.db
    links: dict[bytes, NewLink] = {}
    next_pages: dict[bytes, NewLink] = {}
    series_pages: dict[bytes, NewLink] = {}
    carrying: dict[tuple[bytes, int | None], NewLink] = {}
    for outcome, children in made:
        for child in children.jobs:
            kept = series_pages if child.in_series else links if child.page_key is None else next_pages
            is_new = child.identity not in kept
            carries = child.carried is not None or outcome.job.extraction.links_stale  # a link may carry nothing now
            if not is_new and not carries:
                continue
            place = commit.places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
            commit.touched_hosts.add(place.host)
            link = to_link(commit.run, outcome.job, child, place.sequence)
            if is_new:
                kept[child.identity] = link
            if carries:  # of two records of a page, the first counts
                carrying.setdefault((child.identity, link.parent), link)
    created = _add(db, links, next_pages, series_pages)
    existing = [link for link in carrying.values() if link.identity not in created]
    again = linked_jobs.carry(db, existing) if existing else []
    if again:
        extracts.queue_again(db, again)
    linked: dict[int, set[bytes]] = {}
    for outcome, children in made:
        if outcome.job.extraction.links_stale:
            linked.setdefault(outcome.job.defs_version, set()).update(child.identity for child in children.jobs)
    for version, identities in linked.items():
        linked_jobs.mark_linked(db, commit.run, version, identities)


def to_link(run: int, job: LeasedJob, child: ChildJob, sequence: int) -> NewLink:
    return NewLink(
        run,
        sequence,
        child.priority,
        child.depth,
        job.lineage.locator_id,
        job.lineage.root,
        child.url,
        child.identity,
        int(child.may_leave_host),
        job.page_id,
        child.request,
        child.carried,
        child.page_key,
        child.fresh_since,
    )


def _add(
    db: Database,
    links: dict[bytes, NewLink],
    next_pages: dict[bytes, NewLink],
    series_pages: dict[bytes, NewLink],
) -> set[bytes]:
    """Create the jobs. A plain link finds those of `next` and of series that lead to its page: these come first.

    Returns the identities of pages of series that are new: they carry what they were created with.
    """
    created = linked_jobs.add_series_pages(db, list(series_pages.values())) if series_pages else set()
    if next_pages:
        linked_jobs.add_links(db, list(next_pages.values()))
    linked_jobs.add_links(db, list(links.values()))
    canonical = [link for link in links.values() if LinkRequest.from_json(link.request).relation == "canonical"]
    if canonical:
        linked_jobs.keep_canonical(db, canonical)
    return created
