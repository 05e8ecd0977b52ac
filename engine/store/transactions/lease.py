"""Leases jobs of rung sequences to a node, within quotas and the limits of the hosts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from engine.model.job import JobKind, LeasedJob, lease_limit, quota
from engine.store.db.connector import Database
from engine.store.read import candidates, stale_pages
from engine.store.tables.host import hosts
from engine.store.tables.job import jobs, rings
from engine.store.tables.run import nodes
from engine.store.transactions import page_limit

# where the robots.txt cannot be read, or the login failed, no page is sent: its jobs need no send times
SEQUENCE_STATE = f"""
SELECT s.run, s.kind, s.grp, s.ready, s.taken,
    s.paused OR s.absent = 1 OR (s.kind <> 'extract' AND (r.extract_only OR h.paused)), s.max_pages,
    h.id, {hosts.EFFECTIVE_DELAY}
        * (s.kind = 'robots' OR h.robots <> 'KNOWN' OR h.robots_fetched_at IS NOT NULL)
        * (s.kind <> 'page' OR h.login <> 'FAILED'),
    h.throttle, {hosts.EFFECTIVE_CONCURRENCY}, h.next_at, h.backoff_until, h.robots,
    (SELECT total(t.taken) FROM sequences t WHERE t.host = h.id AND t.kind <> 'extract'),
    r.state, r.paused, r.active_sequences, r.slots, r.defs_version, r.max_pages, r.relinking,
    EXISTS (SELECT 1 FROM sequences o WHERE o.run = s.run AND o.rung_at IS NOT NULL AND o.id <> s.id
        AND o.kind <> 'extract'),
    h.login, h.login_number
FROM sequences s JOIN hosts h ON h.id = s.host JOIN runs r ON r.seq = s.run WHERE s.id = ?
"""

LEASING_STATES = ("SEEDING", "READY", "DRAINING")
"""The states of a run in which its jobs are leased."""
_RESERVED_SECONDS = 1.0
"""How far ahead a lease reserves the send times of a host with a delay."""
_SKIP_BATCH = 1_000
"""SQLite keeps what they were in memory, until the savepoint is released: their URLs may be long."""
_FETCHING_DIVISOR, _WAITING_DIVISOR = 2, 8
"""Divisors of the slots that re-extraction takes while pages are fetched, and while fetches wait for a slot."""
_LIMIT_REACHED = -1
AFTER_LOGIN = ("page", "file")
"""The kinds of jobs that wait for the login to their host."""


class Lease(Struct, frozen=True):
    """The answer to one ring."""

    jobs: tuple[LeasedJob, ...] = ()
    ring: bool = False
    """Ring the sequence again: more of its jobs may be leased."""
    due: float | None = None
    """Boot-time second at which to ring the sequence again; None: another event rings it."""
    left_for_others: bool = False
    """Jobs remain for other nodes: beyond this node's share of the host, or a suspect that must run alone."""


class SequenceState(Struct, frozen=True):
    """A row of `SEQUENCE_STATE`: a sequence, its host and its run."""

    run: int
    kind: str
    group: str
    ready: int
    taken: int
    suspended: int
    max_pages: int | None
    host: int
    delay: float
    throttled: int
    host_concurrency: int
    next_at: float | None
    backoff_until: float | None
    robots: str
    host_taken: float
    run_state: str
    run_paused: str | None
    active: int
    slots: int
    defs_version: int
    run_max_pages: int | None
    relinking: int
    others_waiting: int
    login: str
    login_number: int

    @property
    def host_limit(self) -> int:
        """Jobs of the host that nodes may hold: as many as it may be asked at once, and spare ones.

        The spare ones take the places of those that wait for their commit. They never take the slots of other hosts.
        """
        return self.host_concurrency + rings.spare_jobs(self.host_concurrency, self.slots, self.active)

    @property
    def is_limited(self) -> bool:
        """Whether a page limit of the group or the run applies."""
        return self.kind == JobKind.PAGE and not (self.max_pages is None and self.run_max_pages is None)


class LeaseRequest(Struct, frozen=True, kw_only=True):
    """A node (its epoch) asks for at most `free_slots` jobs, at most `batch` of each sequence.

    A suspect, a job during which a node died, is leased alone and only to a node without `held_jobs`.
    """

    node: int
    lease_id: int
    free_slots: int
    batch: int
    held_jobs: int = 0
    slots: int = 0
    """The node's concurrency, to limit it to its fair share of each host; 0: no such limit."""
    jobs_by_host: Mapping[int, int] = field(default_factory=dict)
    """Jobs the node holds, by host; counted against its share."""


def lease(db: Database, request: LeaseRequest, sequences: Sequence[int], now: float) -> list[Lease]:
    """Answer rings in one transaction. `now` is boot-time seconds. Raises Fenced if the node's epoch is over."""
    with db.transaction():
        nodes.check_live(db, request.node)
        return lease_sequences(
            db,
            request,
            sequences,
            now,
            lambda sequence, got: rings.answer_ring(db, sequence, now if got.ring else None),
        )


def lease_sequences(
    db: Database, request: LeaseRequest, sequences: Iterable[int], now: float, answer: Callable[[int, Lease], None]
) -> list[Lease]:
    """Lease from sequences in their order, in the open transaction; those left when no slot is free ring again.

    `answer` clears or renews the ring of each sequence before the next one is leased: an answered sequence no longer
    counts as waiting.
    """
    leases: list[Lease] = []
    for sequence in sequences:
        if request.free_slots <= 0:
            leases.append(Lease(ring=True))
            continue
        got = _lease_one(db, request, sequence, now)
        leases.append(got)
        answer(sequence, got)
        if got.jobs:
            request = _remaining_request(request, got.jobs)
    return leases


def _remaining_request(request: LeaseRequest, taken: Sequence[LeasedJob]) -> LeaseRequest:
    """The rest of a request once these jobs are taken: nothing if one is a suspect."""
    host, fetches = taken[0].host, 0 if taken[0].kind is JobKind.EXTRACT else len(taken)
    return replace(
        request,
        free_slots=0 if any(job.crashes for job in taken) else request.free_slots - len(taken),
        held_jobs=request.held_jobs + len(taken),
        jobs_by_host={**request.jobs_by_host, host: request.jobs_by_host.get(host, 0) + fetches},
    )


def read_sequence(db: Database, sequence: int) -> SequenceState | None:
    """The state of a sequence; None: there is none."""
    row = db.one(SEQUENCE_STATE, (sequence,))
    return None if row is None else SequenceState(*row)


def _lease_one(db: Database, request: LeaseRequest, sequence: int, now: float) -> Lease:
    s = read_sequence(db, sequence)
    if s is None:
        return Lease()
    if s.kind == "extract":
        return _lease_extracts(db, request, sequence, s)
    due = blocked_until(s, now)
    if request.slots and s.delay:
        return Lease()  # send times count from now on, but a commit has yet to reach the disk
    allowed, fair = allowed_jobs(s, request), _fair_share(s, request)
    limit = min(allowed, fair) if due == 0 else 0
    if s.is_limited and due == 0:
        room = page_limit.read_room(db, s.run, s.group, group_limit=s.max_pages, run_limit=s.run_max_pages)
        limit = min(limit, room.requests)
        if room.group_is_full:
            limit = _LIMIT_REACHED
    if limit == _LIMIT_REACHED:
        skipped = jobs.skip_ready(db, sequence, f"maxPages {s.max_pages} of {s.group} reached", _SKIP_BATCH)
        return Lease(ring=skipped == _SKIP_BATCH)
    chosen: list[list[Any]] = []
    if limit > 0 and not request.held_jobs and candidates.has_suspect(db, [sequence]):
        chosen = candidates.list_due(db, sequence, 1, suspects=True)
    if limit > 0 and not chosen:
        chosen = _distinct_pages(candidates.list_due(db, sequence, limit))
    start = max(now, s.next_at or 0.0)
    taken = tuple(
        to_leased_job(s, request, sequence, candidate, start + i * s.delay if s.delay else None)
        for i, candidate in enumerate(chosen)
    )
    next_at = None
    if taken:
        jobs.take(db, [job.id for job in taken], request.lease_id, request.node)
        if s.is_limited:
            page_limit.reserve(db, s.run, s.group, len(taken))
        if s.delay:
            next_at = start + len(taken) * s.delay
            hosts.reserve(db, s.host, next_at)
    left = s.ready - len(taken)
    again = bool(taken) and left > 0 and s.host_taken + len(taken) < s.host_limit and not next_at
    if next_at is not None:
        # even if no job is left: child jobs may come before the host's delay is over
        due = next_at - rings.LOOKAHEAD
    return Lease(taken, again, due or None, left_for_others=due == 0 and fair < min(allowed, s.ready))


def may_take_new_job(s: SequenceState, request: LeaseRequest, now: float) -> bool:
    """Whether a job that is created now would be leased at once, before all others of its sequence, without limits."""
    if s.kind != JobKind.PAGE or s.ready or s.is_limited or s.delay or blocked_until(s, now) != 0:
        return False
    return min(allowed_jobs(s, request), _fair_share(s, request)) > 0


def to_leased_job(
    s: SequenceState, request: LeaseRequest, sequence: int, row: Sequence[Any], send_at: float | None
) -> LeasedJob:
    """The leased job of a row of `read.candidates`."""
    return candidates.to_leased_job(
        row, lease=request.lease_id, run=s.run, sequence=sequence, host=s.host, kind=JobKind(s.kind), group=s.group,
        send_at=send_at, delay=s.delay, defs=s.defs_version,
        links_stale=bool(s.relinking), reserved=s.is_limited, host_concurrency=s.host_concurrency,
        throttled=bool(s.throttled), login_number=s.login_number if s.login != "OFF" else 0,
        login_failed=s.login == "FAILED" and s.kind in AFTER_LOGIN,
    )  # fmt: skip


def _lease_extracts(db: Database, request: LeaseRequest, sequence: int, s: SequenceState) -> Lease:
    """Lease re-extractions: they need no host and no delay; fetches come first."""
    limit = 0 if is_suspended(s) else min(request.free_slots, request.batch)
    if s.active:
        # at least one, else re-extractions would wait for the end of the crawl
        limit = min(limit, max(1, limit // (_WAITING_DIVISOR if s.others_waiting else _FETCHING_DIVISOR)))
    chosen = (
        stale_pages.list_candidates(db, sequence, s.group, s.defs_version, 1, suspects=True)
        if limit and not request.held_jobs
        else []
    )
    if limit and not chosen:
        chosen = stale_pages.list_candidates(db, sequence, s.group, s.defs_version, limit)
    taken = tuple(
        stale_pages.to_leased_job(
            row,
            lease=request.lease_id,
            run=s.run,
            sequence=sequence,
            host=s.host,
            group=s.group,
            defs=s.defs_version,
            relinking=bool(s.relinking),
        )
        for row in chosen
    )
    if taken:
        jobs.take(db, [job.id for job in taken], request.lease_id, request.node)
    again = bool(taken) and s.ready > len(taken)
    return Lease(taken, again)


def is_suspended(s: SequenceState) -> bool:
    """Whether an operator, the disk, the defs or the state of the run keeps all its jobs from being leased."""
    return bool(s.run_paused or s.suspended) or s.run_state not in LEASING_STATES


def blocked_until(s: SequenceState, now: float) -> float | None:
    """When leases are possible. 0: now; a boot-time second: not before it; None: after some other event."""
    if is_suspended(s):
        return None
    if s.kind != "robots" and s.robots == "WANTED":
        return None
    if s.login == "WANTED" and s.kind in AFTER_LOGIN:
        return None
    if s.kind == JobKind.LOGIN and s.host_taken:
        return None  # their answers may end the session; the commit of the last one rings
    if s.backoff_until is not None and s.backoff_until > now:
        return s.backoff_until
    if s.delay and s.next_at is not None and s.next_at > now + rings.LOOKAHEAD:
        return s.next_at - rings.LOOKAHEAD
    return 0


def allowed_jobs(s: SequenceState, request: LeaseRequest) -> int:
    """Jobs the sequence may take: its quota, or more if no other waits; limited by its host's concurrency and delay."""
    most = min(request.free_slots, request.batch)
    allowed = lease_limit(active=s.active, slots=s.slots, running=s.taken, free=request.free_slots, batch=request.batch)
    if allowed < most and not s.others_waiting:
        allowed = max(allowed, min(most, quota(1, s.slots) - s.taken))
    allowed = min(allowed, s.host_limit - int(s.host_taken))
    if s.delay:
        allowed = min(allowed, max(1, int(_RESERVED_SECONDS / s.delay)))
    return max(0, allowed)


def _fair_share(s: SequenceState, request: LeaseRequest) -> int:
    """The rest of the node's share of the host's concurrency: in proportion to its slots, rounded up."""
    if not request.slots:
        return request.free_slots
    share_of_host = -(-s.host_limit * request.slots // max(s.slots, request.slots))
    return max(0, share_of_host - request.jobs_by_host.get(s.host, 0))


def _distinct_pages(candidates: list[list[Any]]) -> list[list[Any]]:
    """At most one candidate per page: the page is fetched once, and the other jobs use its document."""
    seen: set[tuple[str, str | None]] = set()
    kept = []
    for candidate in candidates:
        page = candidate[2] or candidate[1], candidate[15]
        if page not in seen:
            seen.add(page)
            kept.append(candidate)
    return kept
