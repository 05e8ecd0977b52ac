"""The commit: what became of a group of leased jobs, with all they made, in one transaction fenced job by job."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, JobState, LeasedJob
from engine.runtime.log_dedup import log_exception_once
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.pages import documents
from engine.store.read import candidates
from engine.store.tables import events, hosts, jobs, metrics, nodes, rows, sequences
from engine.store.tables.events import Event
from engine.store.tables.jobs import JobUpdate, NewLink
from engine.store.tables.metrics import FetchStats
from engine.store.tables.rows import NewRow
from engine.store.transactions import supersede
from engine.store.transactions.lease import Lease, LeaseRequest, lease_sequences
from engine.store.transactions.outcome import JobOutcome, RobotsResult
from engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

_MAX_REFILL_SEQUENCES = 4
"""Sequences that a commit serves itself; of more the queue keeps the order."""
_RETRIED_STATES = (JobState.READY, JobState.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit changed: ids whose lease held, sequences to ring now, boot-time seconds to look again."""

    accepted_ids: frozenset[int]
    ring: tuple[int, ...]
    due: tuple[float, ...]
    leased: tuple[LeasedJob, ...] = ()
    """The node's next jobs, where it could take them at once."""
    left_for_others: bool = False
    """It was left what it may not take: the rings are first of all for other nodes."""


def commit(
    db: Database,
    node: int,
    run: int,
    outcomes: Sequence[JobOutcome],
    places: PlacementCache,
    now: float,
    *,
    reextract_stale: bool = True,
    request: LeaseRequest | None = None,
) -> CommitResult:
    """Write a group. Where it fails, it is written job by job, and the offender is FAILED with the reason.

    `renew`: pages whose defs changed while they were worked are to be re-extracted. `wish`: what the node would
    lease next. It is served in the same transaction, if only few sequences wait for their turn.

    Raises Fenced (the node's epoch is over), Busy (nothing was written: try again) or StorageError.
    """
    # of two results of one job, at most one has the lease: asked one after the other, none passes for the other
    doubled = len({f.job.id for f in outcomes}) < len(outcomes)
    try:
        return _write_group(db, node, run, outcomes, places, now, reextract_stale, request, apart=doubled)
    except (Fenced, DatabaseBusy):
        raise
    except Exception as error:
        log_exception_once(_log, "a group of results cannot be written; writing them one by one", error)
        return _write_group(db, node, run, outcomes, places, now, reextract_stale, request, apart=True)


def _write_group(
    db: Database,
    node: int,
    run: int,
    finished: Sequence[JobOutcome],
    places: PlacementCache,
    now: float,
    renew: bool,
    wish: LeaseRequest | None,
    *,
    apart: bool,
) -> CommitResult:
    leased: list[Lease] = []
    try:
        with db.transaction():
            if nodes.get_live_role(db, node) is None:
                raise Fenced(f"node epoch {node} is over", "Another process took its place; this one ends.")
            if apart:
                parts = [_apply_alone(db, run, f, places, renew) for f in finished]
                won = frozenset().union(*(part[0] for part in parts))
                touched = set().union(*(part[1] for part in parts))
            else:
                won, touched = _apply(db, run, finished, places, renew)
            ring = sequences.ring_hosts(db, touched, now)
            if wish is not None:
                leased, ring = _lease_next(db, run, wish, ring, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    due = {f.not_before for f in finished if f.not_before} | {f.backoff_until for f in finished if f.backoff_until}
    due |= {one.due for one in leased if one.due is not None}
    return CommitResult(
        won, tuple(ring), tuple(sorted(due)), leased=tuple(job for one in leased for job in one.jobs),
        left_for_others=any(one.left_for_others for one in leased),
    )  # fmt: skip


def _lease_next(
    db: Database, run: int, wish: LeaseRequest, ring: list[int], now: float
) -> tuple[list[Lease], list[int]]:
    """Lease from the sequences that wait for their turn, where they are few; who has the least under way comes first.

    Returns the leases, and what is still to be rung: where nothing was leased another node may fare better. A ring
    that is on its way already stays as it is.
    """
    waiting = sequences.list_rung(db, run, _MAX_REFILL_SEQUENCES + 1)
    if len(waiting) > _MAX_REFILL_SEQUENCES:
        return [], ring
    if wish.held_jobs and candidates.has_suspect(db, waiting):
        return [
            Lease(left_for_others=True)
        ], ring  # it waits for a node that holds nothing, who must have a chance at the ring
    left = dict.fromkeys(ring)

    def answered(sequence: int, one: Lease) -> None:
        if sequence in left and one.jobs and not one.ring:
            sequences.answer_ring(db, sequence, None)
            del left[sequence]

    try:
        with db.savepoint():
            leased = lease_sequences(db, wish, sequences.least_busy_first(db, waiting), now, answered)
    except DatabaseBusy:
        raise
    except Exception as error:
        if not db.in_transaction:
            raise
        # the results can still be written; the slice that answers the ring meets the fault again
        log_exception_once(_log, "the next jobs cannot be leased in the commit; their rings stay", error)
        return [], ring
    return leased, list(left)


def _apply_alone(
    db: Database, run: int, finished: JobOutcome, places: PlacementCache, renew: bool
) -> tuple[frozenset[int], set[int]]:
    """One job in a savepoint; one that cannot be written is FAILED instead."""
    try:
        with db.savepoint():
            return _apply(db, run, [finished], places, renew)
    except DatabaseBusy:
        raise
    except Exception as error:
        if not db.in_transaction:
            raise
        log_exception_once(_log, "the result of a job cannot be written; the job has failed", error)
        what = error.message if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
        reason = f"its result cannot be stored: {what}"[:500].encode("utf-8", "replace").decode()
        event = Event(time.time(), "ERROR", "store", "page", reason, finished.job.id)
        failed = JobOutcome(
            job=finished.job, state=JobState.FAILED, reason=reason, attempts=1, events=(event,),
            fetches=finished.fetches, fetch_seconds=finished.fetch_seconds, received_bytes=finished.received_bytes,
        )  # fmt: skip
        places.rollback_cache()
        return _apply(db, run, [failed], places, renew)


def _apply(
    db: Database, run: int, finished: Sequence[JobOutcome], places: PlacementCache, renew: bool
) -> tuple[frozenset[int], set[int]]:
    """Write verdicts, then what those jobs made whose lease still held. Returns their ids and the hosts touched."""
    touched = {f.job.host for f in finished}
    stale = supersede.resolve_outdated(db, run, finished, reextract_stale=renew)
    spent = {f.job.id for f in finished if f.job.page_job is not None and f.state is JobState.DONE}
    won = jobs.finish(db, [_to_update(db, f, places, touched) for f in finished], spent)
    held = [f for f in finished if f.job.id in won]
    documents.add(db, run, [(f.page, f.document) for f in held if f.document and f.page])
    if spent:
        supersede.delete_old_rows(db, run, [f for f in held if f.job.id in spent])
    rows.add(db, run, [NewRow(f.job.page_job or f.job.id, row.data_def_id, row.data) for f in held for row in f.rows])
    rows.add_rejected(db, [(f.job.page_job or f.job.id, *told) for f in held for told in f.rejected])
    _add_row_counts(db, run, held)
    if stale:
        supersede.queue_reextraction(db, run, [f for f in held if f.job.id in stale])
    _add_fetch_stats(db, run, held)
    _add_child_jobs(db, run, held, places, touched)
    for f in held:
        if f.backoff_until is not None:
            hosts.set_backoff(db, f.job.host, f.backoff_until)
        if f.host_failed:
            hosts.add_errors(db, f.job.host, 1)
        robots = f.robots
        if robots is None and f.job.kind is JobKind.ROBOTS and f.state not in _RETRIED_STATES:
            robots = RobotsResult(
                0, "", 0.0
            )  # a robots job that cannot be worked must not hold its host's pages forever
        if robots is not None:
            hosts.set_robots(db, f.job.host, robots.status, robots.text, robots.crawl_delay)
    hosts.reset_strikes(db, {f.job.host for f in held if f.state is JobState.DONE and f.document})
    events.add(db, run, [event for f in held for event in f.events])
    return frozenset(won), touched


def _to_update(db: Database, f: JobOutcome, places: PlacementCache, touched: set[int]) -> JobUpdate:
    sequence = None
    if f.next_host is not None:
        place = places.find_or_create(db, f.job.group, *f.next_host, f.job.kind)
        touched.add(place.host)
        sequence = place.sequence
    return JobUpdate(
        id=f.job.id, lease=f.job.lease, state=f.state, attempts=f.attempts, not_before=f.not_before, sequence=sequence,
        hops=f.hops, target=f.target, document=f.page,
        defs=None if f.links_dropped else f.job.defs_version, reason=f.reason,
    )  # fmt: skip


def _add_row_counts(db: Database, run: int, held: Sequence[JobOutcome]) -> None:
    made: dict[str, list[int]] = {}
    for f in held:
        for row in f.rows:
            made.setdefault(row.data_def, [0, 0])[0] += 1
        for data_def, rejected in f.rejected:
            made.setdefault(data_def, [0, 0])[1] += rejected
    for data_def, (written, rejected) in made.items():
        rows.add_counts(db, run, data_def, written, rejected)


def _add_fetch_stats(db: Database, run: int, held: Sequence[JobOutcome]) -> None:
    spent: dict[str, list[float]] = {}
    for f in held:
        retried = f.state is JobState.READY and f.attempts
        if f.fetches or retried:
            of = spent.get(f.job.group)
            if of is None:
                of = spent[f.job.group] = [0, 0.0, 0, 0]
            of[0] += f.fetches
            of[1] += f.fetch_seconds
            of[2] += f.received_bytes
            if retried:
                of[3] += 1
    metrics.add(db, run, [FetchStats(group, int(n), s, int(b), int(r)) for group, (n, s, b, r) in spent.items()])


def _add_child_jobs(
    db: Database, run: int, held: Sequence[JobOutcome], places: PlacementCache, touched: set[int]
) -> None:
    links: dict[bytes, NewLink] = {}
    for f in held:
        for child in f.children:
            if child.identity in links:
                continue
            place = places.find_or_create(db, child.group, child.host_key, child.origin, child.kind)
            touched.add(place.host)
            links[child.identity] = NewLink(
                run,
                place.sequence,
                child.priority,
                child.depth,
                f.job.locator_id,
                f.job.root,
                child.url,
                child.identity,
            )
    jobs.add_links(db, list(links.values()))
    for version in {f.job.defs_version for f in held if f.job.links_stale}:
        told = [f for f in held if f.job.links_stale and f.job.defs_version == version]
        jobs.mark_linked(db, run, version, {child.identity for f in told for child in f.children})
