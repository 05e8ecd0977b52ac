"""Commits the outcomes of leased jobs in one transaction, each fenced by its lease."""

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from crawl_engine.errors import CrawlError, Fenced
from crawl_engine.model.job import JobKind, JobState, LeasedJob, ReasonCode
from crawl_engine.store.db.connector import Database, DatabaseBusy
from crawl_engine.store.tables.job import jobs, rings
from crawl_engine.store.tables.job.jobs import JobUpdate
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions import effects
from crawl_engine.store.transactions.claims import claim_rung
from crawl_engine.store.transactions.lease import Lease, LeaseRequest, lease_sequences, read_sequences
from crawl_engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

_STATE = f"""
SELECT coalesce(defs_version, 0) AS version, EXISTS (SELECT 1 FROM landings l WHERE l.run = runs.seq) AS has_landings,
    EXISTS (SELECT 1 FROM hosts h WHERE h.run = runs.seq AND h.pool IS NOT NULL) AS has_pools,
    EXISTS ({nodes.LIVE_ROLE}) AS is_live
FROM runs WHERE seq = ?
"""


class _RunState(NamedTuple):
    """What each commit of a node asks of its run."""

    version: int
    """The current defs."""
    has_landings: bool
    """Whether redirects have led to pages of it."""
    has_pools: bool
    """Whether hosts of it have limits together."""
    is_live: bool
    """Whether the node may still write."""


class _Given(NamedTuple):
    """What a commit may change in an outcome while it settles it: if it fails, the next one decides again."""

    state: JobState
    reason: str | None
    reason_code: ReasonCode | None
    attempts: int
    next_host: tuple[str, str] | None
    effects: tuple[Effect, ...]

    @classmethod
    def read(cls, outcome: JobOutcome) -> "_Given":
        return cls(
            outcome.state, outcome.reason, outcome.reason_code, outcome.attempts, outcome.next_host, outcome.effects
        )

    def give_back(self, outcome: JobOutcome) -> None:
        outcome.state, outcome.reason, outcome.reason_code = self.state, self.reason, self.reason_code
        outcome.attempts, outcome.next_host, outcome.effects = self.attempts, self.next_host, self.effects


class CommitResult(Struct, frozen=True):
    """`accepted_ids`: jobs whose lease was valid. `ring`: sequences to ring now. `due`: boot-time seconds of timers."""

    accepted_ids: frozenset[int]
    ring: tuple[int, ...]
    due: tuple[float, ...]
    leased: tuple[LeasedJob, ...] = ()
    """The node's next jobs, leased in the same transaction."""
    left_for_others: bool = False
    """Jobs remain that this node may not take; other nodes should answer the doorbell."""
    handed_over: frozenset[int] = frozenset()
    """Hosts that are another machine's now, of which the node holds jobs."""


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
    next lease, made in the same transaction unless that fails.

    Raises Fenced (the node's epoch is over), DatabaseBusy (nothing was written: retry) or StorageError.
    """
    for outcome in outcomes:
        for effect in outcome.effects:
            effect.prepare()
    # two outcomes of one job: only one has the valid lease, and writing them one by one tells them apart
    has_duplicates = len({outcome.job.id for outcome in outcomes}) < len(outcomes)
    # where a lease fails, its rings stay, and the slice that answers them reports the error again
    with_lease = "results and the next jobs cannot be written at once; writing the results"
    as_group = "a group of results cannot be written; writing them one by one"
    ways: list[tuple[LeaseRequest | None, bool, str]] = [(None, has_duplicates, as_group)]
    if request is not None:
        ways = [(request, has_duplicates, with_lease), *ways, (request, True, with_lease)]
    for leased, one_by_one, problem in ways:
        transaction = Commit(db, run, now, places, reextract_stale)
        try:
            return _write_group(transaction, node, outcomes, places, leased, one_by_one=one_by_one)
        except (Fenced, DatabaseBusy):
            raise
        except Exception as error:
            _log.error(problem, exc_info=error)
    transaction = Commit(db, run, now, places, reextract_stale)
    return _write_group(transaction, node, outcomes, places, None, one_by_one=True)


def _write_group(
    commit: Commit, node: int, outcomes: Sequence[JobOutcome], places: PlacementCache, request: LeaseRequest | None, *,
    one_by_one: bool,
) -> CommitResult:  # fmt: skip
    db, leases, accepted, handed_over = commit.db, list[Lease](), set[int](), frozenset[int]()
    given = [_Given.read(outcome) for outcome in outcomes]
    try:
        with db.transaction():
            state = _read_state(db, commit.run, node)
            commit.defs_version, commit.has_landings = state.version, state.has_landings
            if one_by_one:
                for outcome in outcomes:
                    accepted |= _apply_alone(commit, outcome, places)
            else:
                accepted = _apply(commit, outcomes)
            ring = rings.ring_hosts(db, commit.touched_hosts, commit.now, has_pools=state.has_pools)
            if request is not None:
                leases, ring, handed_over = _lease_next(db, commit.run, request, ring, commit.now)
    except BaseException:
        places.rollback_cache()
        for outcome, before in zip(outcomes, given, strict=True):
            before.give_back(outcome)
        raise
    places.commit_cache()
    due = commit.due | {outcome.not_before for outcome in outcomes if outcome.not_before}
    due |= {lease.due for lease in leases if lease.due is not None}
    return CommitResult(
        frozenset(accepted), tuple(ring), tuple(sorted(due)),
        leased=tuple(job for lease in leases for job in lease.jobs),
        left_for_others=any(lease.left_for_others for lease in leases), handed_over=handed_over,
    )  # fmt: skip


def _read_state(db: Database, run: int, node: int) -> _RunState:
    """Raises Fenced if the node (its epoch) may not write any more."""
    state = db.row(_RunState, _STATE, (node, run))
    if state is None or not state.is_live:
        raise nodes.fenced(node)
    return state


def _lease_next(
    db: Database, run: int, request: LeaseRequest, ring: list[int], now: float
) -> tuple[list[Lease], list[int], frozenset[int]]:
    """Lease from the sequences that have been rung for the longest time.

    Returns the leases, the sequences for which another node may have to be rung, and the hosts that are handed over.
    """
    claims = claim_rung(db, run, request.node, request.free_slots, now, held=request.jobs_by_host, without_delay=True)
    states = read_sequences(db, claims.sequences, now)
    if request.held_jobs and any(state.has_suspects for state in states):
        # a suspect job goes to a node that holds nothing: leave that node the ring
        return [Lease(left_for_others=True)], ring, claims.handed_over
    leases = lease_sequences(db, request, states, now)
    answers = dict(zip([state.id for state in states], leases, strict=True))
    kept = [sequence for sequence in ring if sequence not in answers or not answers[sequence].ends_ring]
    kept += [sequence for sequence, lease in answers.items() if lease.ring and sequence not in kept]
    return leases, kept, claims.handed_over


def _apply_alone(commit: Commit, outcome: JobOutcome, places: PlacementCache) -> set[int]:
    """Write one outcome in a savepoint; if it cannot be written, the job is FAILED instead."""
    try:
        with commit.db.savepoint():
            return _apply(commit, [outcome])
    except DatabaseBusy:
        raise
    except Exception as error:
        if not commit.db.in_transaction:
            raise
        _log.error("the result of a job cannot be written; the job has failed", exc_info=error)
        text = error.message if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
        reason = f"its result cannot be stored: {text}"[:500].encode("utf-8", "replace").decode()
        event = Event(time.time(), "ERROR", "store", "page", reason, outcome.job.id)
        failed = JobOutcome(
            job=outcome.job, state=JobState.FAILED, reason=reason, attempts=1, stats=outcome.stats, effects=(event,)
        )
        places.rollback_cache()
        return _apply(commit, [failed])


def _apply(commit: Commit, outcomes: Sequence[JobOutcome]) -> set[int]:
    """Update the jobs, then write the effects of those whose lease was valid. Returns their ids."""
    commit.touched_hosts |= {outcome.job.host for outcome in outcomes}
    commit.leased = jobs.read_leased(commit.db, [_to_lease(outcome.job) for outcome in outcomes])
    settled = effects.settle(commit, outcomes)
    completed_extracts = {outcome.job.id for outcome in outcomes if outcome.is_reextracted}
    updates = [_to_update(commit, outcome) for outcome in outcomes]
    accepted_ids = jobs.finish(commit.db, updates, commit.leased, completed_extracts)
    effects.write(commit, [outcome for outcome in outcomes if outcome.job.id in accepted_ids], settled)
    return accepted_ids


def _to_lease(job: LeasedJob) -> tuple[int, int, int, str | None]:
    is_page = job.kind in (JobKind.PAGE, JobKind.EXTRACT)
    return job.id, job.lease, job.page_id if is_page else 0, job.lineage.carried if is_page else None


def _to_update(commit: Commit, outcome: JobOutcome) -> JobUpdate:
    sequence = None
    if outcome.next_host is not None:
        place = commit.places.find_or_create(commit.db, outcome.job.group, *outcome.next_host, outcome.job.kind)
        commit.touched_hosts.add(place.host)
        sequence = place.sequence
    return JobUpdate(
        id=outcome.job.id, lease=outcome.job.lease, state=outcome.state, attempts=outcome.attempts,
        not_before=outcome.not_before, sequence=sequence, hops=outcome.hops, target=outcome.target,
        document=outcome.page, defs=None if outcome.links_dropped else outcome.job.defs_version,
        reason=outcome.reason, priority=outcome.priority, reason_code=outcome.reason_code,
    )  # fmt: skip
