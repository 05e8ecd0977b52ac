"""Creates the child jobs of outcomes: in the commit, or in pieces before it if a page has many."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from engine.model.job import LeasedJob
from engine.model.link import LinkRequest
from engine.store.db.connector import Database
from engine.store.tables.job import extracts, jobs, linked_jobs, rings
from engine.store.tables.job.linked_jobs import NewLink
from engine.store.tables.run import nodes
from engine.store.transactions import supersede
from engine.store.transactions.outcome import ChildJob, JobOutcome
from engine.store.transactions.placement import PlacementCache


class ChildrenResult(Struct, frozen=True):
    """`committed`: the children that have jobs now; the others are of groups that the current defs lack."""

    committed: tuple[ChildJob, ...]
    ring: tuple[int, ...]
    """Sequences to ring now."""


def commit_children(
    db: Database, node: int, run: int, outcome: JobOutcome, count: int, places: PlacementCache, now: float
) -> ChildrenResult | None:
    """Create jobs for the first `count` children of an outcome, in a transaction before that of its commit.

    They leave `outcome.children`. A repeated attempt at the job creates them once: their identity is unique.
    None if the lease is no longer valid: nothing is written. Raises Fenced, DatabaseBusy or StorageError.
    """
    piece = replace(outcome, children=outcome.children[:count])
    touched_hosts: set[int] = set()
    try:
        with db.transaction():
            nodes.check_live(db, node)
            if not jobs.is_held(db, outcome.job):
                return None
            supersede.resolve_outdated(db, run, [piece], reextract_stale=False)
            add_child_jobs(db, run, [piece], places, touched_hosts)
            ring = rings.ring_hosts(db, touched_hosts, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    outcome.children = outcome.children[count:]
    outcome.links_dropped |= piece.links_dropped
    return ChildrenResult(piece.children, tuple(ring))


def add_child_jobs(
    db: Database, run: int, outcomes: Sequence[JobOutcome], places: PlacementCache, touched_hosts: set[int]
) -> None:
    """Create the missing jobs of children in the open transaction; adds their hosts to `touched_hosts`.

    Done pages that carry something else from now on are queued for re-extraction.
    """
    links: dict[bytes, NewLink] = {}
    next_pages: dict[bytes, NewLink] = {}
    series_pages: dict[bytes, NewLink] = {}
    carrying: dict[tuple[bytes, int | None], NewLink] = {}
    for outcome in outcomes:
        for child in outcome.children:
            kept = series_pages if child.in_series else links if child.page_key is None else next_pages
            is_new = child.identity not in kept
            carries = child.carried is not None or outcome.job.links_stale  # a link may carry nothing now
            if not is_new and not carries:
                continue
            place = places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
            touched_hosts.add(place.host)
            link = to_link(run, outcome.job, child, place.sequence)
            if is_new:
                kept[child.identity] = link
            if carries:  # of two records of a page, the first counts
                carrying.setdefault((child.identity, link.parent), link)
    created = _add(db, links, next_pages, series_pages)
    existing = [link for link in carrying.values() if link.identity not in created]
    again = linked_jobs.carry(db, existing) if existing else []
    if again:
        extracts.queue_again(db, again)
    relinked = [outcome for outcome in outcomes if outcome.job.links_stale]
    for version in {outcome.job.defs_version for outcome in relinked}:
        children = (child for outcome in relinked if outcome.job.defs_version == version for child in outcome.children)
        linked_jobs.mark_linked(db, run, version, {child.identity for child in children})


def to_link(run: int, job: LeasedJob, child: ChildJob, sequence: int) -> NewLink:
    return NewLink(
        run,
        sequence,
        child.priority,
        child.depth,
        job.locator_id,
        job.root,
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
