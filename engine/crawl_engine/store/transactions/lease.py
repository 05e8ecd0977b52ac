"""Leases jobs of rung sequences to a node, within quotas and the limits of the hosts."""

import random
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field, json
from msgspec.structs import replace

from crawl_engine.model.job import (
    HostTerms,
    JobExtraction,
    JobKind,
    JobLineage,
    JobOrigin,
    LeasedJob,
    ReasonCode,
    lease_limit,
    quota,
)
from crawl_engine.store.db.connector import Database, id_list, json_row
from crawl_engine.store.read import candidates, stale_pages
from crawl_engine.store.read.candidates import DueJob
from crawl_engine.store.read.sent_request import SentRequest
from crawl_engine.store.read.stale_pages import DueExtract
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.refusals import GIVEN_UP
from crawl_engine.store.tables.job import jobs, rings
from crawl_engine.store.tables.job.holds import AFTER_LOGIN, FIRST_HOLD, POOLS, TAKEN
from crawl_engine.store.tables.run import nodes, page_limits
from crawl_engine.store.transactions.claims import claim_rung

_RESERVED_SECONDS = 1.0
"""How far ahead a lease reserves the send times of a host with a delay."""
_SKIP_BATCH = 1_000
"""Jobs skipped at once: SQLite keeps their old rows in memory until the savepoint is released."""
_FETCHING_DIVISOR, _WAITING_DIVISOR = 2, 8
"""Divisors of the slots that re-extraction takes while pages are fetched, and while fetches wait for a slot."""
_FEW_SEQUENCES = 4
"""So few are leased from one by one: once the others are answered, the last one may take all slots."""


class Lease(Struct, frozen=True):
    """What one rung sequence gave."""

    jobs: tuple[LeasedJob, ...] = ()
    ring: bool = False
    """It stays rung, or is rung again: more of its jobs may be leased."""
    due: float | None = None
    """Boot-time second at which to ring the sequence again; None: another event rings it."""
    left_for_others: bool = False
    """Jobs remain for other nodes: beyond this node's share of the host, or a suspect that must run alone."""

    @property
    def ends_ring(self) -> bool:
        """Whether the sequence no longer waits for a lease."""
        return not (self.ring or self.left_for_others)


class SequenceState(Struct, frozen=True, array_like=True):
    id: int
    run: int
    kind: str
    group: str
    ready: int
    taken: int
    hold: str | None
    """What keeps all its jobs from being sent (`holds.HOLDS`); None: nothing does."""
    host: int
    limiter: int
    """The host whose row has its limits: its own, or the first of those that have one limit together."""
    limited: str
    """What its limits are of: the host (`name:port`), or the pattern of those."""
    delay: float
    longest_delay: float
    throttled: bool
    host_concurrency: int
    next_at: float | None
    backoff_until: float | None
    host_taken: int
    active: int
    slots: int
    defs_version: int
    limits: str
    relinking: bool
    others_waiting: bool
    has_suspects: bool
    login: str
    login_number: int
    given_up: bool

    @property
    def host_limit(self) -> int:
        """Jobs of the host that nodes may hold: as many as it may be asked at once, and spare ones.

        The spare ones take the places of those that wait for their commit. They never take the slots of other hosts.
        """
        return self.host_concurrency + rings.spare_jobs(self.host_concurrency, self.slots, self.active)

    def draw_delay(self) -> float:
        """Seconds from the next request to the one after it; 0: no delay."""
        return self.delay and random.uniform(self.delay, max(self.delay, self.longest_delay))

    @property
    def is_limited(self) -> bool:
        """Whether a page limit of the group or the run applies."""
        return bool(self.limits)

    @property
    def is_plain(self) -> bool:
        """Whether its lease changes nothing that the leases of other hosts depend on, besides the free slots."""
        return not (self.is_limited or self.kind == JobKind.EXTRACT)


# if the robots.txt cannot be read, the login failed or the host was given up, no page is sent: jobs need no send times
_STATES = f"""
WITH {POOLS} SELECT json_group_array({json_row(SequenceState)}) FROM (
    SELECT s.id, s.run, s.kind, s.grp AS "group", s.ready, s.taken,
        {FIRST_HOLD} AS hold,
        h.id AS host, {hosts.LIMITER} AS limiter, coalesce(h.pool, h.key) AS limited,
        CASE WHEN (s.kind = 'robots' OR h.robots <> 'KNOWN' OR h.robots_fetched_at IS NOT NULL)
            AND (s.kind <> 'page' OR h.login <> 'FAILED') AND NOT {GIVEN_UP}
            THEN {hosts.EFFECTIVE_DELAY} ELSE 0.0 END AS delay,
        {hosts.LONGEST_DELAY} AS longest_delay, h.throttle AS throttled,
        {hosts.EFFECTIVE_CONCURRENCY} AS host_concurrency, {hosts.NEXT_AT} AS next_at,
        {hosts.BACKOFF_UNTIL} AS backoff_until,
        {TAKEN} AS host_taken, r.active_sequences AS active, r.slots,
        coalesce(r.defs_version, 0) AS defs_version,
        CASE WHEN s.kind = 'page' THEN {page_limits.CODES_OF_SEQUENCE} ELSE '' END AS limits, r.relinking,
        EXISTS (SELECT 1 FROM sequences o WHERE o.run = s.run AND o.rung_at IS NOT NULL AND o.id <> s.id
            AND o.kind <> 'extract') AS others_waiting,
        {candidates.HAS_SUSPECT} AS has_suspects, h.login, h.login_number, {GIVEN_UP} AS given_up
    FROM json_each(:ids) i CROSS JOIN sequences s ON s.id = i.value CROSS JOIN hosts h ON h.id = s.host
    CROSS JOIN runs r ON r.seq = s.run) one
"""
_state_decoder = json.Decoder(list[SequenceState], strict=False)


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


_SENDABLE = 16
"""Sequences read in search of one to lease from; the SQL leaves out those that a host, an operator or the defs hold."""
_ONE_JOB = LeaseRequest(node=0, lease_id=0, free_slots=1, batch=1)


def lease(db: Database, run: int, request: LeaseRequest, now: float) -> list[Lease]:
    """Lease from the sequences that have been rung for the longest time, in one transaction.

    `now` is boot-time seconds. One more is listed than there are free slots: its lease tells that others wait.
    Raises Fenced if the node's epoch is over.
    """
    limit = request.free_slots + 1
    with db.transaction():
        nodes.check_live(db, request.node)
        states = read_sequences(db, claim_rung(db, run, request.node, limit, now).sequences, now)
        return lease_sequences(db, request, states, now)


def lease_sequences(
    db: Database, request: LeaseRequest, sequences: Sequence[SequenceState], now: float, *, answers: bool = True
) -> list[Lease]:
    """Lease from sequences in their order, in the open transaction; those left when no slot is free stay rung.

    `answers`: end the rings of the others, or renew them where work is left; these sequences then wait behind all.
    """
    leases: list[Lease] = []
    suspects = not request.held_jobs and any(state.has_suspects for state in sequences)
    for part in _split(sequences, one_by_one=suspects or len(sequences) <= _FEW_SEQUENCES):
        states = part
        if leases and request.free_slots > 0:  # earlier parts have changed what is read of hosts and limits
            states = read_sequences(db, [state.id for state in part], now)
        given = _lease_part(db, request, states, now, suspects=suspects and not request.held_jobs)
        leases += given
        request = _remaining_request(request, [job for got in given for job in got.jobs])
        if answers:
            answered = list(zip(states, given, strict=True))
            rings.end(db, [state.id for state, got in answered if got.ends_ring])
            rings.renew(db, [state.id for state, got in answered if got.ring and got.jobs], now)
    return leases


def _split(states: Sequence[SequenceState], *, one_by_one: bool) -> Iterator[list[SequenceState]]:
    """Parts to lease from at once: plain sequences with different limits, or a single one."""
    part: list[SequenceState] = []
    for state in states:
        together = state.is_plain and not one_by_one and state.limiter not in {other.limiter for other in part}
        if part and not (together and part[0].is_plain):
            yield part
            part = []
        part.append(state)
    if part:
        yield part


def _remaining_request(request: LeaseRequest, taken: Sequence[LeasedJob]) -> LeaseRequest:
    """The rest of a request once these jobs are taken: nothing if one is a suspect."""
    jobs_by_host = dict(request.jobs_by_host)
    for job in taken:
        jobs_by_host[job.host] = jobs_by_host.get(job.host, 0) + (job.kind is not JobKind.EXTRACT)
    return replace(
        request,
        free_slots=0 if any(job.crashes for job in taken) else request.free_slots - len(taken),
        held_jobs=request.held_jobs + len(taken),
        jobs_by_host=jobs_by_host,
    )


def read_sequences(db: Database, sequences: Sequence[int], now: float) -> list[SequenceState]:
    """The states of sequences now, in their order. One JSON value: each row would release the interpreter lock."""
    states = {
        state.id: state for state in _state_decoder.decode(db.value(_STATES, {"ids": id_list(sequences), "now": now}))
    }
    return [states[sequence] for sequence in sequences if sequence in states]


class _Allowance(Struct, frozen=True):
    """How many jobs a sequence may give, and its lease if it gives none."""

    limit: int
    otherwise: Lease


def _lease_part(
    db: Database, request: LeaseRequest, states: Sequence[SequenceState], now: float, *, suspects: bool
) -> list[Lease]:
    """Lease from plain sequences with different limits, or from a single one. `suspects`: some may have suspects."""
    if states[0].kind == JobKind.EXTRACT and request.free_slots > 0:
        return [_lease_extracts(db, request, states[0])]
    allowances: list[_Allowance] = []
    rest = request
    for state in states:
        allowance = _allow(db, rest, state, now)
        allowances.append(allowance)
        rest = replace(rest, free_slots=rest.free_slots - min(allowance.limit, state.ready))
    limits = {state.id: allowance.limit for state, allowance in zip(states, allowances, strict=True) if allowance.limit}
    chosen = candidates.list_due(db, dict.fromkeys(limits, 1), suspects=True) if suspects else {}
    chosen = chosen or candidates.list_due(db, limits)
    leases = [
        _give(request, state, allowance.otherwise, _distinct_pages(chosen.get(state.id, ())), now)
        for state, allowance in zip(states, allowances, strict=True)
    ]
    jobs.take(db, [job.id for got in leases for job in got.jobs], request.lease_id, request.node)
    given = [(state, got) for state, got in zip(states, leases, strict=True) if got.jobs]
    hosts.reserve(db, {state.limiter: got.due + rings.LOOKAHEAD for state, got in given if got.due is not None})
    for state, got in given:
        if state.is_limited:
            page_limits.reserve(db, state.id, state.limits.split(), len(got.jobs))
    return leases


def _allow(db: Database, request: LeaseRequest, state: SequenceState, now: float) -> _Allowance:
    if request.free_slots <= 0:
        return _Allowance(0, Lease(ring=True))
    if request.slots and state.delay:  # send times count from now on, but a commit has yet to reach the disk
        return _Allowance(0, Lease(left_for_others=True))
    due = blocked_until(state, now)
    if due != 0:
        return _Allowance(0, Lease(due=due))
    allowed, fair = allowed_jobs(state, request), _fair_share(state, request)
    limit = min(allowed, fair)
    if state.is_limited:
        rooms = page_limits.read_rooms(db, state.id)
        limit = min([limit, *(room.left for room in rooms)])
        over = next((room for room in rooms if not room.limit.ends_run and page_limits.is_over(db, room)), None)
        if over is not None:
            skipped = jobs.skip_ready(db, state.id, f"{over} reached", _SKIP_BATCH, ReasonCode.LIMIT)
            return _Allowance(0, Lease(ring=skipped == _SKIP_BATCH))
    return _Allowance(limit, Lease(left_for_others=fair < min(allowed, state.ready)))


def _give(request: LeaseRequest, state: SequenceState, otherwise: Lease, due: Sequence[DueJob], now: float) -> Lease:
    """The lease of a sequence that gives these jobs."""
    if not due:
        return otherwise
    send_at = max(now, state.next_at or 0.0)
    leased = []
    for job in due:
        delay = state.draw_delay()
        leased.append(to_leased_job(state, request, job, send_at if delay else None, delay))
        send_at += delay
    if state.delay:  # even if no job is left: child jobs may come before the host's delay is over
        return replace(otherwise, jobs=tuple(leased), due=send_at - rings.LOOKAHEAD)
    again = state.ready > len(leased) and state.host_taken + len(leased) < state.host_limit
    return replace(otherwise, jobs=tuple(leased), ring=again)


def read_sequence(db: Database, sequence: int, now: float) -> SequenceState | None:
    return next(iter(read_sequences(db, [sequence], now)), None)


def may_take_new_job(state: SequenceState, request: LeaseRequest, now: float) -> bool:
    """Whether a job that is created now would be leased at once, before all others of its sequence, without limits."""
    if state.kind != JobKind.PAGE or state.ready or state.is_limited or state.delay or blocked_until(state, now) != 0:
        return False
    return min(allowed_jobs(state, request), _fair_share(state, request)) > 0


def to_leased_job(
    state: SequenceState, request: LeaseRequest, due: DueJob, send_at: float | None, delay: float = 0.0
) -> LeasedJob:
    """A due job, leased."""
    sent = SentRequest.from_rows(due.link, due.locator_request, located=due.origin == JobOrigin.LOCATOR)
    lineage = JobLineage(
        due.locator_id, due.root, due.locator or "", due.root_url, due.origin, due.depth, due.priority,
        due.may_leave_host, due.carried, sent.link, sent.page_number, due.fresh_since, sent.cookies_along,
    )  # fmt: skip
    terms = HostTerms(
        send_at, delay, state.host_concurrency, state.throttled, tuple(state.limits.split()),
        state.login_number if state.login != "OFF" else 0, state.login == "FAILED" and state.kind in AFTER_LOGIN,
        state.given_up,
    )  # fmt: skip
    return LeasedJob(
        id=due.id, lease=request.lease_id, run=state.run, sequence=state.id, host=state.host, kind=JobKind(state.kind),
        group=state.group, url=due.url, lineage=lineage, attempts=due.attempts, crashes=due.crashes, hops=due.hops,
        target=due.target, request=sent.request(due.url, due.root_url), defs_version=state.defs_version, terms=terms,
        extraction=JobExtraction(links_stale=state.relinking),
    )  # fmt: skip


def _to_leased_extract(state: SequenceState, request: LeaseRequest, due: DueExtract) -> LeasedJob:
    """A due re-extraction, leased; `stored` is None if the document is gone."""
    sent = SentRequest.from_rows(due.link, due.locator_request, located=due.origin == JobOrigin.LOCATOR)
    # rows may depend on what the page carries, and all records tell whether it is the last of a series
    is_alone = due.carried is None and sent.page_number is None
    lineage = JobLineage(
        due.locator_id, due.root, due.locator or "", due.root_url, JobOrigin.LINK, due.depth, due.priority,
        carried=due.carried, link=sent.link, page_number=sent.page_number, cookies=sent.cookies_along,
    )  # fmt: skip
    return LeasedJob(
        id=due.id, lease=request.lease_id, run=state.run, sequence=state.id, host=state.host, kind=JobKind.EXTRACT,
        group=state.group, url=due.url, lineage=lineage, attempts=due.attempts, crashes=due.crashes, hops=0,
        target=None, request=sent.request(due.url, due.root_url), defs_version=state.defs_version, stored=due.stored,
        extraction=JobExtraction(
            due.page_job, (due.data_defs or ()) if is_alone else (), due.links_changed or state.relinking
        ),
    )  # fmt: skip


def _lease_extracts(db: Database, request: LeaseRequest, state: SequenceState) -> Lease:
    """Lease re-extractions: they need no host and no delay; fetches come first."""
    limit = 0 if state.hold else min(request.free_slots, request.batch)
    if state.active:
        # at least one, else re-extractions would wait for the end of the crawl
        limit = min(limit, max(1, limit // (_WAITING_DIVISOR if state.others_waiting else _FETCHING_DIVISOR)))
    chosen: list[DueExtract] = []
    if limit and not request.held_jobs:
        chosen = stale_pages.list_candidates(db, state.id, state.group, state.defs_version, 1, suspects=True)
    if limit and not chosen:
        chosen = stale_pages.list_candidates(db, state.id, state.group, state.defs_version, limit)
    taken = tuple(_to_leased_extract(state, request, due) for due in chosen)
    if taken:
        jobs.take(db, [job.id for job in taken], request.lease_id, request.node)
    return Lease(taken, ring=bool(taken) and state.ready > len(taken))


def blocked_until(state: SequenceState, now: float) -> float | None:
    """When leases are possible. 0: now; a boot-time second: not before it; None: after some other event."""
    if state.hold is not None:
        return state.backoff_until if state.hold == "backoff" else None
    if state.delay and state.next_at is not None and state.next_at > now + rings.LOOKAHEAD:
        return state.next_at - rings.LOOKAHEAD
    return 0


def allowed_jobs(state: SequenceState, request: LeaseRequest) -> int:
    """Jobs the sequence may take: its quota, or more if no other waits; limited by its host's concurrency and delay."""
    most = min(request.free_slots, request.batch)
    quotas = {"active": state.active, "slots": state.slots, "running": state.taken}
    allowed = lease_limit(**quotas, free=request.free_slots, batch=request.batch)
    if allowed < most and not state.others_waiting:
        allowed = max(allowed, min(most, quota(1, state.slots) - state.taken))
    allowed = min(allowed, state.host_limit - state.host_taken)
    if state.delay:
        allowed = min(allowed, max(1, int(_RESERVED_SECONDS / max(state.delay, state.longest_delay))))
    return max(0, allowed)


def _fair_share(state: SequenceState, request: LeaseRequest) -> int:
    """The rest of the node's share of the host's concurrency: in proportion to its slots, rounded up."""
    if not request.slots:
        return request.free_slots
    share_of_host = -(-state.host_limit * request.slots // max(state.slots, request.slots))
    return max(0, share_of_host - request.jobs_by_host.get(state.host, 0))


def _distinct_pages(due: Sequence[DueJob]) -> list[DueJob]:
    """At most one job per page: the page is fetched once, and the other jobs use its document."""
    pages: dict[tuple[str, str | None], DueJob] = {}
    for job in due:
        pages.setdefault((job.target or job.url, job.body), job)
    return list(pages.values())


def has_leasable_jobs(db: Database, run: int, now: float, *, more_slots: int, shared: bool = False) -> bool:
    """Whether a further node with `more_slots` slots could lease a job at once.

    `now`: boot-time seconds. Quotas count its slots. `shared`: or as soon as a node has worked one of its jobs, since
    nodes share the concurrency of a host. Costs an indexed query, and a read for each candidate.
    """
    for state in read_sequences(db, rings.list_sendable(db, run, now, _SENDABLE, shared=shared), now):
        taken = 0 if shared else state.host_taken
        if _is_leasable(db, replace(state, slots=state.slots + more_slots, host_taken=taken), now):
            return True
    return False


def _is_leasable(db: Database, state: SequenceState, now: float) -> bool:
    if state.kind == JobKind.EXTRACT:
        return state.hold is None
    if blocked_until(state, now) != 0 or not allowed_jobs(state, _ONE_JOB):
        return False
    return not state.is_limited or all(room.left for room in page_limits.read_rooms(db, state.id))
