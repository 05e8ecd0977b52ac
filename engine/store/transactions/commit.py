"""Commits the outcomes of leased jobs in one transaction, each fenced by its lease."""

import logging
import time
from collections.abc import Sequence

from msgspec import Struct

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, JobState, LeasedJob
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.pages import documents, temporary
from engine.store.read import candidates
from engine.store.tables.host import answers, host_speeds, hosts
from engine.store.tables.host.answers import Answer
from engine.store.tables.job import jobs, results, rings, step_values
from engine.store.tables.job.jobs import JobUpdate
from engine.store.tables.job.results import NewResult
from engine.store.tables.row import health, rows
from engine.store.tables.row.health import PageHealth
from engine.store.tables.row.rows import NewRows
from engine.store.tables.run import events, nodes
from engine.store.tables.run.events import Event
from engine.store.transactions import logins, release, robots, statistics, supersede
from engine.store.transactions.children import add_child_jobs
from engine.store.transactions.lease import Lease, LeaseRequest, lease_sequences
from engine.store.transactions.outcome import JobOutcome
from engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

_ANSWERED_KINDS = (JobKind.PAGE, JobKind.SITEMAP, JobKind.FILE)
_MAX_REFILL_SEQUENCES = 4
"""Rung sequences from which a commit leases by itself; the queue keeps the order of more."""


class CommitResult(Struct, frozen=True):
    """`accepted_ids`: jobs whose lease was valid. `ring`: sequences to ring now. `due`: boot-time seconds of timers."""

    accepted_ids: frozenset[int]
    ring: tuple[int, ...]
    due: tuple[float, ...]
    leased: tuple[LeasedJob, ...] = ()
    """The node's next jobs, leased in the same transaction."""
    left_for_others: bool = False
    """Jobs remain that this node may not take; other nodes should answer the doorbell."""


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
    """Write a group of outcomes. If that fails, write them one by one; a job that cannot be written is FAILED.

    `reextract_stale`: queue the re-extraction of pages whose defs changed since their lease. `request`: the node's
    next lease, made in the same transaction if only a few sequences are rung.

    Raises Fenced (the node's epoch is over), DatabaseBusy (nothing was written: retry) or StorageError.
    """
    statistics.hash_rows(outcomes)
    # two outcomes of one job: only one has the valid lease, and writing them one by one tells them apart
    has_duplicates = len({outcome.job.id for outcome in outcomes}) < len(outcomes)
    try:
        return _write_group(db, node, run, outcomes, places, now, reextract_stale, request, one_by_one=has_duplicates)
    except (Fenced, DatabaseBusy):
        raise
    except Exception as error:
        _log.error("a group of results cannot be written; writing them one by one", exc_info=error)
        return _write_group(db, node, run, outcomes, places, now, reextract_stale, request, one_by_one=True)


def _write_group(
    db: Database,
    node: int,
    run: int,
    outcomes: Sequence[JobOutcome],
    places: PlacementCache,
    now: float,
    reextract_stale: bool,
    request: LeaseRequest | None,
    *,
    one_by_one: bool,
) -> CommitResult:
    leases: list[Lease] = []
    try:
        with db.transaction():
            nodes.check_live(db, node)
            if one_by_one:
                parts = [_apply_alone(db, run, outcome, places, now, reextract_stale) for outcome in outcomes]
                accepted = frozenset().union(*(part[0] for part in parts))
                touched_hosts = set().union(*(part[1] for part in parts))
            else:
                accepted, touched_hosts = _apply(db, run, outcomes, places, now, reextract_stale)
            ring = rings.ring_hosts(db, touched_hosts, now)
            if request is not None:
                leases, ring = _lease_next(db, run, request, ring, now)
    except BaseException:
        places.rollback_cache()
        raise
    places.commit_cache()
    due = {moment for outcome in outcomes for moment in (outcome.not_before, outcome.backoff_until) if moment}
    due |= {lease.due for lease in leases if lease.due is not None}
    return CommitResult(
        accepted, tuple(ring), tuple(sorted(due)), leased=tuple(job for lease in leases for job in lease.jobs),
        left_for_others=any(lease.left_for_others for lease in leases),
    )  # fmt: skip


def _lease_next(
    db: Database, run: int, request: LeaseRequest, ring: list[int], now: float
) -> tuple[list[Lease], list[int]]:
    """Lease from the rung sequences if they are few; the one with the fewest jobs in progress comes first.

    Returns the leases, and the sequences that still have to be rung: another node may get jobs where this one got
    none. Rings already sent stay as they are.
    """
    rung = rings.list_rung(db, run, _MAX_REFILL_SEQUENCES + 1)
    if len(rung) > _MAX_REFILL_SEQUENCES:
        return [], ring
    if request.held_jobs and candidates.has_suspect(db, rung):
        # a suspect job goes to a node that holds nothing: leave that node the ring
        return [Lease(left_for_others=True)], ring
    unanswered = dict.fromkeys(ring)

    def answer(sequence: int, lease: Lease) -> None:
        if sequence in unanswered and lease.jobs and not lease.ring:
            rings.answer_ring(db, sequence, None)
            del unanswered[sequence]

    try:
        with db.savepoint():
            leases = lease_sequences(db, request, rings.least_busy_first(db, rung), now, answer)
    except DatabaseBusy:
        raise
    except Exception as error:
        if not db.in_transaction:
            raise
        # the outcomes can still be written; the slice that answers the ring reports the error again
        _log.error("the next jobs cannot be leased in the commit; their rings stay", exc_info=error)
        return [], ring
    return leases, list(unanswered)


def _apply_alone(
    db: Database, run: int, outcome: JobOutcome, places: PlacementCache, now: float, reextract_stale: bool
) -> tuple[frozenset[int], set[int]]:
    """Write one outcome in a savepoint; if it cannot be written, the job is FAILED instead."""
    try:
        with db.savepoint():
            return _apply(db, run, [outcome], places, now, reextract_stale)
    except DatabaseBusy:
        raise
    except Exception as error:
        if not db.in_transaction:
            raise
        _log.error("the result of a job cannot be written; the job has failed", exc_info=error)
        text = error.message if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
        reason = f"its result cannot be stored: {text}"[:500].encode("utf-8", "replace").decode()
        event = Event(time.time(), "ERROR", "store", "page", reason, outcome.job.id)
        failed = JobOutcome(
            job=outcome.job, state=JobState.FAILED, reason=reason, attempts=1, events=(event,),
            requests=outcome.requests, fetches=outcome.fetches, fetch_seconds=outcome.fetch_seconds,
            received_bytes=outcome.received_bytes, answers=outcome.answers,
        )  # fmt: skip
        places.rollback_cache()
        return _apply(db, run, [failed], places, now, reextract_stale)


def _apply(
    db: Database, run: int, outcomes: Sequence[JobOutcome], places: PlacementCache, now: float, reextract_stale: bool
) -> tuple[frozenset[int], set[int]]:
    """Update the jobs, then write the results of those whose lease was valid. Returns their ids, and touched hosts."""
    touched_hosts = {outcome.job.host for outcome in outcomes}
    _readmit_named(db, run, outcomes)
    logins.settle_states(db, outcomes)
    stale = supersede.resolve_outdated(db, run, outcomes, reextract_stale=reextract_stale)
    changed = supersede.resolve_carried(db, outcomes)
    completed_extracts = {outcome.job.id for outcome in outcomes if outcome.is_reextracted}
    updates = [_to_update(db, outcome, places, touched_hosts) for outcome in outcomes]
    replaced_documents = statistics.list_replaced_documents(db, outcomes)
    accepted_ids = jobs.finish(db, updates, completed_extracts)
    accepted = [outcome for outcome in outcomes if outcome.job.id in accepted_ids]
    documents.add(db, run, [(one.page, one.document) for one in accepted if one.document and one.page])
    documents.mark_checked(db, run, [outcome.checked for outcome in accepted if outcome.checked is not None])
    _mark_temporary(db, run, [outcome for outcome in accepted if outcome.keeps_document is not None])
    if completed_extracts:
        supersede.delete_old_rows(db, run, [outcome for outcome in accepted if outcome.job.id in completed_extracts])
    new_rows = [(one.job.page_id, new) for one in accepted for new in one.rows]
    rows.add(db, run, [NewRows(page, new.data_def_id, new.texts, new.digests) for page, new in new_rows])
    statistics.add_sums(db, run, accepted, replaced_documents)
    rows.add_rejected(db, [(outcome.job.page_id, *counted) for outcome in accepted for counted in outcome.rejected])
    statistics.add_row_counts(db, run, accepted)
    health.add(
        db, run, [PageHealth(one.job.page_id, one.job.host, *counts) for one in accepted for counts in one.counts]
    )
    _add_results(db, run, accepted)
    if stale:
        supersede.queue_reextraction(db, run, [outcome for outcome in accepted if outcome.job.id in stale])
    if changed:
        supersede.queue_carried(db, changed, accepted)
    statistics.add_fetch_stats(db, run, accepted)
    host_speeds.count_answers(db, statistics.count_answers(accepted))
    add_child_jobs(db, run, accepted, places, touched_hosts)
    release.settle_files(db, run, accepted)
    for outcome in accepted:
        if outcome.backoff_until is not None:
            until = outcome.backoff_until
            hosts.set_backoff(db, outcome.job.host, until, answered=outcome.throttled, strike=outcome.strike)
        if outcome.unused_turn:
            hosts.return_turn(db, outcome.job.host, outcome.unused_turn, now)
        if outcome.asks_robots:
            robots.ask_guarded_host(db, run, outcome.job.host)
        if outcome.host_failed or outcome.gone:
            hosts.count_failure(db, outcome.job.host, failed=outcome.host_failed, gone=outcome.gone)
        if outcome.job.kind is JobKind.ROBOTS and (host := robots.apply_result(db, run, outcome)) is not None:
            touched_hosts.add(host)
    logins.apply_outcomes(db, run, accepted)
    for jar in dict.fromkeys(jar for outcome in accepted for jar in outcome.changed_jars):
        jar.write(db, run)
    fetched = [one for one in accepted if one.fetches and one.job.kind in _ANSWERED_KINDS]
    answers.add(db, [Answer(one.job.host, one.job.attempts == 0, one.blocked) for one in fetched])
    done = [one for one in accepted if one.state is JobState.DONE]
    answered = {one.job.host for one in done if one.document or one.checked or one.file}
    hosts.reset_strikes(db, answered, now)
    if any(outcome.job.throttled for outcome in accepted):
        hosts.adapt_paces(db, statistics.host_latencies(accepted))
    events.add(db, run, [event for outcome in accepted for event in outcome.events])
    return frozenset(accepted_ids), touched_hosts


def _add_results(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Write what plugin steps reported and stored; other pages cost nothing."""
    reporting = [outcome for outcome in outcomes if outcome.results or outcome.ran_plugins]
    if reporting:
        new = [NewResult(outcome.job.page_id, *result) for outcome in reporting for result in outcome.results]
        results.add(db, run, new)
        for outcome in reporting:
            step_values.set_values(db, run, outcome.stored_values)
        step_values.delete_checkpoints(db, [outcome.job.page_id for outcome in reporting if outcome.ran_plugins])
    reextracted = [outcome.job.page_id for outcome in outcomes if outcome.is_reextracted]
    if reextracted:
        supersede.update_step_failures(db, reextracted)


def _mark_temporary(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Mark the documents of groups with `documents: false`; unmark those that other groups use, too."""
    fetched = [one for one in outcomes if not one.keeps_document and one.document]
    temporary.add(db, run, [(one.page, one.job.group) for one in fetched if one.page])
    temporary.keep(db, run, [one.page for one in outcomes if one.keeps_document and not one.document and one.page])


def _readmit_named(db: Database, run: int, outcomes: Sequence[JobOutcome]) -> None:
    """Requeue the jobs of a host that was named while its refusal was on its way here: naming it did not see them."""
    for outcome in outcomes:
        refused = outcome.refused_host if outcome.state is JobState.SKIPPED else None
        if refused is not None and hosts.is_named(db, run, refused):
            outcome.state, outcome.reason, outcome.events = JobState.READY, None, ()


def _to_update(db: Database, outcome: JobOutcome, places: PlacementCache, touched_hosts: set[int]) -> JobUpdate:
    sequence = None
    if outcome.next_host is not None:
        place = places.find_or_create(db, outcome.job.group, *outcome.next_host, outcome.job.kind)
        touched_hosts.add(place.host)
        sequence = place.sequence
    return JobUpdate(
        id=outcome.job.id, lease=outcome.job.lease, state=outcome.state, attempts=outcome.attempts,
        not_before=outcome.not_before, sequence=sequence, hops=outcome.hops, target=outcome.target,
        document=outcome.page, defs=None if outcome.links_dropped else outcome.job.defs_version,
        reason=outcome.reason, priority=outcome.priority,
    )  # fmt: skip
