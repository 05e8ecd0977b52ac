"""The lease: which jobs of a rung sequence a node may take now, fair to the others and polite to the host."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import Fenced
from engine.model.job import JobKind, LeasedJob
from engine.model.quota import lease_limit, quota
from engine.store.db.connector import Database
from engine.store.read import candidates, stale_pages
from engine.store.tables import hosts, jobs, nodes
from engine.store.tables import sequences as rings

_SEQUENCE_STATE = """
SELECT s.run, s.kind, s.grp, s.ready, s.taken,
    s.paused OR s.absent = 1 OR (r.extract_only AND s.kind <> 'extract'), s.max_pages,
    h.id, max(h.delay, h.crawl_delay * (h.robots <> 'OFF')), h.concurrency, h.next_at, h.backoff_until, h.robots,
    (SELECT total(t.taken) FROM sequences t WHERE t.host = h.id AND t.kind <> 'extract'),
    r.state, r.paused, r.active_sequences, r.slots, r.defs_version, r.max_pages, r.relinking,
    EXISTS (SELECT 1 FROM sequences o WHERE o.run = s.run AND o.rung_at IS NOT NULL AND o.id <> s.id
        AND o.kind <> 'extract')
FROM sequences s JOIN hosts h ON h.id = s.host JOIN runs r ON r.seq = s.run WHERE s.id = ?
"""
_PAGE_COUNTS = (
    "SELECT total(done + taken), total(done) FROM sequences WHERE run = ? AND kind = 'page' AND (? IS NULL OR grp = ?)"
)

_RESERVED_SECONDS = 1.0
"""How far ahead one lease may book the send times of a host with a delay."""
_SKIP_BATCH = 5000
_FETCHING_DIVISOR, _WAITING_DIVISOR = 2, 8
"""The part of the free slots that re-extraction takes while pages are fetched, and while they wait for a slot."""
_LIMIT_REACHED = -1


@dataclass(frozen=True, slots=True)
class Lease:
    """What a slice got."""

    jobs: tuple[LeasedJob, ...] = ()
    ring: bool = False
    """Ring the sequence again: it has work left that may be leased."""
    due: float | None = None
    """Boot-time second at which the sequence is to be looked at again; None: something else will ring."""
    left_for_others: bool = False
    """There was more, which is for other nodes: beyond this one's share of the host, or to be worked alone."""


@dataclass(frozen=True, slots=True)
class _SequenceState:
    """The row of `_READ`: a sequence, its host and its run, as they stand."""

    run: int
    kind: str
    group: str
    ready: int
    taken: int
    suspended: int
    max_pages: int | None
    host: int
    delay: float
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """What a node asks for: at most `free` jobs, at most `batch` of each sequence, under the lease `number`.

    A job in whose hands a node died is given alone, to a node (its epoch) that has `held` none.
    """

    node: int
    lease_id: int
    free_slots: int
    batch: int
    held_jobs: int = 0
    slots: int = 0
    """Its concurrency, where it asks for its fair share of a host and no more; 0: for all there is."""
    jobs_by_host: Mapping[int, int] = field(default_factory=dict)
    """Jobs in its hands by host, where it asks for its share."""


def lease(db: Database, wish: LeaseRequest, sequences: Sequence[int], now: float) -> list[Lease]:
    """Answer rings in one transaction. `now` is boot-time seconds. Raises Fenced where the node's epoch is over."""
    with db.transaction():
        if nodes.get_live_role(db, wish.node) is None:
            raise Fenced(f"node epoch {wish.node} is over", "Another process took its place; this one ends.")
        return lease_sequences(
            db, wish, sequences, now, lambda s, one: rings.answer_ring(db, s, now if one.ring else None)
        )


def lease_sequences(
    db: Database, wish: LeaseRequest, sequences: Iterable[int], now: float, answered: Callable[[int, Lease], None]
) -> list[Lease]:
    """Lease from sequences in their order, in the open transaction; those left when no slot is free ring again.

    `answered` deals with the ring of each before the next is judged: who has been served waits no longer.
    """
    got: list[Lease] = []
    for sequence in sequences:
        if wish.free_slots <= 0:
            got.append(Lease(ring=True))
            continue
        one = _lease_one(db, wish, sequence, now)
        got.append(one)
        answered(sequence, one)
        if one.jobs:
            wish = _remaining_request(wish, one.jobs)
    return got


def _remaining_request(wish: LeaseRequest, taken: Sequence[LeasedJob]) -> LeaseRequest:
    """What is still wished once these are taken: nothing beside a suspect."""
    host, loads = taken[0].host, 0 if taken[0].kind is JobKind.EXTRACT else len(taken)
    return replace(
        wish,
        free_slots=0 if any(job.crashes for job in taken) else wish.free_slots - len(taken),
        held_jobs=wish.held_jobs + len(taken),
        jobs_by_host={**wish.jobs_by_host, host: wish.jobs_by_host.get(host, 0) + loads},
    )


def _lease_one(db: Database, wish: LeaseRequest, sequence: int, now: float) -> Lease:
    row = db.one(_SEQUENCE_STATE, (sequence,))
    if row is None:
        return Lease()
    s = _SequenceState(*row)
    if s.kind == "extract":
        return _lease_extracts(db, wish, sequence, s)
    due = _blocked_until(s, now)
    if wish.slots and s.delay:
        return Lease()  # its send times are counted from now on, and a commit still has to reach the disk
    allowed, fair = _allowed_jobs(s, wish), _fair_share(s, wish)
    wanted = _pages_left(db, s, min(allowed, fair)) if due == 0 else 0
    if wanted == _LIMIT_REACHED:
        skipped = jobs.skip_ready(db, sequence, f"maxPages {s.max_pages} of {s.group} reached", _SKIP_BATCH)
        return Lease(ring=skipped == _SKIP_BATCH)
    found = candidates.list_due(db, sequence, 1, suspects=True) if wanted > 0 and not wish.held_jobs else []
    if wanted > 0 and not found:
        found = _distinct_pages(candidates.list_due(db, sequence, wanted))
    start, kind = max(now, s.next_at or 0.0), JobKind(s.kind)
    taken = tuple(
        candidates.to_leased_job(
            candidate, lease=wish.lease_id, run=s.run, sequence=sequence, host=s.host, kind=kind, group=s.group,
            send_at=start + i * s.delay if s.delay else None, delay=s.delay, defs=s.defs_version,
            links_too=bool(s.relinking),
        )
        for i, candidate in enumerate(found)
    )  # fmt: skip
    next_at = None
    if taken:
        jobs.take(db, [job.id for job in taken], wish.lease_id, wish.node)
        if s.delay:
            next_at = start + len(taken) * s.delay
            hosts.reserve(db, s.host, next_at)
    left = s.ready - len(taken)
    again = bool(taken) and left > 0 and s.host_taken + len(taken) < s.host_concurrency and not next_at
    if next_at is not None:
        # also where nothing is left: children may come while the host's clock runs
        due = next_at - rings.LOOKAHEAD
    return Lease(taken, again, due or None, left_for_others=due == 0 and fair < min(allowed, s.ready))


def _lease_extracts(db: Database, wish: LeaseRequest, sequence: int, s: _SequenceState) -> Lease:
    """Stored pages to be worked anew: no host is asked, so none is waited for; fetching goes first."""
    wanted = 0 if _is_suspended(s) else min(wish.free_slots, wish.batch)
    if s.active:
        # never nothing: a re-extraction that waits for the end of a crawl would wait forever
        wanted = min(wanted, max(1, wanted // (_WAITING_DIVISOR if s.others_waiting else _FETCHING_DIVISOR)))
    found = (
        stale_pages.list_candidates(db, sequence, s.group, s.defs_version, 1, suspects=True)
        if wanted and not wish.held_jobs
        else []
    )
    if wanted and not found:
        found = stale_pages.list_candidates(db, sequence, s.group, s.defs_version, wanted)
    taken = tuple(
        stale_pages.to_leased_job(
            row,
            lease=wish.lease_id,
            run=s.run,
            sequence=sequence,
            host=s.host,
            group=s.group,
            defs=s.defs_version,
            relinking=bool(s.relinking),
        )
        for row in found
    )
    if taken:
        jobs.take(db, [job.id for job in taken], wish.lease_id, wish.node)
    again = bool(taken) and s.ready > len(taken)
    return Lease(taken, again)


def _is_suspended(s: _SequenceState) -> bool:
    return bool(s.run_paused or s.suspended) or s.run_state not in ("SEEDING", "READY", "DRAINING")


def _blocked_until(s: _SequenceState, now: float) -> float | None:
    """0: leases are given; a boot-time second: not before; None: not until something else happens."""
    if _is_suspended(s):
        return None
    if s.kind != "robots" and s.robots == "WANTED":
        return None
    if s.backoff_until is not None and s.backoff_until > now:
        return s.backoff_until
    if s.delay and s.next_at is not None and s.next_at > now + rings.LOOKAHEAD:
        return s.next_at - rings.LOOKAHEAD
    return 0


def _allowed_jobs(s: _SequenceState, wish: LeaseRequest) -> int:
    """Jobs the sequence may take: its quota, or what nobody else waits for; at most its host's room and send times."""
    most = min(wish.free_slots, wish.batch)
    allowed = lease_limit(active=s.active, slots=s.slots, running=s.taken, free=wish.free_slots, batch=wish.batch)
    if allowed < most and not s.others_waiting:
        allowed = max(allowed, min(most, quota(1, s.slots) - s.taken))
    allowed = min(allowed, s.host_concurrency - int(s.host_taken))
    if s.delay:
        allowed = min(allowed, max(1, int(_RESERVED_SECONDS / s.delay)))
    return max(0, allowed)


def _fair_share(s: _SequenceState, wish: LeaseRequest) -> int:
    """What is left of the node's share of the host: it has a part of the host's room as of all slots, rounded up."""
    if not wish.slots:
        return wish.free_slots
    share_of_host = -(-s.host_concurrency * wish.slots // max(s.slots, wish.slots))
    return max(0, share_of_host - wish.jobs_by_host.get(s.host, 0))


def _pages_left(db: Database, s: _SequenceState, wanted: int) -> int:
    """`wanted`, cut to what the limits on pages leave; `_NO_MORE` where the group has had all its pages."""
    if s.kind != "page":
        return wanted
    if s.max_pages is not None:
        begun, done = _count_pages(db, s.run, s.group)
        if done >= s.max_pages:
            return _LIMIT_REACHED
        wanted = min(wanted, s.max_pages - begun)
    if s.run_max_pages is not None:
        wanted = min(wanted, s.run_max_pages - _count_pages(db, s.run, None)[0])
    return max(0, wanted)


def _count_pages(db: Database, run: int, group: str | None) -> tuple[int, int]:
    """Pages begun (taken or done) and pages done, of a group or of the run."""
    row = db.one(_PAGE_COUNTS, (run, group, group))
    assert row is not None
    return int(row[0]), int(row[1])


def _distinct_pages(candidates: list[list[Any]]) -> list[list[Any]]:
    """At most one candidate a page: a page is fetched once, and the others find its document."""
    seen: set[str] = set()
    kept = []
    for candidate in candidates:
        page = candidate[2] or candidate[1]
        if page not in seen:
            seen.add(page)
            kept.append(candidate)
    return kept
